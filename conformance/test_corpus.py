"""The corpus reaches all that Pallas can lower for a TensorCore, and all kernels of JAX's wheel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance import corpus
from conformance.conftest import Record
from conformance.corpus import wheel
from conformance.corpus.case import Cases, lower
from mosaic_tpu.builder import registry

ALL = (*corpus.CASES, *corpus.WHEEL)
#: Seconds of one core.
BUDGET = 60.0
#: Ops of the module itself, which `declare_args` and the kernel's end emit.
FRAME = {"builtin.module", "func.func", "func.return"}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_a_case_lowers_and_shows_what_it_is_there_for(case: corpus.Case) -> None:
    program = corpus.program(case)
    assert program.calls
    assert set(case.primitives) <= set(program.lowered)


def test_ids_are_unique() -> None:
    assert [name for name, count in Counter(case.id for case in ALL).items() if count > 1] == []


def uncovered(table: Collection[str], cases: Collection[corpus.Case]) -> set[str]:
    """What a table has and no case reaches."""
    return set(table) - set(corpus.reached(cases)) - set(corpus.UNREACHABLE)


def test_every_primitive_of_the_table_has_a_case(record: Record) -> None:
    table, reached = corpus.tensor_core_primitives(), corpus.reached(corpus.CASES)
    for name in sorted(table):
        cases = [case.id for case in corpus.CASES if name in case.primitives]
        ops = " ".join(sorted(reached.get(name, ())))
        record("corpus", primitive=name, cases=len(cases), ops=ops or corpus.UNREACHABLE.get(name, "(none)"))
    assert uncovered(table, corpus.CASES) == set()


def test_every_primitive_of_the_table_has_a_case_of_its_own() -> None:
    named = {name for case in corpus.CASES for name in case.primitives}
    assert corpus.tensor_core_primitives() - named == set(corpus.UNREACHABLE)


def test_a_primitive_without_a_case_is_seen() -> None:
    without = [case for case in corpus.CASES if "conv" not in case.primitives]
    assert uncovered({*corpus.tensor_core_primitives(), "a_new_one"}, without) == {"a_new_one", "conv"}


def test_the_jaxprs_say_so_too() -> None:
    """What the rules that ran say and what is bound in the kernels' jaxprs is the same, but for known names."""
    bound = frozenset[str]().union(*(program.bound for _, program in corpus.programs(corpus.CASES)))
    assert set(corpus.reached(corpus.CASES)) - bound == set(corpus.FROM_OTHERS)


# --- what cannot be reached ------------------------------------------------------------------------------------------


def test_the_unreachable_are_of_the_table_and_not_reached() -> None:
    assert set(corpus.UNREACHABLE) <= corpus.tensor_core_primitives()
    assert set(corpus.UNREACHABLE) & set(corpus.reached(ALL)) == set()


def _attempt(function: Callable[..., Any]) -> corpus.Program:
    cases = Cases("attempt")
    cases.values("one", (), function, "f32[8,128]")
    (case,) = cases
    return lower(case)


def test_broadcast_to_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Triton-specific"):
        _attempt(lambda x: pl.broadcast_to(x[:1], (8, 128)))


def test_stage_is_never_bound() -> None:
    for function in (
        lambda x: x + lax.stage(3.0),
        lambda x: lax.stage(x),
        lambda x: lax.cos(lax.stage(jnp.float32(1))) + x,
    ):
        assert "stage" not in _attempt(function).bound


REFUSED: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "cumsum": (lambda x: jnp.cumsum(x, 0), NotImplementedError, "Unimplemented primitive.*cumsum"),
    "sort": (lambda x: jnp.sort(x), NotImplementedError, "Unimplemented primitive.*sort"),
    "scan with outputs": (
        lambda x: lax.scan(lambda c, _: (c, c), x, length=2)[1][0],
        ValueError,
        "extensive output",
    ),
    "interior padding": (lambda x: lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 0))), NotImplementedError, "interior"),
    "unsigned product": (
        lambda x: lax.dot(x.astype(jnp.uint32), x.T.astype(jnp.uint32)).astype(jnp.float32),
        NotImplementedError,
        "[Uu]nsigned",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pallas_refuses(name: str) -> None:
    """What a reader might miss in the corpus."""
    function, error, says = REFUSED[name]
    with pytest.raises(error, match=says):
        _attempt(function)


def test_a_masked_load_is_refused() -> None:
    cases = Cases("attempt")

    @cases.refs((), ("f32[8,128]",))
    def _(x: Any, o: Any) -> None:
        o[...] = pltpu.load(x, mask=x[...] > 0)

    with pytest.raises(NotImplementedError):
        lower(*cases)


# --- the builder -----------------------------------------------------------------------------------------------------


def without_builder_op(ops: Collection[str]) -> set[str]:
    """Which of some MLIR ops no method of the builder emits."""
    return set(ops) - FRAME - {name for spec in registry().values() for name in spec.emits}


def test_every_emitted_op_has_a_builder_op() -> None:
    emitted = corpus.emitted_ops()
    missing = without_builder_op(emitted)
    assert missing == set(), {op: emitted[op] for op in sorted(missing)}


def test_an_op_without_builder_op_is_seen() -> None:
    assert without_builder_op({"arith.addf", "tpu.no_such_op", "func.return"}) == {"tpu.no_such_op"}


# --- the wheel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", wheel.modules())
def test_a_module_of_the_wheel_has_cases(module: str, record: Record) -> None:
    callers = wheel.callers(module)
    if module in wheel.WITHOUT_KERNELS:
        assert not callers
        return
    reached = frozenset[tuple[str, str]]().union(*(program.callers for _, program in corpus.programs(corpus.WHEEL)))
    assert callers, "a module without kernels belongs to WITHOUT_KERNELS"
    assert [name for name, file in callers.items() if (file, name) not in reached] == []
    record("corpus: the wheel", module=module, kernels=len(callers))


def test_modules_without_kernels_exist() -> None:
    assert set(wheel.WITHOUT_KERNELS) <= set(wheel.modules())


# --- speed -----------------------------------------------------------------------------------------------------------


def test_the_corpus_lowers_within_its_budget(record: Record) -> None:
    jax.clear_caches()
    start = time.process_time()
    for case in ALL:
        lower(case)
    seconds = time.process_time() - start
    record("corpus: time", cases=len(corpus.CASES), wheel=len(corpus.WHEEL), seconds=round(seconds, 1))
    assert seconds < BUDGET
