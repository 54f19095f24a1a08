"""Everything the simulator takes from jaxlib and JAX to run the StableHLO around a kernel. Nothing else imports it.

================================  ===================================================================================
name                              if it moves
================================  ===================================================================================
``_jax_mlir_ext.inlined_…``       copies a callee's ops to the insertion point; else: clone them one by one
``Client.compile_and_load``       what `jax.jit` compiles with; else: a primitive that lowers to the module's ops
================================  ===================================================================================

JAX is imported by `compiled`, the last function, and only when there is something to compile.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from jaxlib.mlir._mlir_libs import _jax_mlir_ext

from mosaic_tpu.sim._compat import PassManager, open_ir
from mosaic_tpu.sim.errors import MissingJaxError

Array = np.ndarray[Any, np.dtype[Any]]

_ext: Final[Any] = _jax_mlir_ext


def inline(call: Any, callee: Any) -> None:
    """Put the callee's ops in place of a ``func.call``."""
    with call.context, call.location, open_ir.InsertionPoint(call):
        made = _ext.inlined_func_call(callee.operation, list(call.operands))
    for result, value in zip(call.results, made, strict=True):
        result.replace_all_uses_with(value)
    call.operation.erase()


def drop_unused_functions(module: Any) -> None:
    """Erase private functions that nothing refers to."""
    PassManager.parse("builtin.module(symbol-dce)", context=module.context).run(module.operation)


def return_instead(function: Any, stop: int, values: Sequence[Any]) -> None:
    """End a function of one block before its op number ``stop``, and have it return these values."""
    (block,) = function.regions[0].blocks
    for op in reversed(list(block.operations)[stop:]):
        op.operation.erase()
    attributes = function.attributes
    with function.context, open_ir.Location.unknown(function.context):
        open_ir.Operation.create("func.return", operands=list(values), ip=open_ir.InsertionPoint(block))
        types = open_ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in values])
        attributes["function_type"] = open_ir.TypeAttr.get(types)
    for name in ("arg_attrs", "res_attrs"):  # shardings and donations of what it took and returned before
        if name in attributes:
            del attributes[name]


def bytecode(module: Any) -> bytes:
    """The module in MLIR's binary form."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def compiled(module: bytes) -> Callable[[Sequence[Array]], list[Array]]:
    """The module's ``main`` as a function of NumPy arrays, compiled by XLA for this machine's CPU.

    Raises:
        MissingJaxError: JAX is not installed.
        RuntimeError: XLA refuses it.
    """
    try:
        import jax
    except ModuleNotFoundError:
        raise MissingJaxError("what a program computes around its kernels needs JAX", op="simulate") from None
    from jaxlib import xla_client

    open_jax, xla = cast("Any", jax), cast("Any", xla_client)
    device = open_jax.local_devices(backend="cpu")[0]
    options: dict[str, Any] = {
        "executable_devices": xla.DeviceList((device,)),
        "compile_options": xla.CompileOptions(),
    }
    executable = device.client.compile_and_load(module, **options)

    def run(arrays: Sequence[Array]) -> list[Array]:
        with open_jax.enable_x64(True):  # or 64-bit arrays would lose half of their bits
            given = [open_jax.device_put(array, device) for array in arrays]
            results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
            return [np.asarray(result) for (result,) in results]

    return run
