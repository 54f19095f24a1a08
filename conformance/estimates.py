"""`nox -s measure -- stalls`: are the stalls that `mosaic_tpu.aot.specialize` adds those of the TPU compiler?

Bundles issued, waits and bytes of kernels whose trip counts are constants, against the compiler's own estimates: on
each generation the cycles a wait and until the first step for which the worst of them is off least. HBM's share is
taken as it is; the one that fits all generations best is printed. `start` is loosely determined: a hundred cycles more
and one cycle a wait less do about as well. What is printed of other kernels, short ones among them, is not judged.

The exit code is 1 if the fit or the constants in the source leave the tolerance, or the constants are worse than the
fit by more than `SLACK`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import flash_attention
from scipy.optimize import linprog

from conformance.harness.report import to_table
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot, zoo
from mosaic_tpu.aot._progress import Progress
from mosaic_tpu.aot._specialize import _FITTED, Stalls
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig

#: How far an estimate and the compiler's own may be apart.
TOLERANCE: Final = 0.15
#: How much more than the fit's the worst error of the constants in the source may be.
SLACK: Final = 0.02
_SHARES: Final = tuple(percent / 100 for percent in range(50, 101, 2))


def matmul(m: int, n: int, k: int, block_m: int, block_n: int, block_k: int) -> str:
    cfg = MatmulConfig(m=m, n=n, k=k, block_m=block_m, block_n=block_n, block_k=block_k)
    return zoo.KERNELS["matmul"].kernel.lower(cfg).stablehlo


def flash(heads: int, tokens: int, block_q: int, block_k: int) -> str:
    blocks = flash_attention.BlockSizes(block_q=block_q, block_k_major=block_k, block_k=block_k, block_b=1)
    function: Callable[..., Any] = functools.partial(flash_attention.flash_attention, block_sizes=blocks)
    shapes = [jax.ShapeDtypeStruct((1, heads, tokens, 128), jnp.bfloat16)] * 3
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()


#: What the stalls are fitted to.
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
#: What they are not fitted to.
OTHERS: Final = {
    "matmul 512³ in one block": lambda: matmul(512, 512, 512, 512, 512, 512),
    "matmul 512³ in 256×512×512": lambda: matmul(512, 512, 512, 256, 512, 512),
    "matmul 1024³ in 512×512×128": lambda: matmul(1024, 1024, 1024, 512, 512, 128),
    "flash 2×1024 in 512×256": lambda: flash(2, 1024, 512, 256),
    "flash 1×2048 in 512×512": lambda: flash(1, 2048, 512, 512),
}


@dataclass(frozen=True)
class Run:
    """What a kernel does on a generation, and the compiler's estimate of it.

    Attributes:
        issue: bundles issued.
        waits: for a copy.
        memory: cycles of HBM at its peak.
        ideal: cycles of the roofline.
        compiler: cycles that the compiler estimates.
    """

    issue: int
    waits: int
    memory: float
    ideal: float
    compiler: int

    def off(self, stalls: Stalls) -> float:
        """How far the estimate with these stalls is from the compiler's, as a share of that."""
        return stalls.cycles(self.issue, self.waits, self.memory, self.ideal) / self.compiler - 1


def run_of(kernel: str, target: str) -> Run:
    """The compiler's and the simulator's word on a kernel."""
    found = aot.specialize(kernel, target)
    cycles = found.compiler.cycles
    assert found.compiler.trustworthy, found.compiler.why
    assert cycles
    return Run(found.issue_cycles, found.waits, found.roofline.memory_cycles, found.roofline.ideal_cycles, cycles)


def worst(runs: Sequence[Run], stalls: Stalls) -> float:
    """The largest error, either way."""
    return max(abs(run.off(stalls)) for run in runs)


def fit(runs: Sequence[Run], hbm: float) -> Stalls:
    """The stalls, not negative, that make the largest error least: a linear program in wait, start and that error.

    Of stalls that do equally well, those with the latest start: what is not fitted is shorter.
    """
    own = np.array([run.compiler for run in runs])
    stall_free = Stalls(0.0, 0.0, hbm)
    busy = np.array([stall_free.cycles(run.issue, 0, run.memory, 0.0) for run in runs]) / own
    rates = np.stack([np.array([run.waits for run in runs]) / own, 1 / own], axis=1)
    error = -np.ones((len(runs), 1))
    bounds = np.block([[rates, error], [-rates, error]])
    wait, start, _ = linprog([0, -1e-8, 1], A_ub=bounds, b_ub=np.concatenate([1 - busy, busy - 1])).x
    return Stalls(float(wait), float(start), hbm)


def best_share(runs: Mapping[str, Sequence[Run]]) -> float:
    """HBM's share for which the worst errors of the generations are least in sum."""
    return min(_SHARES, key=lambda hbm: sum(worst(found, fit(found, hbm)) for found in runs.values()))


def main() -> int:
    """Compile, run, fit, print."""
    if aot.compiler_version() is None:
        print("the TPU compiler is not installed")
        return 2
    runs, others = _runs(KERNELS), _runs(OTHERS)
    rows: list[dict[str, Any]] = []
    missed = False
    for target, found in runs.items():
        source = _FITTED[target]
        fitted = fit(found, source.hbm)
        errors = [worst(found, stalls) for stalls in (fitted, source)]
        missed |= max(errors) > TOLERANCE or errors[1] > errors[0] + SLACK
        for who, stalls, error in zip(("fitted", "source"), (fitted, source), errors, strict=True):
            rows.append({"target": target, "stalls": who, "wait": round(stalls.wait), "start": round(stalls.start),
                         "hbm": f"{stalls.hbm:.2f}", "worst": f"{error:.1%}",
                         "worst of others": f"{worst(others[target], stalls):.1%}"})  # fmt: skip
    print(to_table(rows))
    print(to_table(_off(others)))
    print(f"hbm that fits all best: {best_share(runs):.2f}")
    print(f"{'MISSED' if missed else 'met'}: within {TOLERANCE:.0%}, the source within {SLACK:.0%} of the fit")
    return int(missed)


def _off(others: Mapping[str, Sequence[Run]]) -> list[dict[str, Any]]:
    """How far off the constants in the source are for each of the other kernels, and how often it waits."""
    return [
        {"other": name, "waits": found[0].waits}
        | {target: f"{run.off(_FITTED[target]):+.1%}" for target, run in zip(others, found, strict=True)}
        for name, *found in zip(OTHERS, *others.values(), strict=True)
    ]


def _runs(kernels: Mapping[str, Callable[[], str]]) -> dict[str, list[Run]]:
    """Of each generation."""
    runs: dict[str, list[Run]] = {target: [] for target in REQUIRED}
    with Progress(len(kernels) * len(REQUIRED), "estimated", sys.stderr) as shown:
        for make in kernels.values():
            kernel = make()
            for target in REQUIRED:
                runs[target].append(run_of(kernel, target))
                shown.step()
    return runs


if __name__ == "__main__":
    sys.exit(main())
