"""Micro-kernels in pairs: each row of the guide's cheat-sheet and each idiom emits Pallas's bytes."""

from __future__ import annotations

import dataclasses
from collections import Counter

import jax
import pytest

from conformance import cheat_sheet
from conformance.cases.cheat_sheet import GUIDE_ROWS, PAIRS
from conformance.cases.cheat_sheet.pairs import Pair, Pairs, out, smem, vmem
from conformance.conftest import Record
from conformance.harness import levels, pallas
from conformance.harness.trip import GENERIC, Trip
from mosaic_tpu.builder import f32, i32, registry
from mosaic_tpu.builder._compat import PALLAS_HAS_MULHI

#: Idioms of functions that Pallas does not lower on every JAX.
LOWERED = {"pallas.mulhi": PALLAS_HAS_MULHI}
IDIOMS = [name for name, spec in registry().items() if spec.is_idiom and LOWERED.get(name, True)]


FOUND = cheat_sheet.load()


def compared(pair: Pair) -> tuple[levels.Result, levels.Level, pallas.PallasCall]:
    """What a pair reaches, what it has to, and our call."""
    ours, theirs = cheat_sheet.lower_both(pair)
    return levels.compare(ours, theirs), levels.required_level(theirs), ours


def lifted_again(ours: pallas.PallasCall, record: Record) -> None:
    """The body comes back from its source, in both styles; here, where it is lowered already."""
    trip = Trip()
    same = trip.add(ours.body)
    record("lift round trip", **trip.row("cheat-sheet"))
    assert same
    assert not trip.again
    assert set(trip.generic) <= set(GENERIC)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_pair_has_one_body(pair: Pair, record: Record) -> None:
    result, required, ours = compared(pair)
    record("cheat-sheet", row=pair.row or f"({pair.topic})", pair=pair.id, dtype=pair.dtype, level=result.level.value)
    assert result.level.reaches(required), f"{pair.pallas_text}\n≠\n{pair.ours_text}\n{result.detail}"
    known = FOUND.get(jax.__version__, {}).get(pair.id)
    assert known == (cheat_sheet.emitted(pair, ours), pair.dtype), "the cheat-sheet is stale: nox -s cheat-sheet"
    lifted_again(ours, record)


def test_the_cheat_sheet_has_every_pair_and_no_other() -> None:
    assert list(FOUND[jax.__version__]) == [pair.id for pair in PAIRS]


def test_the_cheat_sheet_is_what_the_pairs_make() -> None:
    if jax.__version__ == list(FOUND)[-1]:  # an older JAX may lack pairs
        assert cheat_sheet.PAGE.read_text(encoding="utf-8") == cheat_sheet.page(PAIRS, FOUND)


def test_ids_are_unique() -> None:
    assert [name for name, count in Counter(pair.id for pair in PAIRS).items() if count > 1] == []


@pytest.mark.parametrize("name", IDIOMS)
def test_an_idiom_has_a_pair(name: str) -> None:
    assert any(name in pair.idioms for pair in PAIRS)


def test_pairs_name_registered_idioms() -> None:
    named = frozenset().union(*(pair.idioms for pair in PAIRS))
    known = {name for name, spec in registry().items() if spec.is_idiom}
    assert named <= known, sorted(named - known)


@pytest.mark.parametrize("row", GUIDE_ROWS)
def test_a_row_of_the_guide_has_a_pair(row: str) -> None:
    assert any(pair.row == row for pair in PAIRS)


def test_pairs_name_rows_of_the_guide() -> None:
    assert {pair.row for pair in PAIRS} <= {*GUIDE_ROWS, None}


def test_the_texts_are_what_runs() -> None:
    pair = next(pair for pair in PAIRS if pair.id == "when")
    assert pair.pallas_text == "@pl.when(s[0] > 0)\ndef _():\n    o[...] = x[...]"
    assert pair.ours_text == "with b.pallas.when(s[0] > 0):\n    o[...] = x[...]"
    assert all(pair.pallas_text and pair.ours_text for pair in PAIRS)


# --- the comparison sees what it should ------------------------------------------------------------------------------

PLANTED = Pairs("planted")
PLANTED.expression("another-number", "x + 1.0", "x + 1.5", x=vmem(f32))
PLANTED.expression("operands-swapped", "x + 1.0", "1.0 + x", x=vmem(f32))
PLANTED.expression("towards-zero", "x // 2", "b.pallas.div(x, 2)", x=vmem(i32))
PLANTED.expression(
    "nan-loses",
    "jnp.max(x, axis=0)",
    "b.multi_reduction('maxnumf', x, b.full((128,), -float('inf'), f32), (0,))",
    x=vmem(f32),
)
PLANTED.expression("dense-zeros", "jnp.zeros((8, 128), jnp.float32)", "b.zeros((8, 128), f32)")
PLANTED.expression("constant-shared", "(x + 1.0) * 1.0", "(lambda one: (x + one) * one)(b.lift(1.0))", x=vmem(f32))
PLANTED.expression("one-op-more", "x + 1.0", "b.shape_cast(x, (8, 128)) + 1.0", x=vmem(f32))
PLANTED.refs(
    "no-dead-load",
    "o[...] = x[...]",
    "b.vector_store_at(o, x[...], [b.c_index(0), b.c_index(0)])",
    x=vmem(f32),
    o=out(f32),
)
PLANTED.refs("another-index", "o[0] = s[1]", "o[0] = s[2]", s=smem(i32), o=out(i32, (4,), space="smem"))


@pytest.mark.parametrize("pair", PLANTED, ids=lambda pair: pair.id)
def test_a_planted_difference_is_seen(pair: Pair) -> None:
    result, required, _ = compared(pair)
    assert not result.level.reaches(required)
    assert result.detail


def test_a_planted_difference_in_a_window_is_seen() -> None:
    pair = next(pair for pair in PAIRS if pair.id == "map-ids")
    x = dataclasses.replace(pair.args["x"], index_map=lambda i, j: (j, i))
    other = dataclasses.replace(pair, args={**pair.args, "x": x})
    theirs, arrays = pair.pallas_call()
    result = levels.compare(pallas.lower(other.our_call(), *arrays), pallas.lower(theirs, *arrays))
    assert result.level is levels.Level.DIFFERENT
