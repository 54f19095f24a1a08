"""Checks of the arrays given to a kernel: shapes and types in every call, contents by these functions, on request."""

from mosaic_tpu.builder.errors import internal_folder as _internal_folder
from mosaic_tpu.zoo.validation.gated_delta_net import validate_gated_delta_net
from mosaic_tpu.zoo.validation.ragged_paged_attention import validate_ragged_paged_attention

_internal_folder(__path__[0])

__all__ = ["validate_gated_delta_net", "validate_ragged_paged_attention"]
