"""What is said of the kernels needs no JAX; the functions are there all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mosaic_tpu import zoo


def test_the_catalogue_is_read_without_jax() -> None:
    code = (
        "import sys; from mosaic_tpu.zoo import KERNELS; [(i.title, i.twin, [*i.fields]) for i in KERNELS.values()]; "
        "print(sorted({'jax', 'jaxlib', 'numpy', 'mosaic_tpu.kernel', 'mosaic_tpu.builder'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_public_names_are_listed_and_others_are_refused() -> None:
    assert {*zoo.__all__} <= {*dir(zoo)}
    assert zoo.matmul is zoo.KERNELS["matmul"].function
    with pytest.raises(AttributeError, match="has no attribute 'no_such_kernel'"):
        _ = zoo.no_such_kernel
