"""The demo: two kernels at model shapes emitted, shown equal to Pallas's, and compiled for TPUs; no TPU needed."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from conformance.cases.kernels import CASES, KernelCase
from conformance.harness import levels
from mosaic_tpu import aot, zoo
from mosaic_tpu.kernel import Kernel

TARGETS: Final = ("v5e", "v6e")
REPEATS: Final = 7


@dataclass(frozen=True)
class Shown:
    """A kernel of the demo, at the shapes of a model."""

    heading: str
    shapes: str
    kernel: Kernel[Any]
    config: Any
    case: KernelCase


def shown() -> tuple[Shown, ...]:
    """Ragged paged attention at Llama-3-8B shapes, the gated delta net at Qwen3-Next shapes."""
    cases = {case.id: case for case in CASES}
    return (
        Shown(
            "Ragged paged attention, Llama-3-8B",
            "32 query heads, 8 KV heads, head_dim 128, bf16, pages of 16, prefill and decode mixed",
            zoo.KERNELS["ragged_paged_attention"].kernel,
            zoo.KERNELS["ragged_paged_attention"].presets["llama-3-8b"],
            cases["ragged_paged_attention-llama3-8b"],
        ),
        Shown(
            "Gated delta net, Qwen3-Next",
            "16 key heads, 32 value heads, K = V = 128, 8 ragged sequences, 4096 tokens, bf16",
            zoo.KERNELS["gated_delta_net"].kernel,
            zoo.KERNELS["gated_delta_net"].presets["qwen3-next"],
            cases["gated_delta_net-qwen3-next"],
        ),
    )


def emission_ms(kernel: Kernel[Any], config: Any) -> float:
    """Median time from config to body, no body cached; all but the first run find types and templates warm."""
    times: list[float] = []
    for _ in range(REPEATS):
        kernel.clear_cache()
        start = time.perf_counter()
        kernel.lower(config)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main(write: Callable[[str], None] = print) -> int:
    """Run the demo; 0 if every kernel is identical to Pallas's and accepted by the compiler."""
    failed = 0
    for item in shown():
        write(f"{item.heading}\n  {item.shapes}")
        ms = emission_ms(item.kernel, item.config)
        ours, theirs = item.case.lowered()
        write(f"  emitted in      {ms:.1f} ms, {len(ours.body)} bytes of body")
        same = levels.compare(ours, theirs)
        failed += same.level is not levels.Level.IDENTICAL
        write(f"  against Pallas  {same.level.value}" + (f"\n{same.detail}" if same.detail else ""))
        failed += _compile(ours.stablehlo, write)
        write("")
    write("All identical and accepted." if not failed else f"{failed} of these did not hold.")
    return failed


def _compile(stablehlo: str, write: Callable[[str], None]) -> int:
    if aot.compiler_version() is None:
        write("  TPU compiler    not installed here: it needs Linux on x86-64")
        return 0
    results = [r for target in TARGETS for r in aot.compile_all([stablehlo], [target], cache=False)]
    for result in results:
        verdict = f"refused: {result.error}" if result.error else f"accepted in {result.seconds:.1f} s"
        write(f"  {result.target} compiler    {verdict}")
    return sum(not result.ok for result in results)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
