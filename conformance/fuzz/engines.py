"""Programs on the simulator's engines, and what they give compared with the oracle.

The fast engine runs in two ways. Compiling takes XLA a tenth of a second a program, so that most programs are traced
and their jaxpr evaluated op by op: each op is compiled once for all programs that have it, and static moves of elements
are NumPy's. Some programs are compiled whole, where XLA fuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import jax
import numpy as np

from conformance.fuzz import oracle
from conformance.fuzz.emit import to_module
from conformance.fuzz.program import Program
from conformance.fuzz.tracked import Array, Rounding, Tracked, is_float, rounding
from mosaic_tpu.sim import Module, simulate
from mosaic_tpu.sim.xla import translate

Engine = Literal["numpy", "xla", "xla compiled"]
ROUNDINGS: Final[dict[Engine, Rounding]] = {
    "numpy": Rounding(),
    "xla": Rounding(flushes=True),
    "xla compiled": Rounding(flushes=True, contracts=True),
}
#: Less time in LLVM; XLA's own passes are as ever.
_COMPILER_OPTIONS: Final = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


class DifferenceError(AssertionError):
    """An engine's output that is not what NumPy gives."""

    def __init__(self, engine: str, output: str, text: str) -> None:
        super().__init__(f"{engine}: the output {output} differs: {text}")


@dataclass(frozen=True)
class Checked:
    """What a program's check covered: elements of its outputs, and those of them that the oracle knows."""

    elements: int
    known: int


def check(program: Program, engines: Sequence[Engine]) -> Checked:
    """Run a program everywhere and compare.

    Raises:
        DifferenceError: an engine gives something else.
        HazardError: an engine reports a hazard, which a healthy program has not.
    """
    module, arrays = to_module(program), oracle.inputs(program)
    checked = Checked(0, 0)
    for engine in engines:
        with rounding(ROUNDINGS[engine]):
            expected = oracle.run(program, arrays)
        outputs = run(engine, module, program, arrays)
        compare(engine, program, outputs, expected)
        if engine == engines[0]:
            checked = Checked(
                sum(e.value.size for e in expected), sum(int(np.isfinite(e.error).sum()) for e in expected)
            )
    return checked


def run(engine: Engine, module: Module, program: Program, arrays: Sequence[Array]) -> Sequence[Array]:
    """The outputs of an engine."""
    if engine == "numpy":
        return simulate(module, *arrays, seed=program.seed, dma=program.dma).outputs
    made, flag = _run_traced(module, arrays, compiled=engine == "xla compiled")
    if int(flag):
        raise DifferenceError(engine, "(flag)", f"{int(flag)}: it claims undefined behaviour")
    return [np.asarray(x) for x in made]


def compare(engine: str, program: Program, outputs: Sequence[Array], expected: Sequence[Tracked]) -> None:
    """Each known element is within its bound.

    Raises:
        DifferenceError: the first output that differs.
    """
    for buffer, found, wanted in zip(program.with_role("output"), outputs, expected, strict=True):
        found = np.asarray(found)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise DifferenceError(engine, buffer.name, f"{found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}")
        wrong = ~_within(found, wanted)
        if wrong.any():
            at = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
            text = f"{int(wrong.sum())} of {wrong.size} elements; at {list(at)} {found[at]!r} for {wanted.value[at]!r}"
            raise DifferenceError(engine, buffer.name, f"{text}, off by at most {wanted.error[at]:.3g}")


def _within(found: Array, wanted: Tracked) -> Array:
    unknown = np.isinf(wanted.error)
    if not is_float(found.dtype):
        return unknown | (found == wanted.value)
    with np.errstate(invalid="ignore"):
        a, b = found.astype(np.float64), wanted.value.astype(np.float64)
        return unknown | (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= wanted.error)


# --- the fast engine -------------------------------------------------------------------------------------------------


def _run_traced(module: Module, arrays: Sequence[Array], *, compiled: bool) -> tuple[Sequence[Any], Any]:
    assert module.call.outputs is not None
    traced = translate(module, module.call.outputs).trace(*arrays)  # pyright: ignore[reportFunctionMemberAccess]
    if compiled:
        return traced.lower().compile(_COMPILER_OPTIONS)(*arrays)
    with _little_optimised():
        *made, flag = _evaluate(traced.jaxpr.jaxpr, traced.jaxpr.consts, arrays)
    return made, flag


@contextmanager
def _little_optimised() -> Iterator[None]:
    """Ops are compiled in less time."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def _evaluate(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """A jaxpr op by op; loops and branches in Python, so that only single ops are compiled."""
    known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
    for equation in jaxpr.eqns:
        values = [v.val if hasattr(v, "val") else known[v] for v in equation.invars]
        made = _apply(equation, values)
        known.update(zip(equation.outvars, made, strict=True))
    return [v.val if hasattr(v, "val") else known[v] for v in jaxpr.outvars]


def _apply(equation: Any, values: list[Any]) -> Sequence[Any]:
    params, primitive = equation.params, equation.primitive
    match primitive.name:
        case "jit" | "pjit" | "closed_call":
            return _closed(params["jaxpr"], values)
        case "cond":
            index, *rest = values
            return _closed(params["branches"][min(max(int(index), 0), len(params["branches"]) - 1)], rest)
        case "while":
            return _while(params, values)
        case "scan":
            return _scan(params, values)
        case name if name in _MOVES and len(values) == 1:
            return [_MOVES[name](np.asarray(values[0]), params)]
        case _:
            made = primitive.bind(*values, **params)
            return made if primitive.multiple_results else [made]


def _broadcast(x: Array, params: dict[str, Any]) -> Array:
    sizes = [1] * len(params["shape"])
    for d, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        sizes[d] = size
    return np.broadcast_to(x.reshape(sizes), params["shape"])


def _slice(x: Array, params: dict[str, Any]) -> Array:
    steps = params["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, params["start_indices"], params["limit_indices"], steps))]


_MOVES: Final[dict[str, Callable[[Array, dict[str, Any]], Array]]] = {
    "broadcast_in_dim": _broadcast,
    "slice": _slice,
    "reshape": lambda x, params: x.reshape(params["new_sizes"]),
    "squeeze": lambda x, params: x.squeeze(params["dimensions"]),
    "transpose": lambda x, params: x.transpose(params["permutation"]),
}


def _closed(jaxpr: Any, values: Sequence[Any]) -> list[Any]:
    return _evaluate(jaxpr.jaxpr, jaxpr.consts, values)


def _while(params: dict[str, Any], values: list[Any]) -> list[Any]:
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    tested, constant, carry = values[:first], values[first:second], values[second:]
    while bool(_closed(params["cond_jaxpr"], [*tested, *carry])[0]):
        carry = _closed(params["body_jaxpr"], [*constant, *carry])
    return carry


def _scan(params: dict[str, Any], values: list[Any]) -> list[Any]:
    first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
    constant, carry, rows = values[:first], values[first:second], values[second:]
    stacked: list[list[Any]] = []
    for n in range(params["length"])[:: -1 if params["reverse"] else 1]:
        made = _closed(params["jaxpr"], [*constant, *carry, *(r[n] for r in rows)])
        carry = made[: len(carry)]
        stacked.append(made[len(carry) :])
    if params["reverse"]:
        stacked.reverse()
    return [*carry, *(jax.numpy.stack(column) for column in zip(*stacked, strict=True))]
