"""The functions a JAX program calls."""

from mosaic_tpu.builder.errors import internal_folder as _internal_folder

_internal_folder(__path__[0])
