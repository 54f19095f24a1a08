"""The estimate of `specialize` against the compiler's own, where that one can be trusted: both are printed.

Only kernels whose trip counts are constants have one. For a kernel like ragged paged attention, `specialize` is all
there is; that it counts right is shown here, and in `packages/aot/tests`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas.ops.tpu import flash_attention

from conformance.conftest import Record
from mosaic_tpu import aot, zoo
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig

TARGETS: Final = ("v5e", "v6e", "tpu7x")
#: How far both may be apart.
TOLERANCE: Final = 0.15


def matmul(m: int, n: int, k: int, block_m: int, block_n: int, block_k: int) -> str:
    cfg = MatmulConfig(m=m, n=n, k=k, block_m=block_m, block_n=block_n, block_k=block_k)
    return zoo.KERNELS["matmul"].kernel.lower(cfg).stablehlo


def flash(heads: int, tokens: int, block_q: int, block_k: int) -> str:
    blocks = flash_attention.BlockSizes(block_q=block_q, block_k_major=block_k, block_k=block_k, block_b=1)
    function: Callable[..., Any] = functools.partial(flash_attention.flash_attention, block_sizes=blocks)
    shapes = [jax.ShapeDtypeStruct((1, heads, tokens, 128), jnp.bfloat16)] * 3
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()


KERNELS: Final = {
    "matmul 512³ in 128³": lambda: matmul(512, 512, 512, 128, 128, 128),
    "matmul 1024³ in 256³": lambda: matmul(1024, 1024, 1024, 256, 256, 256),
    "matmul 512×1024×1024 in 512×128×256": lambda: matmul(512, 1024, 1024, 512, 128, 256),
    "matmul 1024×512×1024 in 128×512×512": lambda: matmul(1024, 512, 1024, 128, 512, 512),
    "flash 4×1024 in 256×512": lambda: flash(4, 1024, 256, 512),
    "flash 2×1024 in 512×512": lambda: flash(2, 1024, 512, 512),
    "flash 2×512 in 128×128": lambda: flash(2, 512, 128, 128),
    "matmul 768³ in 384×256×384": lambda: matmul(768, 768, 768, 384, 256, 384),
    "flash 2×1024 in 256×256": lambda: flash(2, 1024, 256, 256),
}

pytestmark = pytest.mark.usefixtures("newest_compiler")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_counted_runs_come_near_the_compilers_estimate(name: str, target: str, record: Record) -> None:
    found = aot.specialize(KERNELS[name](), target)
    own = found.compiler
    assert own.trustworthy, own.why
    assert own.cycles
    off = found.cycles / own.cycles - 1
    record("estimates", kernel=name, target=target, counted=round(found.cycles), compiler=own.cycles,
           off=f"{off:+.0%}")  # fmt: skip
    assert abs(off) < TOLERANCE
