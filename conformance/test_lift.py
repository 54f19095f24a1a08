"""Every module that is emitted here can be read back into source, and running that source gives its bytes."""

from __future__ import annotations

import doctest
import inspect
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from conformance import corpus
from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import levels
from conformance.harness.trip import GENERIC, Trip
from mosaic_tpu import aot, builder, zoo
from mosaic_tpu.builder import registry
from mosaic_tpu.builder.errors import UnsupportedOpError
from mosaic_tpu.lift import LiftError, NotExactError, SourceError, build, lift
from mosaic_tpu.lift._compat import stripped, stripped_module, unmarked
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from packages.builder.tests.conftest import declare
from packages.lift.tests.lift_kit import damaged


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
    assert not trip.again
    assert trip.stable == trip.modules
    assert trip.idiomatic > 0.6 * trip.helped


@pytest.mark.parametrize("kernel", zoo.KERNELS)
def test_canonical_text_comes_back(kernel: str, record: Record) -> None:
    """What `mosaic-tpu zoo emit` and `Kernel.emit` show."""
    info, trip = zoo.KERNELS[kernel], Trip()
    for cfg in info.presets.values():
        text = info.kernel.emit(cfg)
        assert trip.add(stripped(text, given(text).version))
    record("lift round trip", **trip.row(f"canonical text: {kernel}"))
    assert not trip.generic
    assert not trip.again
    assert trip.stable == trip.modules


@pytest.mark.parametrize(("theme", "cases"), _themes(), ids=lambda value: value if isinstance(value, str) else "")
def test_the_corpus_comes_back(theme: str, cases: list[corpus.Case], record: Record) -> None:
    trip = Trip()
    different = [case.id for case in cases for call in corpus.program(case).calls if not trip.add(call.body)]
    source = "jax.experimental.pallas.ops.tpu" if theme == "wheel" else f"primitives of Pallas: {theme}"
    record("lift round trip", **trip.row(source))
    assert different == []
    assert not trip.again
    assert trip.stable == trip.modules
    assert set(trip.generic) <= set(GENERIC)


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


def test_dumps_of_the_compiler_come_back(tmp_path: Path, record: Record) -> None:
    """What it writes between its passes, up to those in dialects that jaxlib lacks."""
    case = next(case for case in CASES if case.id == "matmul-bf16")
    aot.compile(case.lowered()[0].body, target="v6e", flags={"xla_mosaic_dump_to": str(tmp_path)})
    read = dict[str, int]()
    for path in sorted(tmp_path.rglob("*.txt"), key=lambda path: path.name):
        try:
            found = lifted(given(str(path)))
        except SourceError as error:
            assert "Dialect `" in error.summary  # llo and the like
            continue
        source = unmarked(path.read_text())
        wanted = stripped(source, given(source).version)
        assert stripped_module(build(found.text), given(source).version) == wanted
        read[path.stem.rpartition("-dump-")[2]] = found.helped
    record("lift of dumps", dumps=len(read), ops=sum(read.values()))
    assert any("original" in name for name in read)
    assert any("apply-vector-layout" in name for name in read)


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


# --- damaged bodies --------------------------------------------------------------------------------------------------

#: Of each kernel, in each of so many items: together 2,000 of them.
ITEMS = 8
BODIES = 250


@pytest.mark.parametrize("item", range(ITEMS))
def test_a_damaged_body_is_refused_or_lifted_exactly(item: int, record: Record) -> None:
    smallest = sorted((case.lowered()[1].body for case in CASES[:: len(CASES) // 8]), key=len)[:4]
    outcomes = Counter[str]()
    for seed in range(item * BODIES, (item + 1) * BODIES):
        data = damaged(smallest[seed % len(smallest)], seed)
        try:
            found = lifted(given(data), ("ops", "idioms")[seed % 2])
        except LiftError as error:
            assert error.summary
            assert error.hint
            outcomes["refused"] += 1
        else:
            version = levels.ir_version(data)
            again = build(found.text).serialize(ir_version=version, unzip=False).body
            assert levels.stripped(again) == levels.stripped(data)
            outcomes["exact"] += 1
    record("damaged bodies", item=item, **outcomes)
    assert outcomes["refused"] > BODIES / 2
    assert outcomes["exact"]


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
