"""Errors form a catalogue: one class per cause, each explained, each with a hint, and each raised in some test."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, errors, f32, i8, i32
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder.errors import MosaicError

from .conftest import Raises

CATALOGUE = [
    c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, MosaicError) and c is not MosaicError
]
TESTS = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("error", CATALOGUE)
def test_every_error_is_explained_and_hints(error: type[MosaicError]) -> None:
    assert (inspect.getdoc(error) or "").endswith(".")
    assert error.default_hint and error.default_hint != MosaicError.default_hint


@pytest.mark.parametrize("error", CATALOGUE)
def test_every_error_is_also_one_of_pythons(error: type[MosaicError]) -> None:
    assert any(base.__module__ == "builtins" and base not in (Exception, object) for base in error.__mro__[2:-3])


@pytest.mark.parametrize("error", CATALOGUE)
def test_every_error_has_a_negative_test(error: type[MosaicError]) -> None:
    assert re.search(rf"\be\.{error.__name__}\b", TESTS)


def test_a_message_has_its_parts_in_order() -> None:
    error = MosaicError("no", op="addf", operands=["f32", "i32"], location="k.py:3", hint="cast")
    assert str(error) == "addf: no\n  operands: f32, i32\n  at: k.py:3\n  hint: cast"


def test_an_error_without_a_line_takes_the_callers() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    error = MosaicError("no")
    assert error.location == f"{__file__}:{line}"


@pytest.mark.parametrize("idiom", ["max", "min"])
def test_pallas_reduces_no_bytes(b: Builder, a: Args, raises: Raises, idiom: str) -> None:
    x = b.zeros((32, 128), i8)
    with raises(e.UnsupportedOpError, idiom, "vector<32x128xi8>", hint="cast"):
        getattr(b.pallas, idiom)(x, 1)


def test_an_einsum_contracts_something(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((8, 128), f32)
    with raises(e.UnsupportedOpError, "einsum", "contracted", hint="multiply"):
        b.pallas.einsum("ab,cd->dcab", x, x)
    with raises(e.UnsupportedOpError, "scalar", hint="b.pallas.sum"):
        b.pallas.einsum("ab,ab->", x, x)


@pytest.mark.parametrize(
    ("error", "spec", "hint"),
    [
        (e.AttributeValueError, "a1->a", "a letter for each dimension"),
        (e.AttributeValueError, "ab->aa", "of the result once"),
        (e.AttributeValueError, "ab->c", "a letter"),
        (e.AttributeValueError, "...->", "a letter"),
        (e.AttributeValueError, 3, "string"),
        (e.ArityError, "ab,bc->ac", "as the spec has it"),
        (e.ShapeError, "abc->a", ""),
        (e.ShapeError, "aa->a", ""),
    ],
)
def test_the_spec_of_an_einsum_fits(
    b: Builder, a: Args, raises: Raises, error: type[e.MosaicError], spec: Any, hint: str
) -> None:
    x = b.zeros((8, 128), f32)
    with raises(error, "einsum", hint=hint):
        b.pallas.einsum(spec, x)
    with raises(e.ArityError, "3 operands", hint="two at a time"):
        b.pallas.einsum("ab,bc,cd->ad", x, x, x)


def test_an_op_that_the_dialect_lacks_names_the_versions_that_have_it(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.UnsupportedOpError, "tpu.rotate", hint="0.10.2"):
        b._native("RotateOp", "tpu.rotate")


def test_a_type_the_builder_lacks_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    from jaxlib.mlir import ir

    with b.context:
        complex_type = ir.ComplexType.get(b.scalar_ty(f32).ir)
    with raises(e.AttributeValueError, "emit", "complex<f32>"):
        b.type_of(complex_type)


def test_an_operation_of_another_context_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    from jaxlib.mlir import ir

    from mosaic_tpu.builder._compat import new_context

    with new_context() as other, ir.Location.unknown(other):
        created = ir.Operation.create("tpu.device_id", [ir.IntegerType.get_signless(32)])
    with raises(e.ForeignValueError, "tpu.device_id", hint="b.context"):
        b.emit(created)


def test_only_operations_are_emitted(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "emit", hint="Operation.create"):
        b.emit(a.i)  # type: ignore[arg-type]


def test_results_are_counted(b: Builder, a: Args, raises: Raises) -> None:
    from jaxlib.mlir import ir

    created = ir.Operation.create("tpu.device_id", [b.scalar_ty(i32).ir], loc=ir.Location.unknown(b.context))
    with raises(e.ArityError, "tpu.device_id", "1 results, not 2"):
        b.emit_multi(created, 2)
