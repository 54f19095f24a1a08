"""Every module that is emitted here can be read back into source, and running that source gives its bytes."""

from __future__ import annotations

import doctest
import inspect
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from conformance import cheat_sheet, corpus
from conformance.cases.cheat_sheet import PAIRS
from conformance.cases.cheat_sheet.pairs import Pair
from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import levels
from mosaic_tpu import builder
from mosaic_tpu.builder import registry
from mosaic_tpu.builder.errors import UnsupportedOpError
from mosaic_tpu.lift import NotExactError, build, lift
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from packages.builder.tests.conftest import declare

_NO_TYPE = "elements that the builder has no type of: f4e2m1fn"
#: Ops that lifted source writes in their generic form, each with the reason; all others have a rule that fits.
GENERIC = {
    "builtin.module": "attributes beside its name",
    "func.func": f"index maps of another form; {_NO_TYPE}",
    "func.return": "of such functions",
    "arith.constant": "elements that differ, and bits that no number has",
    "arith.extf": _NO_TYPE,
    "arith.truncf": _NO_TYPE,
    "vector.load": _NO_TYPE,
    "tpu.vector_store": _NO_TYPE,
    "tpu.reduce_index": "positions in 16 bits: the helper has 32",
    "vector.store": "to a memory that is not VMEM",
}


@dataclass
class Trip:
    """What became of the modules of one source."""

    modules: int = 0
    identical: int = 0
    helped: int = 0
    generic: Counter[str] | None = None

    def add(self, body: bytes) -> bool:
        """Lift a body, run the source, and compare the bytes as they would be handed to the compiler."""
        self.modules += 1
        found = lifted(given(body))
        version = levels.ir_version(body)
        ours = build(found.text).serialize(ir_version=version, unzip=False).body
        same = levels.stripped(ours) == levels.stripped(body)
        self.identical += same
        self.helped += found.helped
        self.generic = (self.generic or Counter()) + Counter(found.generic)
        return same

    def row(self, source: str) -> dict[str, object]:
        """For the report."""
        generic = self.generic or Counter()
        return {
            "source": source,
            "modules": self.modules,
            "identical": self.identical,
            "failed": self.modules - self.identical,
            "ops by helpers": self.helped,
            "generic": generic.total(),
            "generic ops": " ".join(sorted(generic)) or "none",
        }


def _batches[T](cases: list[T], size: int = 25) -> list[list[T]]:
    return [cases[start : start + size] for start in range(0, len(cases), size)]


def _themes() -> list[tuple[str, list[corpus.Case]]]:
    """The corpus in batches of one theme: what stands before the stroke of an id."""
    themes: dict[str, list[corpus.Case]] = {}
    for case in (*corpus.WHEEL, *corpus.CASES):
        themes.setdefault(case.id.partition("/")[0], []).append(case)
    return [(theme, batch) for theme, cases in themes.items() for batch in _batches(cases)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_kernel_comes_back(case: KernelCase, record: Record) -> None:
    ours, theirs = case.lowered()
    trip = Trip()
    same = [trip.add(body) for body in dict.fromkeys((ours.body, theirs.body))]
    record("lift round trip", **trip.row(case.kernel))
    assert all(same)
    assert not trip.generic


@pytest.mark.parametrize(("theme", "cases"), _themes(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_corpus_comes_back(theme: str, cases: list[corpus.Case], record: Record) -> None:
    trip = Trip()
    different = [case.id for case in cases for call in corpus.program(case).calls if not trip.add(call.body)]
    source = "jax.experimental.pallas.ops.tpu" if theme == "wheel" else f"primitives of Pallas: {theme}"
    record("lift round trip", **trip.row(source))
    assert different == []
    assert set(trip.generic or ()) <= set(GENERIC)


@pytest.mark.parametrize("pairs", _batches(list(PAIRS)), ids=lambda pairs: f"{pairs[0].id} …")
def test_the_pairs_of_the_cheat_sheet_come_back(pairs: list[Pair], record: Record) -> None:
    trip = Trip()
    bodies: set[bytes] = set()
    for pair in pairs:
        bodies |= {call.body for call in cheat_sheet.lower_both(pair)}
    same = [trip.add(body) for body in sorted(bodies)]
    record("lift round trip", **trip.row("cheat-sheet"))
    assert all(same)
    assert set(trip.generic or ()) <= set(GENERIC)


def test_what_is_exported_comes_back(record: Record) -> None:
    """jax.export: an older form, and locations stay in the body."""
    trip = Trip()
    by_kernel = {case.kernel: case for case in CASES}
    same = [trip.add(case.lowered(forward_compatible=True)[1].body) for case in by_kernel.values()]
    record("lift round trip", **trip.row("under export"))
    assert all(same)


def test_the_newest_version_comes_back(record: Record) -> None:
    trip = Trip()
    by_kernel = {case.kernel: case for case in CASES}
    same = [trip.add(case.lowered(latest=True)[1].body) for case in by_kernel.values()]
    record("lift round trip", **trip.row("newest version"))
    assert all(same)


# --- rules -----------------------------------------------------------------------------------------------------------

OPS = [name for name, spec in registry().items() if spec.emits and not spec.is_idiom and spec.group != "escape"]


@pytest.mark.parametrize("name", OPS)
def test_an_op_of_the_builder_has_a_rule(name: str) -> None:
    """The kernel of its documentation's example comes back as calls of helpers."""
    spec = registry()[name]
    b = builder.Builder("kernel")
    names = {**vars(builder), "b": b, "a": declare(b, "sc_vector_subcore" if spec.group == "sparsecore" else "tc")}
    docstring = inspect.getdoc(spec.function) or ""
    try:
        for example in doctest.DocTestParser().get_examples(docstring):
            exec(example.source, names)
    except UnsupportedOpError as error:
        pytest.skip(error.summary)
    module = names["b"].finish()
    found = lifted(given(module))
    assert found.attempts == 1
    assert not set(found.generic) & set(spec.emits)


# --- the comparison sees what it should ------------------------------------------------------------------------------


def test_another_kernel_is_not_the_same() -> None:
    first, second = (case.lowered()[1].body for case in CASES[-2:])
    assert first != second
    ours = build(lift(first)).serialize(ir_version=levels.ir_version(first), unzip=False).body
    assert levels.stripped(ours) != levels.stripped(second)


def test_source_that_gives_other_bytes_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic_tpu.lift import _lift

    found = given(CASES[-1].lowered()[1].body)
    monkeypatch.setattr(_lift, "wanted", lambda given: b"other bytes")
    with pytest.raises(NotExactError):
        lifted(replace(found))
