"""Everything the builder takes from jaxlib, and every difference between its releases. Nothing else imports it.

jaxlib's MLIR bindings are not a public API; the names below have been stable from jaxlib 0.11 to 0.12.

===============================  ==========================================================================
name                             if it moves
===============================  ==========================================================================
``jaxlib.mlir.ir``               the MLIR Python bindings; any build of them with the same C API will do
``…_mlir_libs._tpu_ext``         ``register_dialect`` and the private functions of the tpu dialect
``jaxlib.mosaic.python.tpu``     generated op classes of the tpu dialect
``tpu.private_unzip_debug_…``    0.12 and later: moves locations out of the body; absent before
``_jax.Traceback``, ``…Cache``  the Python stack as an MLIR location, in C++: JAX's own way; a walk over
                                 `sys._getframe` does the same, ten times slower
``…ext.inlined_func_call``       clones the ops of a function in C++; `ir.Operation.clone` one by one does the same
``jax_hlo_source_file_…_regex``  JAX's setting of what to leave out of the names of source files; read where JAX is
                                 imported, else from the environment as JAX would read it
``_jax_mlir_ext.register_…``     adds the upstream dialects to a registry; JAX's own context is made with it
===============================  ==========================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, Final, cast

import jaxlib.version
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from jaxlib.mlir import ir as ir
from jaxlib.mlir._mlir_libs import _tpu_ext
from jaxlib.mlir._mlir_libs._jax_mlir_ext import TracebackToLocationCache as _TracebackToLocationCache
from jaxlib.mlir._mlir_libs._jax_mlir_ext import inlined_func_call as _inlined_func_call  # pyright: ignore
from jaxlib.mlir._mlir_libs._jax_mlir_ext import register_dialects as _register_dialects
from jaxlib.mlir.passmanager import PassManager as PassManager

_tpu: Final[Any] = _tpu_ext
#: jaxlib's stubs leave open what operations, their results and blocks hold; that is said here, once.
open_ir: Final = cast("Any", ir)
_open_location_cache: Final = cast("Any", _TracebackToLocationCache)
#: Clone a one-block function's ops at the current insertion point, on these operands, under this location.
inlined_func_call: Final = cast("Any", _inlined_func_call)
type IrValue = ir.Value[Any]
type IrOperation = Any
type IrBlock = Any
_DIALECTS: Final = ("func", "arith", "math", "vector", "memref", "scf", "cf")

JAXLIB_VERSION: Final[tuple[int, ...]] = tuple(int(p) for p in jaxlib.version.__version__.split(".")[:3])


def tpu_ops() -> Any:
    """The generated classes of the tpu dialect's ops; a fifth of the import's time, so only for what needs them."""
    from jaxlib.mosaic.python import tpu

    return tpu


#: 0.12 names the module after the kernel; 0.11 leaves the module without a name.
MODULE_HAS_NAME: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 waits with ``tpu.wait_dma {wait_target}``; before, Pallas emitted ``tpu.wait_dma2``.
PALLAS_WAITS_WITH_WAIT_DMA: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 tiles by ``tpu.concatenate``; ``tpu.repeat`` is gone.
HAS_REPEAT: Final = JAXLIB_VERSION < (0, 12, 0)
#: 0.12 drops a ``pltpu.bitcast`` that leaves the MLIR type as it is (u8 to i8); before, it was emitted.
PALLAS_DROPS_IDENTITY_BITCAST: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 lowers a `lax.pad` of negative width to a slice; before, it failed.
PALLAS_PADS_BY_LESS: Final = JAXLIB_VERSION >= (0, 12, 0)
#: JAX 0.12 scales the operands of `jnp.hypot` by a power of two; before, it divided by the larger.
PALLAS_SCALES_HYPOT: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 lowers `lax.mulhi`; before, it was not there.
PALLAS_HAS_MULHI: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 lowers a dynamic fori_loop to one scf.for; before, a main loop and a remainder loop.
DYNAMIC_FORI_IS_ONE_LOOP: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 drops what nobody reads of a while loop and of all in it, which a counted loop is if its length is known at run
#: time only; before, nothing was dropped there.
DROPS_IN_WHILE_LOOPS: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 divides a device's number without a sign when it looks for its place on a mesh.
PALLAS_COUNTS_DEVICES_UNSIGNED: Final = JAXLIB_VERSION >= (0, 12, 0)
#: 0.12 lets a pipeline buffer outputs as deeply as inputs, and traces its indices from the first one on; before, an
#: output had two slots at most, was waited for at the next step, and what Python knew of the first indices it computed.
PIPELINE_BUFFERS_OUTPUTS: Final = JAXLIB_VERSION >= (0, 12, 0)

#: The IR version Pallas targets without a TPU backend or under jax.export (forward compatible).
FORWARD_COMPATIBLE_IR_VERSION: Final = 15


def new_context() -> ir.Context:
    """A context that holds the dialects a Mosaic kernel uses; nothing of JAX is imported."""
    registry = ir.DialectRegistry()
    _register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for name in _DIALECTS:
        context.get_dialect_descriptor(name)  # loads it
    _tpu.register_dialect(context)
    return context


def unzip_debug_locations(module: ir.Operation) -> bytes | None:
    """Move the locations out of ``module`` (0.12 and later); ``None`` where jaxlib cannot."""
    unzip = getattr(_tpu, "private_unzip_debug_locations", None)
    return None if unzip is None else unzip(module)


def communication(module: ir.Operation) -> tuple[bool, bool]:
    """Whether the kernel communicates with other devices, and whether it uses a custom barrier."""
    has_communication, has_custom_barrier = _tpu.private_has_communication(module)
    return has_communication, has_custom_barrier


def left_out_of_filenames() -> str | None:
    """The pattern of JAX's ``jax_hlo_source_file_canonicalization_regex``, as JAX has it now or would have it."""
    config: Any = sys.modules.get("jax._src.config")
    if config is None:
        return os.environ.get("JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX")
    return config.hlo_source_file_canonicalization_regex.value


#: Take the Python stack as it is now, for `location_cache`.
python_traceback: Final = cast("Any", _jax).Traceback.get_traceback


def location_cache(
    filename_of: Callable[[CodeType], str | None], context: ir.Context
) -> Callable[[object], ir.Location]:
    """From a traceback to the location of its innermost frame for which ``filename_of`` gives a name."""
    return _open_location_cache(code_to_filename=filename_of, frame_limit=1, context=context).get
