"""`python -m conformance.bench`: from config to body, as ratios to Pallas and to the floor, in one run.

Every figure is a ratio of medians of CPU time of runs that take turns: the machine's noise falls on both sides. The
floor creates the same ops from prepared types and attributes, and serializes them alike (`conformance.bench.replay`).

`ours ms` is with the builder's types and templates warm, as in every emission of a process but its first ones, and with
no body cached. `first ms` is with all of these cold: each run is the first emission of a new thread, whose MLIR
context, types and templates are its own. Modules are imported in both. The exit code is 1 if a goal is missed.

Then the simulator against Pallas's interpreters (`conformance.bench.simulator`), lint (`conformance.bench.lint`), lift
(`conformance.bench.lift`), and, where the TPU compiler is installed, what it estimates of each kernel
(`conformance.bench.schedules`).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import jax

from conformance.bench import lift, lint, schedules, simulator
from conformance.bench.replay import Replay
from conformance.bench.turns import in_turns
from conformance.cases.kernels import CASES, KernelCase
from conformance.harness import pallas
from conformance.harness.report import to_table, versions
from mosaic_tpu import aot, zoo
from mosaic_tpu.kernel import Kernel
from mosaic_tpu.kernel._build import Target, run_kernel

#: What issue and README promise: row, figure, bound.
GOALS: Final = {
    ("ragged_paged_attention", "Pallas lower / ours"): (10.0, "at least"),
    ("ragged_paged_attention", "ours / floor"): (1.5, "at most"),
    ("import", "builder / jax"): (0.4, "at most"),
}
PRESETS: Final = {
    "matmul": ("default", "matmul-bf16-512"),
    "gated_delta_net": ("qwen3-next", "gated_delta_net-qwen3-next"),
    "ragged_paged_attention": ("llama-3-8b", "ragged_paged_attention-llama3-8b"),
}


def kernel_contestants(kernel: Kernel[Any], cfg: Any, case: KernelCase) -> dict[str, Callable[[], object]]:
    """Ours, the floor, Pallas's lowering alone, and its trace and lowering together."""
    module = run_kernel(kernel.name, kernel.run, cfg)
    replay = Replay(module.module)
    target = Target(15, unzip=True)
    expected = module.serialize(ir_version=15).body
    if replay.run(15) != expected:
        raise AssertionError(f"the floor of {kernel.name} emits other bytes")

    def ours() -> None:
        kernel.clear_cache()
        kernel.build(cfg, target)

    def trace() -> Any:
        jax.clear_caches()
        return jax.jit(case.theirs).trace(*case.args)

    traced = [trace()]

    def trace_and_lower() -> None:
        trace().lower(lowering_platforms=("tpu",))

    def lower() -> None:
        traced[0].lower(lowering_platforms=("tpu",))

    return {"ours": ours, "floor": lambda: replay.run(15), "lower": lower, "trace+lower": trace_and_lower}


def first_ms(kernel: Kernel[Any], cfg: Any, repeats: int) -> float:
    """Median milliseconds of CPU time of the first emission in a new thread, whose context is its own."""
    times: list[float] = []
    target = Target(15, unzip=True)

    def emit() -> None:
        start = time.process_time()
        kernel.build(cfg, target)
        times.append((time.process_time() - start) * 1e3)

    for _ in range(repeats):
        kernel.clear_cache()
        gc.collect()
        gc.disable()
        thread = threading.Thread(target=emit)
        thread.start()
        thread.join()
        gc.enable()
    if len(times) != repeats:
        raise AssertionError(f"{kernel.name} is not emitted in a new thread")
    return statistics.median(times)


def bench_kernels(repeats: int, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row a kernel."""
    cases = {case.id: case for case in CASES}
    rows: list[dict[str, Any]] = []
    for name, (preset, case_id) in PRESETS.items():
        info = zoo.KERNELS[name]
        cfg, case = info.presets[preset], cases[case_id]
        with pallas.as_on_a_tpu():
            contestants = kernel_contestants(info.kernel, cfg, case)
            timed = in_turns(contestants, repeats, lambda text, n=name: show(f"{n}: {text}"))
            first = first_ms(info.kernel, cfg, repeats)
        ops = Replay(run_kernel(info.kernel.name, info.kernel.run, cfg).module).count
        rows.append(
            {
                "kernel": name,
                "config": preset,
                "ops": ops,
                "ours ms": round(timed.ms["ours"], 2),
                "first ms": round(first, 2),
                "Pallas trace+lower / ours": round(timed.ratio("trace+lower", "ours"), 1),
                "Pallas lower / ours": round(timed.ratio("lower", "ours"), 1),
                "ours / floor": round(timed.ratio("ours", "floor"), 2),
            }
        )
    return rows


def bench_import(repeats: int, show: Callable[[str], None]) -> dict[str, Any]:
    """The builder's import time as a share of jax's, each in a process of its own, in turns.

    CPU time of the thread that imports, which is how long one waits: the threads that NumPy's BLAS starts spin for
    0.1 s beside it, in both. From bytecode, as pip leaves an installed package: round 0 writes it, whatever the
    environment says.
    """
    times: dict[str, list[float]] = {"mosaic_tpu.builder": [], "jax": []}
    with tempfile.TemporaryDirectory() as bytecode:
        env = dict(os.environ, PYTHONPYCACHEPREFIX=bytecode, PYTHONDONTWRITEBYTECODE="")
        for number in range(repeats + 1):
            show(f"import: round {number} of {repeats}")
            for module, found in times.items():
                code = f"import time; t = time.thread_time(); import {module}; print(time.thread_time() - t)"
                done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
                if number:
                    found.append(float(done.stdout))
    builder, whole = (statistics.median(found) for found in times.values())
    return {"import": "mosaic_tpu.builder", "ms": round(builder * 1e3), "builder / jax": round(builder / whole, 2)}


def verdicts(rows: Mapping[str, Mapping[str, Any]], goals: Mapping[tuple[str, str], tuple[float, str]]) -> list[str]:
    """One line a goal."""
    lines: list[str] = []
    for (row, figure), (bound, which) in goals.items():
        value = rows[row][figure]
        met = value >= bound if which == "at least" else value <= bound
        lines.append(f"{'met' if met else 'MISSED':7} {row}: {figure} is {value}, to be {which} {bound}")
    return lines


def main() -> int:
    """Run everything, print the tables, write the JSON; 1 if a goal is missed, else 0."""
    parser = argparse.ArgumentParser(prog="conformance.bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="rounds a figure (default %(default)s)")
    parser.add_argument("--json", type=Path, default=Path(".conformance/bench.json"), help="where the figures go")
    options = parser.parse_args()

    def show(text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    kernels = bench_kernels(options.repeats, show)
    imports = bench_import(max(3, options.repeats // 3), show)
    speed = simulator.bench_speed(options.repeats, show)
    growth = simulator.bench_growth(options.repeats, show)
    memory = simulator.bench_memory(show)
    checks = lint.bench_lint(options.repeats, show)
    lifts = lift.bench_lift(max(3, options.repeats // 3), show)
    estimates = schedules.bench_schedules(show) if aot.compiler_version() else []
    show("")
    found = verdicts({row["kernel"]: row for row in kernels} | {"import": imports}, GOALS)
    found += verdicts({row["kernel"]: row for row in speed}, simulator.GOALS)
    found += verdicts({row["kernel"]: row for row in checks}, lint.GOALS)
    found += verdicts({row["kernel"]: row for row in lifts}, lift.GOALS)
    tables = {
        "from config to body": kernels,
        "import": [imports],
        "simulator against Pallas's interpreters": speed,
        "simulator: time a unit, over that of the smallest": growth,
        "simulator: memory": memory,
        "lint": checks,
        "lift": lifts,
    }
    if estimates:
        tables["estimated cycles"] = estimates
    print("\n\n".join(f"{title}\n{to_table(rows)}" for title, rows in tables.items()))
    print("\n" + "\n".join(found))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"schema": 2, "versions": versions(), "tables": tables, "goals": found}
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {options.json}")
    return int(any(line.startswith("MISSED") for line in found))


if __name__ == "__main__":
    sys.exit(main())
