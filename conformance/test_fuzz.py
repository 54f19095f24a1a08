"""Differential fuzzing: 2,000 random programs on both engines of the simulator give what NumPy gives.

`conformance/fuzz` says how. Each planted difference is found and each planted hazard reported, in random programs too.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from conformance.conftest import Record
from conformance.fuzz import __main__ as fuzz_command
from conformance.fuzz import campaign, engines, oracle
from conformance.fuzz.campaign import FEATURES, Coverage, run
from conformance.fuzz.draw_views import whole
from conformance.fuzz.emit import to_module
from conformance.fuzz.engines import DifferenceError
from conformance.fuzz.ops import OPS, Application
from conformance.fuzz.plant import FAULTS, spoiled
from conformance.fuzz.program import Block, Buffer, Let, Load, Program, Statement, Store, Type
from conformance.fuzz.source import source
from conformance.fuzz.strategies import programs
from conformance.fuzz.tracked import Tracked, rounding

#: Test items, which pytest-xdist spreads, of so many programs each; with an older JAX, whose fast engine is what
#: differs, a quarter of them.
ITEMS: Final = 20 if jax.__version_info__ >= (0, 12) else 5
PROGRAMS: Final = 100


@pytest.mark.parametrize("item", range(ITEMS))
def test_random_programs_give_what_numpy_gives(item: int, record: Record) -> None:
    # Not shrunk: `python -m conformance.fuzz --count 100 --seed ITEM` draws the same and does that.
    covered = run(item, PROGRAMS, shrinks=False, derandomize=True)
    assert covered.programs >= PROGRAMS
    assert covered.known > 0.95 * covered.elements  # the bounds say something
    record("fuzzing", item=item, level="agree", programs=covered.programs, known=covered.known / covered.elements)


def test_random_programs_have_everything_in_them() -> None:
    covered = Coverage()

    @_drawn(800)
    def draw(program: Program) -> None:
        covered.add(program)

    draw()
    assert not [name for name in covered.missing() if name in FEATURES]


def test_a_campaign_goes_on_when_all_its_processes_have_had_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_command, "_CHUNK", 1)
    monkeypatch.setattr(fuzz_command, "_CHUNKS_OF_A_PROCESS", 1)
    assert fuzz_command.main(["--count", "4", "--seed", "1", "--jobs", "2"]) == 0


def test_a_seed_gives_the_same_programs() -> None:
    drawn: list[list[Program]] = [[], []]
    for found in drawn:
        _drawn(20)(found.append)()
    assert drawn[0] == drawn[1]
    assert len({source(p) for p in drawn[0]}) > 10


# --- each operation, and a planted difference in it ------------------------------------------------------------------

_INPUTS: Final = (
    *(Type((8, 128), d) for d in ("f32", "f32", "i32", "i32")),
    *(Type((16, 128), d) for d in ("bf16", "bf16", "i16")),
    *(Type((32, 128), d) for d in ("i8", "i8")),
    Type((8, 1), "f32"),
    Type((2, 8, 128), "f32"),
)
#: Made from those: masks, unsigned words, scalars.
_MADE: Final = (
    Let("lt", (0, 1), (), Type((8, 128), "i1")),
    Let("gt", (2, 3), (), Type((8, 128), "i1")),
    Let("bitcast", (2,), ("u32",), Type((8, 128), "u32")),
    Let("sum", (3,), (None, False), Type((), "i32")),
)


@pytest.mark.parametrize("name", OPS)
def test_an_operation_gives_what_numpy_gives_and_no_less(name: str) -> None:
    program = _program_of(name)
    module, arrays = to_module(program), oracle.inputs(program)
    for engine in ("numpy", "xla"):
        outputs = engines.run(engine, module, program, arrays)
        with rounding(engines.ROUNDINGS[engine]):
            engines.compare(engine, program, outputs, oracle.run(program, arrays))
            with pytest.MonkeyPatch.context() as patch:
                _spoil(patch, name)
                wrong = oracle.run(program, arrays)
        with pytest.raises(DifferenceError, match=f"^{engine}: the output r0 differs"):
            engines.compare(engine, program, outputs, wrong)


#: What float inputs hold in place of small numbers; of two operands, each pair of these meets.
_SPECIAL: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, 3.0e38, -3.0e38, 1e-30, 2.5)


@pytest.mark.parametrize("name", OPS)
def test_an_operation_of_special_floats_gives_what_numpy_gives(name: str) -> None:
    program = _program_of(name)
    module = to_module(program)
    count = len(_SPECIAL)
    arrays = [
        np.resize(np.repeat(_SPECIAL, count) if n % 2 else np.tile(_SPECIAL, count), a.shape).astype(a.dtype)
        if a.dtype.kind != "i"
        else a
        for n, a in enumerate(oracle.inputs(program))
    ]
    for engine in ("numpy", "xla"):
        with rounding(engines.ROUNDINGS[engine]), np.errstate(all="ignore"):
            engines.compare(engine, program, engines.run(engine, module, program, arrays), oracle.run(program, arrays))


def _program_of(name: str) -> Program:
    """A program that applies one operation to inputs, or to what is made of them."""
    inputs = tuple(Buffer(f"x{n}", t) for n, t in enumerate(_INPUTS))
    body: list[Statement] = [Load(whole(b)) for b in inputs]
    types = list(_INPUTS)
    for let in _MADE:
        body.append(let)
        types.append(let.type)
    chosen = _application(name, types)
    body.append(Let(name, chosen.args, chosen.params, chosen.type))
    value, type_ = len(types), chosen.type
    if type_.dtype == "i1":
        type_ = Type(type_.shape, "i32")
        body.append(Let("i1_to_i32", (value,), (), type_))
        value += 1
    if not type_.shape:
        type_ = Type((8, 128), type_.dtype)
        body.append(Let("splat", (value, value), ((8, 128),), type_))
        value += 1
    output = Buffer("r0", type_, "vmem", "output")
    return Program((), (*inputs, output), Block((*body, Store(whole(output), value))))


def _application(name: str, types: list[Type]) -> Application:
    """To two different values, if it takes two."""
    found = OPS[name].candidates(types)
    return next((a for a in found if len(set(a.args)) == len(a.args)), found[0])


def _spoil(patch: pytest.MonkeyPatch, name: str) -> None:
    """The oracle's operation is wrong in its first element: by one, or by a part in a thousand."""
    right = OPS[name]
    patch.setitem(OPS, name, replace(right, compute=lambda *given: _wrong(right.compute(*given))))


def _wrong(found: Tracked) -> Tracked:
    value = np.array(found.value)
    first = (0,) * value.ndim
    if value.dtype == np.bool_:
        value[first] = not value[first]
    elif np.issubdtype(value.dtype, np.integer):
        with np.errstate(over="ignore"):
            value[first] += value.dtype.type(1)
    else:
        number = float(value[first])
        value[first] = np.float64(number + max(1.0, abs(number)) * (2**-6 if value.dtype.itemsize < 4 else 2**-10))
    return Tracked(value, found.error)


# --- planted differences in random programs --------------------------------------------------------------------------


def test_a_wrong_element_is_found() -> None:
    """A known element of an output, off by more than its bound."""
    found = 0

    @_drawn(40, st.integers(0, 1 << 30))
    def look(program: Program, pick: int) -> None:
        nonlocal found
        arrays = oracle.inputs(program)
        expected = oracle.run(program, arrays)
        outputs = [np.array(o) for o in engines.run("numpy", to_module(program), program, arrays)]
        n = pick % len(outputs)
        places = np.argwhere(np.isfinite(expected[n].error))
        if not len(places):
            return
        at = tuple(places[pick % len(places)])
        outputs[n][at] = _beyond(outputs[n][at], float(expected[n].error[at]))
        with pytest.raises(DifferenceError):
            engines.compare("numpy", program, outputs, expected)
        found += 1

    look()
    assert found > 30


def _beyond(value: Any, bound: float) -> Any:
    """Another value, further away than twice a bound."""
    if isinstance(value, np.integer):
        return value ^ 1
    number = float(value)
    if not np.isfinite(number):
        return type(value)(0)
    moved = number + 2 * bound + abs(number) * 2.0**-6 + 2.0**-20
    return type(value)(moved)


# --- planted hazards -------------------------------------------------------------------------------------------------


def test_a_planted_hazard_is_reported() -> None:
    """In each place of random programs where it can be planted; the programs themselves have none."""
    reported: Counter[str] = Counter()

    @_drawn(60)
    def look(program: Program) -> None:
        engines.run("numpy", to_module(program), program, oracle.inputs(program))
        for name, fault in FAULTS.items():
            for wrong in list(spoiled(program, fault))[:2]:
                with pytest.raises(fault.error):
                    engines.run("numpy", to_module(wrong), wrong, oracle.inputs(program))
                reported[name] += 1

    look()
    assert min(reported[name] for name in FAULTS) >= 5, reported


def test_the_fast_engine_reports_what_is_out_of_bounds() -> None:
    reported = 0

    @_drawn(15)
    def look(program: Program) -> None:
        nonlocal reported
        for wrong in list(spoiled(program, FAULTS["out of bounds"]))[:1]:
            with pytest.raises(DifferenceError, match="undefined behaviour"):
                engines.run("xla", to_module(wrong), wrong, oracle.inputs(program))
            reported += 1

    look()
    assert reported > 8


def _drawn(count: int, *more: st.SearchStrategy[Any]) -> Any:
    """Run a function on so many random programs, always the same."""

    def decorate(function: Any) -> Any:
        @seed(0)
        @settings(
            max_examples=count,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(st.tuples(programs(), *more))
        def all_of_them(drawn: tuple[Any, ...]) -> None:
            function(*drawn)

        return all_of_them

    return decorate


def test_a_failure_tells_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(*_: Any) -> Any:
        raise DifferenceError("numpy", "o0", "all of it")

    monkeypatch.setattr(campaign, "check", differ)
    found = campaign.outcome(7, 5)
    assert isinstance(found, str)
    assert "numpy: the output o0 differs: all of it" in found
    assert "campaign: seed 7, 5 programs" in found
    assert "o0: output" in found
