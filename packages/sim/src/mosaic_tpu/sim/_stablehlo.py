"""Everything the simulator takes from jaxlib and JAX to run the StableHLO around a kernel. Nothing else imports it.

================================  ===================================================================================
name                              if it moves
================================  ===================================================================================
``_jax_mlir_ext.register_…``      adds the upstream dialects to a registry; JAX's own context is made with it
``_jax_mlir_ext.inlined_…``       copies a callee's ops to the insertion point; else: clone them one by one
``jaxlib.mlir.dialects``          ``register_dialect`` of stablehlo, chlo and sdy
``Client.compile_and_load``       what `jax.jit` compiles with; else: a primitive that lowers to the module's ops
================================  ===================================================================================

JAX is imported by `compiled`, the last function, and only when there is something to compile.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo
from jaxlib.mlir.passmanager import PassManager

from mosaic_tpu.sim.errors import MissingJaxError

Array = np.ndarray[Any, np.dtype[Any]]

open_ir: Final = cast("Any", ir)
_ext: Final[Any] = _jax_mlir_ext
_dialects: Final[tuple[Any, ...]] = (stablehlo, chlo, sdy)

#: What MLIR raises for a text it cannot read or a module that does not verify.
MLIRError: Final = cast("type[Exception]", ir.MLIRError)


def parse(text: str) -> Any:
    """A StableHLO module, verified.

    Raises:
        MLIRError: it is none.
    """
    registry = open_ir.DialectRegistry()
    _ext.register_dialects(registry)
    context = open_ir.Context()
    context.append_dialect_registry(registry)
    for dialect in _dialects:
        dialect.register_dialect(context)
    return open_ir.Module.parse(text, context=context)


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
