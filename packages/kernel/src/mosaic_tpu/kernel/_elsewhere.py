"""What a kernel does on a platform that is not a TPU: the one place where something else than a TPU can run it.

The rule gets what the TPU's rule gets, and returns the results' MLIR values as it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from mosaic_tpu.kernel.errors import NoTPUError

if TYPE_CHECKING:
    from mosaic_tpu.kernel._primitive import Call


def lower_elsewhere(context: Any, *operands: Any, call: Call) -> NoReturn:
    """Refuse: only TPUs run kernels."""
    del operands
    platforms = ", ".join(p for p in context.platforms or context.module_context.platforms if p != "tpu")
    raise NoTPUError(f"the kernel would run on {platforms}, and only TPUs run Mosaic kernels", op=call.kernel.name)
