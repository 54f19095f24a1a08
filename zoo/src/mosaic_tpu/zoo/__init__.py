"""Kernels ready to call from JAX, byte for byte what Pallas would emit.

`matmul` and `ragged_paged_attention` take the arguments of the jax wheel's functions; `KERNELS` describes every kernel.
"""

from mosaic_tpu.zoo.api.gated_delta_net import gated_delta_net
from mosaic_tpu.zoo.api.matmul import matmul
from mosaic_tpu.zoo.api.ragged_paged_attention import ragged_paged_attention
from mosaic_tpu.zoo.catalogue import KERNELS
from mosaic_tpu.zoo.metadata import KernelInfo

__all__ = ["KERNELS", "KernelInfo", "gated_delta_net", "matmul", "ragged_paged_attention"]
