"""Whether a TPU is attached to this machine; run as a program, says so in one line: `tpu`, or the sentence below."""

from __future__ import annotations

import functools

import jax

NO_TPU = "No TPU is attached: kernels were compared, lowered and compiled, and not run on hardware."


@functools.cache
def tpu_attached() -> bool:
    """Whether JAX has a TPU to run on."""
    return jax.default_backend() == "tpu"


if __name__ == "__main__":
    print("tpu" if tpu_attached() else NO_TPU)
