"""The simulator's time as ratios to Pallas's two interpreters, in one run; how it grows; what memory it takes.

The best wall-clock time of runs that take turns, since what else the machine does only adds; each run is steady: jitted
functions are compiled, the simulator's code is generated. `interpret=True` runs the jaxpr without asynchronous
semantics, `InterpretParams()` with them.

`ours` is all of `simulate` with checks on. `xla` is what the fast engine makes of the kernel, checks included, in the
place that the interpreters' code has in the same jitted function; `xla, reported` is all of `simulate` on that engine.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention, matmul

from conformance.harness import pallas
from conformance.twins import gated_delta_net
from mosaic_tpu import sim, zoo
from mosaic_tpu.sim._compile import compiled
from mosaic_tpu.sim._program import calls_of
from mosaic_tpu.sim._read import forget, module_of
from mosaic_tpu.sim.xla import translate

type Arrays = tuple[np.ndarray[Any, Any], ...]

#: What must hold: row, figure, bound.
GOALS: Final = {
    ("matmul", "InterpretParams / ours"): (30.0, "at least"),
    ("gated_delta_net", "InterpretParams / ours"): (30.0, "at least"),
    ("matmul", "interpret=True / xla"): (1.0, "at least"),
    ("flash_attention", "interpret=True / xla"): (1.0, "at least"),
    ("gated_delta_net", "interpret=True / xla"): (1.0, "at least"),
    ("matmul", "code generation ms"): (150.0, "at most"),
    ("flash_attention", "code generation ms"): (150.0, "at most"),
    ("gated_delta_net", "code generation ms"): (150.0, "at most"),
    ("ragged_paged_attention", "code generation ms"): (150.0, "at most"),
}


#: How long a turn is at least.
_TURN_MS: Final = 30.0


@dataclass(frozen=True)
class Case:
    """A kernel to time: Pallas's function, or ours where Pallas's interpreters cannot run it."""

    name: str
    config: str
    fn: Callable[..., Any]
    arrays: Arrays
    interpreted: bool = True


def _bf16(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(jnp.bfloat16)


def matmul_case(m: int = 512) -> Case:
    """Bf16, k = n = 512, blocks of 128."""
    rng = np.random.default_rng(0)
    fn = functools.partial(matmul.matmul, block_shape=(128, 128), block_k=128)
    return Case("matmul", f"bf16 {m}×512×512", fn, (_bf16(rng, m, 512), _bf16(rng, 512, 512)))


def flash_case() -> Case:
    """1 × 2 × 256 × 128, f32, causal."""
    rng = np.random.default_rng(0)
    arrays = tuple(rng.standard_normal((1, 2, 256, 128)).astype(np.float32) for _ in range(3))
    return Case(
        "flash_attention", "f32 1×2×256×128", functools.partial(flash_attention.flash_attention, causal=True), arrays
    )


def gdn_case(tokens: int = 256) -> Case:
    """One sequence, four heads, K = V = 128."""
    rng = np.random.default_rng(0)
    heads, dim = 4, 128
    q, k, v = (_bf16(rng, 1, tokens, heads, dim) for _ in range(3))
    g = -rng.uniform(0, 0.1, (1, tokens, heads)).astype(np.float32)
    beta = rng.uniform(0, 1, (1, tokens, heads)).astype(np.float32)
    h0 = np.zeros((1, heads, dim, dim), np.float32)
    arrays = (q, k, v, g, beta, h0, np.array([0, tokens], np.int32))
    return Case("gated_delta_net", f"T={tokens}, 4 heads", gated_delta_net.gated_delta_net, arrays)


def rpa_case() -> Case:
    """Four sequences, 8 query and 2 KV heads; Pallas's interpreters cannot run it."""
    rng = np.random.default_rng(0)
    tokens, pages, size, kv_heads = 64, 64, 16, 2
    q = _bf16(rng, tokens, 8, 128)
    kv = _bf16(rng, pages, size, 2 * kv_heads, 128)
    lengths = np.array([40, 100, 64, 17], np.int32)
    indices = rng.permutation(pages).reshape(4, 16).astype(np.int32)
    starts = np.array([0, 20, 40, tokens - 1, tokens], np.int32)
    fn = functools.partial(zoo.ragged_paged_attention, num_kv_pages_per_block=4, num_queries_per_block=16)
    arrays = (q, kv, lengths, indices, starts, np.array([4], np.int32))
    return Case("ragged_paged_attention", f"{tokens} tokens", fn, arrays, interpreted=False)


# --- contestants -----------------------------------------------------------------------------------------------------


def _plainly_interpreted() -> contextlib.AbstractContextManager[Any]:
    original = pl.pallas_call
    return mock.patch.object(
        pl, "pallas_call", lambda *args, **options: original(*args, **options | {"interpret": True})
    )


def _translated() -> contextlib.AbstractContextManager[Any]:
    """Kernels are what the fast engine makes of them."""
    original = pl.pallas_call

    def call(*args: Any, **options: Any) -> Callable[..., Any]:
        kernel = original(*args, **options)

        def run(*operands: Any) -> Any:
            shapes = jax.tree.map(lambda o: jax.ShapeDtypeStruct(o.shape, o.dtype), operands)
            (found,) = calls_of(pallas.lower_to_stablehlo(kernel, *shapes))
            outputs, _ = translate(module_of(found), found.outputs)(*jax.tree.leaves(operands))
            return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(kernel, *shapes)), outputs)

        return run

    return mock.patch.object(pl, "pallas_call", call)


def _jitted(
    case: Case, arrays: list[jax.Array], around: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Callable[[], object]:
    """The case's function, compiled with another way to run kernels."""
    jax.clear_caches()
    with around():
        run = jax.jit(lambda *arrays: case.fn(*arrays)).lower(*arrays).compile()
    return lambda: jax.block_until_ready(run(*arrays))


def contestants(case: Case) -> dict[str, Callable[[], object]]:
    """Ours on both engines, and Pallas's interpreters where they can run the kernel; each is given JAX's arrays."""
    program = pallas.lower_to_stablehlo(case.fn, *case.arrays)
    arrays = [jnp.asarray(a) for a in case.arrays]
    found: dict[str, Callable[[], object]] = {
        "ours": lambda: sim.simulate(program, *arrays, allow_unwritten=True),
        "ours, checks off": lambda: sim.simulate(program, *arrays, checks=False),
        "xla, reported": lambda: sim.simulate(program, *arrays, engine="xla"),
    }
    if case.interpreted:
        found["xla"] = _jitted(case, arrays, _translated)
        parameters = pltpu.InterpretParams()
        found["interpret=True"] = _jitted(case, arrays, _plainly_interpreted)
        found["InterpretParams"] = _jitted(case, arrays, lambda: pltpu.force_tpu_interpret_mode(parameters))
    return found


def best_of_turns(
    runs: Mapping[str, Callable[[], object]], repeats: int, show: Callable[[str], None]
) -> dict[str, float]:
    """The best milliseconds of each. In its turn one runs again and again until its turn is over.

    Garbage is collected before a turn and not within. What takes over a second has three turns and no more.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(repeats + 1):
        show(f"round {number} of {repeats}")
        for name, run in runs.items():
            if len(times[name]) >= 3 and min(times[name]) > 1e3:
                continue
            found = _turn(run)
            if number:  # the first round warms up
                times[name] += found
    return {name: min(found) for name, found in times.items()}


def _turn(run: Callable[[], object]) -> list[float]:
    found: list[float] = []
    gc.collect()
    gc.disable()
    try:
        while sum(found) < _TURN_MS:
            start = time.perf_counter()
            run()
            found.append((time.perf_counter() - start) * 1e3)
    finally:
        gc.enable()
    return found


def generation_ms(case: Case, repeats: int) -> float:
    """Median milliseconds of CPU time from a body's bytes to functions, with nothing cached."""
    call = calls_of(pallas.lower_to_stablehlo(case.fn, *case.arrays))[0]
    times: list[float] = []
    for _ in range(repeats):
        forget()
        start = time.process_time()
        compiled(module_of(call), checks=True, several=False)
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


# --- tables ----------------------------------------------------------------------------------------------------------


def bench_speed(repeats: int, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row a kernel."""
    rows: list[dict[str, Any]] = []
    for case in (matmul_case(), flash_case(), gdn_case(), rpa_case()):
        ms = best_of_turns(contestants(case), repeats, lambda text, n=case.name: show(f"simulator, {n}: {text}"))
        row: dict[str, Any] = {"kernel": case.name, "config": case.config}
        row |= {f"{name} ms": round(ms[name], 1) if name in ms else "—" for name in ("ours", "xla", "xla, reported")}
        for name in ("InterpretParams", "interpret=True"):
            for ours in ("ours", "xla"):
                row[f"{name} / {ours}"] = round(ms[name] / ms[ours], 2) if name in ms else "cannot run it"
        row["checks on / off"] = round(ms["ours"] / ms["ours, checks off"], 2)
        row["code generation ms"] = round(generation_ms(case, 5), 1)
        rows.append(row)
    return rows


def bench_growth(repeats: int, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Time a unit at a larger size over time a unit at the smallest: 1 is linear."""
    sweeps: dict[str, tuple[Callable[[int], Case], tuple[int, ...]]] = {
        "matmul, rows": (matmul_case, (256, 512, 1024, 2048)),
        "gated_delta_net, tokens": (gdn_case, (128, 256, 512, 1024)),
    }
    rows: list[dict[str, Any]] = []
    for name, (make, sizes) in sweeps.items():
        runs: dict[str, Callable[[], object]] = {}
        for size in sizes:
            case = make(size)
            program = pallas.lower_to_stablehlo(case.fn, *case.arrays)
            runs[str(size)] = functools.partial(sim.simulate, program, *case.arrays)
        ms = best_of_turns(runs, max(3, repeats // 3), lambda text, n=name: show(f"growth, {n}: {text}"))
        unit = ms[str(sizes[0])] / sizes[0]
        rows.append({"growth": name} | {str(n): round(ms[str(n)] / n / unit, 2) for n in sizes})
    return rows


def bench_memory(show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Peak of what a run allocates, over the bytes of its arrays."""
    rows: list[dict[str, Any]] = []
    for case in (matmul_case(2048), gdn_case(1024), rpa_case()):
        show(f"memory: {case.name}")
        program = pallas.lower_to_stablehlo(case.fn, *case.arrays)
        report = sim.simulate(program, *case.arrays, allow_unwritten=True)
        size = sum(a.nbytes for a in (*case.arrays, *report.outputs)) + sum(report.memory.values())
        tracemalloc.start()
        sim.simulate(program, *case.arrays, allow_unwritten=True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        row = {"memory": case.name, "arrays and VMEM MiB": round(size / 2**20, 1), "peak / that": round(peak / size, 2)}
        rows.append(row)
    return rows
