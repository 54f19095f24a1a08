"""Loads and stores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mosaic_tpu.lift._code import Text
from mosaic_tpu.lift.idioms._form import Form, Types, literal_of, proposes
from mosaic_tpu.lift.idioms._index import Code, drops, indices, joined, of_value, views
from mosaic_tpu.sim import ir


def _form(code: Code, name: str | int) -> Form:
    return Form(code.types, lambda xs: Text(code.write(xs)), name, spare=code.partial)


def _store(place: Code, value: Code) -> Form:
    cut = len(place.types)
    return Form(
        (*place.types, *value.types),
        lambda xs: Text(value.write(xs[cut:])),
        target=lambda xs: f"{place.write(xs[:cut])} = ",
        spare=place.partial,
    )


def _item(ref: ir.Value, index: Code) -> Iterator[Code]:
    for view in views(ref):
        yield joined([view, index], lambda texts: f"{texts[0]}[{texts[1]}]")


@proposes("memref.load")
def _load_scalars(op: ir.Operation, types: Types) -> Iterator[Form]:
    ref, *starts = op.operands
    index = indices(ref.type.shape, starts, [1] * len(starts), range(len(starts)))
    for code in _item(ref, index):
        yield _form(code, 0)


@proposes("memref.store")
def _store_scalars(op: ir.Operation, types: Types) -> Iterator[Form]:
    value, ref, *starts = op.operands
    index = indices(ref.type.shape, starts, [1] * len(starts), range(len(starts)))
    for code in _item(ref, index):
        if (literal := literal_of(value)) is not None:
            yield _store(code, Code((), lambda xs, literal=literal: literal))
        yield _store(code, of_value(value.type))


@proposes("vector.load", "tpu.strided_load")
def _loads(op: ir.Operation, types: Types) -> Iterator[Form]:
    ref, *starts = op.operands
    sizes = op.results[0].type.shape
    for dropped in _dropped(op.results[0], sizes):
        for code in _item(ref, indices(ref.type.shape, starts, sizes, dropped, _steps(op))):
            yield _form(code, 0)


def _steps(op: ir.Operation) -> Sequence[int]:
    return op.attributes.integers("strides") if op.name.startswith("tpu.strided") else ()


def _dropped(value: ir.Value, sizes: Sequence[int]) -> Iterator[Sequence[int]]:
    """What the op after a load drops, and nothing."""
    for user in value.users[:1]:
        if user.name == "vector.shape_cast" and user.results[0].type.kind == "vector":
            yield from drops(sizes, user.results[0].type.shape)
        elif user.name == "vector.extract":
            yield range(len(sizes))
    yield ()


@proposes("tpu.vector_store", "tpu.strided_store")
def _stores(op: ir.Operation, types: Types) -> Iterator[Form]:
    if op.name == "tpu.vector_store":
        if len(op.segments()) != 4 or op.attributes.boolean("add"):
            return
        (value,), (ref,), starts, masks = op.segments()
    else:
        value, ref, *starts = op.operands
        masks: Sequence[ir.Value] = []
    sizes = value.type.shape
    for stored in _stored(value):
        for dropped in drops(sizes, stored.shape):
            index = indices(ref.type.shape, starts, sizes, dropped, _steps(op))
            for place in _item(ref, index) if not masks else ():
                yield _store(place, of_value(stored))
            for view in views(ref) if masks else ():
                yield _masked(view, stored, index, _mask(masks[0], stored.shape))


def _mask(mask: ir.Value, shape: Sequence[int]) -> ir.Type:
    """The type of a mask before dimensions were added to it."""
    made = mask.definition
    if made is not None and made.name == "vector.shape_cast" and made.operands[0].type.shape == tuple(shape):
        return made.operands[0].type
    return mask.type


def _masked(view: Code, stored: ir.Type, index: Code, mask: ir.Type) -> Form:
    code = joined(
        [view, of_value(stored), index, of_value(mask)],
        lambda t: f"b.pallas.store({t[0]}, {t[1]}, {_argument(t[2])}mask={t[3]})",
    )
    return Form(code.types, lambda xs: Text(code.write(xs)), target=lambda xs: "", spare=code.partial)


def _argument(index: str) -> str:
    """An index as an argument: slices stand between brackets alone."""
    if index == "...":
        return ""
    entries = re.split(r", (?![^(]*\))", index)
    shown = [_slice(e) if ":" in e else e for e in entries]
    return f"({', '.join(shown)}{',' if len(shown) == 1 else ''}), "


def _slice(entry: str) -> str:
    parts = [part or "None" for part in entry.split(":")]
    return f"slice({parts[1] if parts[0] == 'None' and len(parts) == 2 else ', '.join(parts)})"


def _stored(value: ir.Value) -> Iterator[ir.Type]:
    """What may have been stored, before dimensions were added to it."""
    made = value.definition
    if made is not None and made.name == "vector.shape_cast" and made.operands[0].type.kind == "vector":
        yield made.operands[0].type
    yield value.type
