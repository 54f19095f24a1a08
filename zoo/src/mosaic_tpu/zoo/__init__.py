"""Kernels ready to call from JAX, byte for byte what Pallas would emit.

`matmul` and `ragged_paged_attention` take the arguments of the jax wheel's functions; `KERNELS` describes every kernel.
JAX is imported with the first function that is asked for: a list of the kernels does not need it.
"""

from typing import TYPE_CHECKING, Any

from mosaic_tpu.zoo.catalogue import KERNELS
from mosaic_tpu.zoo.metadata import KernelInfo

if TYPE_CHECKING:
    from mosaic_tpu.zoo.api.gated_delta_net import gated_delta_net
    from mosaic_tpu.zoo.api.matmul import matmul
    from mosaic_tpu.zoo.api.ragged_paged_attention import ragged_paged_attention

__all__ = ["KERNELS", "KernelInfo", "gated_delta_net", "matmul", "ragged_paged_attention"]


def __getattr__(name: str) -> Any:
    if name in KERNELS:
        return KERNELS[name].function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *KERNELS})
