"""`nox -s measure -- latencies`: are the latencies that `mosaic_tpu.aot.specialize` reckons with the TPU compiler's?

A probe is a kernel with a number of steps of which each waits for the one before. The compiler's estimate of a long one
and of a short one tell what a step takes, and so does `specialize`: what they differ by is missing in the latency.
Then whole kernels, to which nothing is fitted: their estimates against the compiler's own.

The exit code is 1 if a latency or an estimate is off by more than its tolerance.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention

from conformance.harness.report import to_table
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot, zoo
from mosaic_tpu.aot._progress import Progress
from mosaic_tpu.aot.schedule.machine import Latencies, machine
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig

#: How far an estimate and the compiler's own may be apart.
TOLERANCE: Final = 0.1
#: How far a step of a probe may be: as a share of it, or in cycles.
OF_STEP: Final = (0.02, 4.0)
#: Generations that the compiler makes estimates for.
ESTIMATED: Final = tuple(name for name, target in aot.TARGETS.items() if machine(target).estimated)
#: Steps of the short probe and the long one.
STEPS: Final = (4, 8)


def _lowered(call: Callable[..., Any], *shapes: jax.ShapeDtypeStruct) -> str:
    return jax.jit(call).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()


def _chain(step: Callable[[Any], Any], shape: tuple[int, int], steps: int) -> str:
    """A value that goes through a step again and again."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        value = x_ref[...]
        for _ in range(steps):
            value = step(value)
        o_ref[...] = value

    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    return _lowered(pl.pallas_call(kernel, out_shape=x), x)


def _copied(fetches: bool, steps: int) -> str:
    """Copies of a tile from HBM, or to it, each waited for before the next."""

    def kernel(x_ref: Any, o_ref: Any, tile: Any, semaphore: Any) -> None:
        for n in range(steps):
            row = pl.ds(8 * n, 8)
            ends = (x_ref.at[row], tile.at[row]) if fetches else (tile.at[row], o_ref.at[row])
            pltpu.make_async_copy(*ends, semaphore).start()
            pltpu.make_async_copy(*ends, semaphore).wait()

    far, x = pl.BlockSpec(memory_space=pl.ANY), jax.ShapeDtypeStruct((8 * steps, 128), jnp.float32)
    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    return _lowered(pl.pallas_call(kernel, out_shape=x, in_specs=[far], out_specs=far, scratch_shapes=scratch), x)


def _lane_sum(v: Any) -> Any:
    return v * 0 + jnp.sum(v, axis=1, keepdims=True)


def _square(v: Any) -> Any:
    return jnp.dot(v.astype(jnp.bfloat16), v.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


#: A kernel of so many steps, by the latency that each of them has.
PROBES: Final[Mapping[str, Callable[[int], str]]] = {
    "fetch": functools.partial(_copied, True),
    "store": functools.partial(_copied, False),
    "eup": functools.partial(_chain, jnp.exp, (8, 128)),
    "xlu": functools.partial(_chain, _lane_sum, (8, 128)),
    "mxu": functools.partial(_chain, _square, (256, 256)),
}


def matmul(m: int, n: int, k: int, block_m: int, block_n: int, block_k: int) -> str:
    cfg = MatmulConfig(m=m, n=n, k=k, block_m=block_m, block_n=block_n, block_k=block_k)
    return zoo.KERNELS["matmul"].kernel.lower(cfg).stablehlo


def flash(heads: int, tokens: int, block_q: int, block_k: int) -> str:
    blocks = flash_attention.BlockSizes(block_q=block_q, block_k_major=block_k, block_k=block_k, block_b=1)
    function: Callable[..., Any] = functools.partial(flash_attention.flash_attention, block_sizes=blocks)
    return _lowered(function, *[jax.ShapeDtypeStruct((1, heads, tokens, 128), jnp.bfloat16)] * 3)


def added(rows: int, block: int, buffers: int) -> str:
    """``x + y``, pipelined with one buffer or two: copies and hardly anything else."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    mode = None if buffers == 2 else pl.Buffered(buffers)
    window = pl.BlockSpec((block, 128), lambda i: (i, 0), pipeline_mode=mode)
    x = jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    call = pl.pallas_call(kernel, out_shape=x, grid=(rows // block,), in_specs=[window] * 2, out_specs=window)
    return _lowered(call, x, x)


KERNELS: Final[Mapping[str, Callable[[], str]]] = {
    "matmul 512³ in 128³": lambda: matmul(512, 512, 512, 128, 128, 128),
    "matmul 1024³ in 256³": lambda: matmul(1024, 1024, 1024, 256, 256, 256),
    "matmul 512×1024×1024 in 512×128×256": lambda: matmul(512, 1024, 1024, 512, 128, 256),
    "matmul 1024×512×1024 in 128×512×512": lambda: matmul(1024, 512, 1024, 128, 512, 512),
    "matmul 768³ in 384×256×384": lambda: matmul(768, 768, 768, 384, 256, 384),
    "matmul 512³ in one block": lambda: matmul(512, 512, 512, 512, 512, 512),
    "matmul 512³ in 256×512×512": lambda: matmul(512, 512, 512, 256, 512, 512),
    "matmul 1024³ in 512×512×128": lambda: matmul(1024, 1024, 1024, 512, 512, 128),
    "flash 4×1024 in 256×512": lambda: flash(4, 1024, 256, 512),
    "flash 2×1024 in 512×512": lambda: flash(2, 1024, 512, 512),
    "flash 2×512 in 128×128": lambda: flash(2, 512, 128, 128),
    "flash 2×1024 in 256×256": lambda: flash(2, 1024, 256, 256),
    "flash 2×1024 in 512×256": lambda: flash(2, 1024, 512, 256),
    "flash 1×2048 in 512×512": lambda: flash(1, 2048, 512, 512),
    "sum of 512 rows in 8": lambda: added(512, 8, 2),
    "sum of 64 rows in 8": lambda: added(64, 8, 2),
}


def off(kernel: str, target: str) -> tuple[float, float, int]:
    """How far an estimate is from the compiler's own, as a share of that, and both."""
    found = aot.specialize(kernel, target)
    own = found.compiler
    assert own.trustworthy, own.why
    assert own.cycles
    return found.cycles / own.cycles - 1, found.cycles, own.cycles


def step_of(probe: Callable[[int], str], target: str) -> tuple[float, float]:
    """Cycles of a step of a probe, by `specialize` and by the compiler."""
    short, long = (off(probe(steps), target)[1:] for steps in STEPS)
    ours, own = ((b - a) / (STEPS[1] - STEPS[0]) for a, b in zip(short, long, strict=True))
    return ours, own


def within(ours: float, own: float) -> bool:
    """Whether a step takes what the compiler says."""
    return abs(own - ours) <= max(OF_STEP[0] * own, OF_STEP[1])


def main() -> int:
    """Compile, run, compare, print."""
    if aot.compiler_version() is None:
        print("the TPU compiler is not installed")
        return 2
    assert {f.name for f in fields(Latencies)} == set(PROBES)
    missed = False
    steps: list[dict[str, Any]] = []
    whole: list[dict[str, Any]] = []
    with Progress(len(PROBES) * len(ESTIMATED) + len(KERNELS) * len(REQUIRED), "estimated", sys.stderr) as shown:
        for name, probe in PROBES.items():
            row: dict[str, Any] = {"latency": name}
            for target in ESTIMATED:
                ours, own = step_of(probe, target)
                source = getattr(machine(aot.TARGETS[target]).latencies, name)
                row[target] = f"{source}, measured {source + own - ours:.0f}"
                missed |= not within(ours, own)
                shown.step()
            steps.append(row)
        for name, make in KERNELS.items():
            kernel = make()
            row = {"kernel": name}
            for target in REQUIRED:
                row[target] = f"{(error := off(kernel, target)[0]):+.1%}"
                missed |= abs(error) > TOLERANCE
                shown.step()
            whole.append(row)
    print(to_table(steps))
    print(to_table(whole))
    verdict = "MISSED" if missed else "met"
    print(f"{verdict}: steps within {OF_STEP[0]:.0%} or {OF_STEP[1]:g} cycles, kernels within {TOLERANCE:.0%}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
