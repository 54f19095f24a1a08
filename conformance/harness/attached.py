"""Whether a TPU is attached to this machine."""

from __future__ import annotations

import functools

import jax

NO_TPU = "No TPU is attached: kernels were compared, lowered and compiled, and not run on hardware."


@functools.cache
def tpu_attached() -> bool:
    """Whether JAX has a TPU to run on."""
    return jax.default_backend() == "tpu"
