"""Every op that a kernel can hold has a rule, or a reason to have none; the table says both."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jax._src.pallas.mosaic.lowering as lowering
import pytest

from mosaic_tpu.builder import registry
from mosaic_tpu.sim import coverage, rules
from mosaic_tpu.sim._registry import RULES, UNSUPPORTED
from mosaic_tpu.sim.errors import InputError

DIALECTS: Final = ("arith", "cf", "func", "math", "memref", "scf", "vector")
_CLASSES: Final = [
    "jaxlib.mosaic.python._tpu_ops_gen",
    *(f"jaxlib.mlir.dialects._{dialect}_ops_gen" for dialect in DIALECTS),
]


def _bound() -> Iterator[tuple[str, str]]:
    """The name of every op with a generated class, and the name of each of its classes."""
    for module in _CLASSES:
        for cls in vars(importlib.import_module(module)).values():
            if inspect.isclass(cls) and hasattr(cls, "OPERATION_NAME"):
                yield cls.OPERATION_NAME, cls.__name__


CLASSES: Final = set(_bound())
OPS: Final = {op for op, _ in CLASSES}


def _called() -> set[str]:
    """The ops that Pallas's TensorCore lowering makes, by its source: ``arith.addi(…)``, ``tpu.RegionOp(…)``."""
    text = Path(inspect.getfile(lowering)).read_text().replace("mlir_math.", "math.")
    dialects = "|".join((*DIALECTS, "tpu"))
    found: set[str] = set()
    for dialect, name in re.findall(rf"\b({dialects})\.(\w+)\b", text):
        classes = {op for op, cls in CLASSES if cls == name and op.startswith(f"{dialect}.")}
        found |= classes | {f"{dialect}.{name.rstrip('_')}"}
    return found & OPS


def test_the_lowering_is_read() -> None:
    assert {"arith.addi", "tpu.region", "tpu.matmul", "math.exp", "cf.assert", "scf.while", "tpu.log"} <= _called()
    assert len(_called()) > 100


def test_the_fast_engine_runs_nothing_that_the_reference_refuses() -> None:
    """Else nobody could check it, and silence of the one would be an error of the other."""
    assert [row.op for row in coverage() if row.xla and not row.numpy] == []
    assert coverage()["tpu.matmul_pop"].xla is False


@pytest.mark.parametrize("name", sorted(_called()))
def test_what_pallas_emits_has_a_rule_or_a_reason(name: str) -> None:
    row = coverage()[name]
    assert row.numpy or len(row.reason.split()) > 3


@pytest.mark.parametrize("name", sorted({op for spec in registry().values() for op in spec.emits}))
def test_what_the_builder_emits_has_a_rule_or_a_reason(name: str) -> None:
    row = coverage()[name]
    assert row.numpy or len(row.reason.split()) > 3


def test_every_op_of_the_dialects_has_a_rule_or_a_reason() -> None:
    assert sorted(OPS - set(RULES) - set(UNSUPPORTED)) == []


def test_nothing_has_both() -> None:
    assert set(RULES) & set(UNSUPPORTED) == set()


#: Of Pallas's TensorCore lowering, what the reference engine leaves out: the list shrinks or says why here.
LEFT_OUT: Final = {"func.func", "tpu.shared_memref_slice"}


def test_of_pallas_only_these_are_left_out() -> None:
    assert {name for name in _called() if name not in RULES} <= LEFT_OUT


def test_a_reason_says_something() -> None:
    assert all(len(reason.split()) > 3 and not reason.endswith(".") for reason in UNSUPPORTED.values())


def test_the_table_prints_with_a_count() -> None:
    table = coverage()
    lines = str(table).splitlines()
    assert len(lines) == len(table) + 2
    assert re.fullmatch(r"\d+ ops: numpy runs \d+, xla \d+", lines[-1])
    assert re.search(r"^tpu\.subcore_id +no +no +it belongs to the SparseCore", str(table), re.MULTILINE)
    assert re.search(r"^arith\.addi +yes +yes$", str(table), re.MULTILINE)


def test_an_op_that_nobody_knows_is_no_row() -> None:
    with pytest.raises(InputError, match="no engine knows"):
        coverage()["tpu.no_such_op"]


def test_an_op_that_loses_its_rule_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "arith.addi")
    row = coverage()["arith.addi"]
    assert (row.numpy, row.reason) == (False, "the reference engine has no rule for it")


def test_the_tree_of_rules_mirrors_the_dialects() -> None:
    modules: dict[str, Any] = {n: m for n, m in vars(rules).items() if inspect.ismodule(m)}
    assert set(DIALECTS) <= set(modules)
