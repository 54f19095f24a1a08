"""Shapes, slices of values, fills, movement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mosaic_tpu.lift._code import Call, Items, Node, Shape, Text
from mosaic_tpu.lift._types import dtype_code
from mosaic_tpu.lift.idioms._form import Form, Types, Write, literal_of, proposes
from mosaic_tpu.lift.idioms._index import span
from mosaic_tpu.sim import ir


@proposes("vector.broadcast")
def _broadcasts(op: ir.Operation, types: Types) -> Iterator[Form]:
    source, target = op.operands[0], op.results[0].type
    shape, dtype = Shape(target.shape), dtype_code(target)
    literal = literal_of(source)
    if literal is not None:
        for value, name in (("0", "zeros"), ("1", "ones")):
            if _number(literal) == float(value):
                yield Form((), lambda xs, name=name: Call(f"b.pallas.{name}", shape, dtype), name)
        yield Form((), lambda xs: Call("b.pallas.full", shape, Text(literal), dtype), "filled")
    made = source.definition
    if made is not None and made.name == "vector.shape_cast":
        yield _broadcast(made.operands[0].type, shape)
        yield from _in_dim(made.operands[0].type, target)
    yield _broadcast(source.type, shape)
    if source.type.kind == "scalar":
        yield Form((source.type,), lambda xs: Call("b.pallas.full", shape, *xs, dtype), "filled")


def _number(literal: str) -> float:
    known = {"math.inf": math.inf, "-math.inf": -math.inf, "True": 1.0, "False": 0.0}
    return known[literal] if literal in known else float(literal)


def _broadcast(source: ir.Type, shape: Shape) -> Form:
    return Form((source,), lambda xs: Call("b.pallas.broadcast_to", *xs, shape), 0)


def _in_dim(source: ir.Type, target: ir.Type) -> Iterator[Form]:
    """Where each dimension of the source may go, if that is told by the sizes."""
    places: list[int] = []
    for size in source.shape:
        start = places[-1] + 1 if places else 0
        found = [d for d in range(start, len(target.shape)) if target.shape[d] == size]
        if not found:
            return
        places.append(found[0])
    shown = Shape(tuple(places))
    yield Form((source,), lambda xs: Call("b.pallas.broadcast_in_dim", *xs, Shape(target.shape), shown), 0)


@proposes("vector.shape_cast")
def _reshapes(op: ir.Operation, types: Types) -> Iterator[Form]:
    source, target = op.operands[0].type, op.results[0].type
    if source.kind != "vector" or target.kind != "vector":
        return
    inserted, dropped = _ones(source.shape, target.shape), _ones(target.shape, source.shape)
    if inserted:
        shown = _axes(inserted)
        yield Form((source,), lambda xs: Call("b.pallas.expand_dims", *xs, shown), 0)
    if dropped:
        left = _axes(dropped)
        yield Form((source,), lambda xs: Call("b.pallas.squeeze", *xs, left), 0)
    yield Form((source,), lambda xs: Call("b.pallas.reshape", *xs, Shape(target.shape)), 0)


def _ones(small: tuple[int, ...], large: tuple[int, ...]) -> tuple[int, ...]:
    """At which dimensions of the large shape ones stand that the small one lacks."""
    places: list[int] = []
    at = 0
    for d, size in enumerate(large):
        if at < len(small) and small[at] == size and len(large) - d - 1 >= len(small) - at - 1:
            at += 1
        elif size == 1:
            places.append(d)
        else:
            return ()
    return tuple(places) if at == len(small) else ()


def _axes(axes: tuple[int, ...]) -> Node:
    return Text(str(axes[0])) if len(axes) == 1 else Shape(axes)


@proposes("vector.extract_strided_slice")
def _slices(op: ir.Operation, types: Types) -> Iterator[Form]:
    source, target = op.operands[0].type, op.results[0].type
    starts, sizes = op.attributes.integers("offsets"), op.attributes.integers("sizes")
    sizes += source.shape[len(sizes) :]
    starts += (0,) * (len(sizes) - len(starts))
    after = target.shape
    user = op.results[0].users[0] if len(op.results[0].users) == 1 else None
    if user is not None and user.name == "vector.shape_cast":
        after = user.results[0].type.shape
        dropped = _ones(after, sizes)
        if dropped:
            yield Form((source,), _index(source.shape, starts, sizes, dropped), 0)
    yield Form((source,), _index(source.shape, starts, sizes, ()), 0)
    limits = Shape(tuple(a + n for a, n in zip(starts, sizes, strict=True)))
    yield Form((source,), lambda xs: Call("b.pallas.slice", *xs, Shape(starts), limits), 0)


@proposes("vector.extract")
def _items(op: ir.Operation, types: Types) -> Iterator[Form]:
    source = op.operands[0].type
    places = op.attributes.integers("static_position")
    if source.kind == "vector" and len(places) == len(source.shape) and ir.DYNAMIC not in places:
        yield Form((source,), _index(source.shape, places, places, tuple(range(len(places)))), "item")
        if not any(places):
            yield Form((source,), lambda xs: Call("b.pallas.squeeze", *xs), "item")


def _index(shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int], dropped: Sequence[int]) -> Write:
    shown = [
        str(start) if d in dropped else span(start, size, whole)
        for d, (start, size, whole) in enumerate(zip(starts, sizes, shape, strict=True))
    ]
    while len(shown) > 1 and shown[-1] == ":":
        shown.pop()
    return lambda xs: Text(f"{xs[0].text}[{', '.join(shown)}]")


@proposes("tpu.iota")
def _iotas(op: ir.Operation, types: Types) -> Iterator[Form]:
    target = op.results[0].type
    dtype, dimensions = dtype_code(target), op.attributes.integers("dimensions")
    count = Text(str(math.prod(target.shape)))
    yield Form((), lambda xs: Call("b.pallas.arange", count, dtype), "iota")
    if len(target.shape) == 2:
        yield from _diagonals(op, types)
    if len(dimensions) == 1:
        (d,) = dimensions
        plain = all(size == 1 for n, size in enumerate(target.shape) if n != d)
        for source in types.of_rank(len(target.shape) - 1) if plain else ():
            for out in types.vectors((*source.shape[:d], target.shape[d], *source.shape[d:])):
                yield _one_hot(source, target.shape[d], dtype_code(out), d)
        along = Text(str(dimensions[0]))
        yield Form((), lambda xs: Call("b.pallas.broadcasted_iota", dtype, Shape(target.shape), along), "iota")


def _one_hot(source: ir.Type, count: int, dtype: Node, axis: int) -> Form:
    along = None if axis == len(source.shape) else Text(str(axis))
    return Form(
        (source,), lambda xs: Call("b.pallas.one_hot", *xs, Text(str(count)), dtype=dtype, axis=along), "one_hot"
    )


def _diagonals(op: ir.Operation, types: Types) -> Iterator[Form]:
    """`eye` and `tri`, of the diagonal that is told by what is added to the rows."""
    n, m = op.results[0].type.shape
    sizes = [Text(str(n)), *([] if n == m else [Text(str(m))])]
    moved = [literal for user in op.results[0].users for v in user.operands if (literal := _splat_of(v)) is not None]
    for out in types.vectors(op.results[0].type.shape):
        for k in dict.fromkeys((*moved, "0")):
            how: dict[str, Node] = {"dtype": dtype_code(out)} if k == "0" else {"k": Text(k), "dtype": dtype_code(out)}
            for name in ("eye", "tri"):
                yield Form((), lambda xs, name=name, how=how: Call(f"b.pallas.{name}", *sizes, **how), name)


def _splat_of(value: ir.Value) -> str | None:
    """The number that a constant, or the broadcast of one, is."""
    made = value.definition
    return literal_of(made.operands[0] if made is not None and made.name == "vector.broadcast" else value)


@proposes("tpu.concatenate")
def _joined(op: ir.Operation, types: Types) -> Iterator[Form]:
    parts = tuple(v.type for v in op.operands)
    axis = Text(str(op.attributes.integer("dimension")))
    if len(set(op.operands)) == 1 and len(parts) > 1:
        rank = len(parts[0].shape)
        reps = Shape(tuple(len(parts) if d == op.attributes.integer("dimension") else 1 for d in range(rank)))
        yield Form(parts[:1], lambda xs: Call("b.pallas.tile", *xs, reps), "tiled")
    yield from _rolled(op)
    yield Form(parts, lambda xs: Call("b.pallas.concatenate", Items("[", list(xs), "]"), axis), "joined")


def _rolled(op: ir.Operation) -> Iterator[Form]:
    """What ends an array stands before what it begins with."""
    made = [v.definition for v in op.operands]
    if len(made) != 2 or any(m is None or m.name != "vector.extract_strided_slice" for m in made):
        return
    tail, head = (m.operands[0] for m in made if m is not None)
    if tail is head:
        axis = op.attributes.integer("dimension")
        shift = Text(str(op.operands[0].type.shape[axis]))
        yield Form((tail.type,), lambda xs: Call("b.pallas.jnp_roll", *xs, shift, Text(str(axis))), 0)


@proposes("tpu.transpose")
def _transposes(op: ir.Operation, types: Types) -> Iterator[Form]:
    axes = op.attributes.integers("permutation")
    plain = axes == tuple(reversed(range(len(axes))))
    source = (op.operands[0].type,)
    yield Form(source, lambda xs: Call("b.pallas.transpose", *xs, *([] if plain else [Shape(axes)])), 0)


@proposes("tpu.dynamic_rotate")
def _rolls(op: ir.Operation, types: Types) -> Iterator[Form]:
    source, amount = op.operands
    axis = Text(str(op.attributes.integer("dimension")))
    steps = {
        name: Text(str(op.attributes.integer(key)))
        for key, name in (("stride", "stride"), ("stride_dimension", "stride_axis"))
        if key in op.attributes
    }
    if (literal := literal_of(amount)) is not None:
        yield Form((source.type,), lambda xs: Call("b.pallas.roll", *xs, Text(literal), axis, **steps), 0)
    yield Form((source.type, amount.type), lambda xs: Call("b.pallas.roll", *xs, axis, **steps), 0)


@proposes("tpu.assume_multiple")
def _multiples(op: ir.Operation, types: Types) -> Iterator[Form]:
    count = Text(str(op.attributes.integer("multiple")))
    source = (op.operands[0].type,)
    yield Form(source, lambda xs: Call("b.pallas.multiple_of", *xs, count), 0)
