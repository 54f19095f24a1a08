"""Indices of refs, and views: ``x.at[i, b.pallas.ds(j, 8)]``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mosaic_tpu.lift._code import Text
from mosaic_tpu.lift._numbers import scalar
from mosaic_tpu.lift._types import dtype_of, known
from mosaic_tpu.sim import ir

#: More ways to drop dimensions of size 1 are not tried.
_WAYS = 6
#: Views of views of views.
_DEEPEST = 3


@dataclass(frozen=True)
class Code:
    """Code over values: of which types, and how it is written of theirs.

    Attributes:
        partial: whether one of them is a view, which might be written too.
    """

    types: tuple[ir.Type, ...]
    write: Callable[[Sequence[Text]], str]
    partial: bool = False


def of_value(type_: ir.Type, *, partial: bool = False) -> Code:
    """A value itself."""
    return Code((type_,), lambda xs: xs[0].text, partial)


def joined(codes: Sequence[Code], write: Callable[[Sequence[str]], str]) -> Code:
    """Code over the values of several pieces."""

    def written(xs: Sequence[Text]) -> str:
        given = iter(xs)
        return write([c.write([next(given) for _ in c.types]) for c in codes])

    return Code(tuple(t for c in codes for t in c.types), written, any(c.partial for c in codes))


def indices(
    shape: Sequence[int],
    starts: Sequence[ir.Value],
    sizes: Sequence[int | ir.Value],
    dropped: Sequence[int],
    steps: Sequence[int] = (),
) -> Code:
    """What stands between the brackets: for each dimension an index, a slice or a `ds`."""
    entries = [
        _entry(whole, start, size, d in dropped, steps[d] if steps else 1)
        for d, (whole, start, size) in enumerate(zip(shape, starts, sizes, strict=True))
    ]
    return joined(entries, _listed)


def _listed(entries: Sequence[str]) -> str:
    shown = list(entries)
    while shown and shown[-1] == ":":
        shown.pop()
    return ", ".join(shown) or "..."


def _entry(whole: int, start: ir.Value, size: int | ir.Value, dropped: bool, step: int) -> Code:
    literal = scalar(start.definition)
    source = start
    if literal is None and start.definition is not None and start.definition.name == "arith.index_cast":
        source = start.definition.operands[0]
    first = Code((), lambda xs: literal) if literal is not None else of_value(source.type)
    if dropped:
        return first
    parts = [first]
    if isinstance(size, ir.Value):
        parts.append(of_value(size.type))
    elif literal is not None:
        shown = span(int(literal), size * step, whole)
        return Code((), lambda xs: shown if step == 1 else f"{shown}:{step}")
    else:
        parts.append(Code((), lambda xs: str(size)))
    if step != 1:
        parts.append(Code((), lambda xs: str(step)))
    return joined(parts, lambda texts: f"b.pallas.ds({', '.join(texts)})")


def span(start: int, size: int, whole: int) -> str:
    """``2:4`` of a dimension; what goes without saying is left out."""
    return f"{start or ''}:{start + size if start + size < whole else ''}"


def drops(sizes: Sequence[int | ir.Value], after: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Which dimensions an index may have dropped, where a shape is left."""
    count = len(sizes) - len(after)
    ones = [d for d, size in enumerate(sizes) if not isinstance(size, ir.Value) and size == 1]
    if count >= 0:
        yield from itertools.islice(itertools.combinations(ones, count), _WAYS)


def views(ref: ir.Value, depth: int = 0) -> Iterator[Code]:
    """How a ref may have been written: as a view of what it is made of, and as itself."""
    made, found = ref.definition, False
    if made is not None and depth < _DEEPEST:
        if made.name == "tpu.memref_reshape":
            sizes = ", ".join(map(str, ref.type.shape))
            for source in views(made.operands[0], depth + 1):
                found = True
                yield joined([source], lambda texts: f"{_viewed(texts[0])}.reshape({sizes})")
        elif made.name == "tpu.memref_bitcast" and known(ref.type):
            for source in views(made.operands[0], depth + 1):
                found = True
                yield joined([source], lambda texts: f"{_viewed(texts[0])}.bitcast({dtype_of(ref.type).name})")
        squeezed = made.name == "tpu.memref_squeeze"
        sliced = made.operands[0].definition if squeezed else made
        if sliced is not None and sliced.name == "tpu.memref_slice" and len(sliced.segments()) == 3:
            (base,), starts, given = sliced.segments()
            dynamic = iter(given)
            shape = sliced.results[0].type.shape
            sizes = [next(dynamic, 0) if s == ir.DYNAMIC else s for s in shape]
            for dropped in drops(sizes, ref.type.shape):
                index = indices(base.type.shape, starts, sizes, dropped)
                for source in views(base, depth + 1):
                    found = True
                    yield joined([source, index], lambda texts: f"{texts[0]}.at[{texts[1]}]")
    yield of_value(ref.type, partial=found)


def _viewed(ref: str) -> str:
    """A view of a ref, which alone has no shape to change."""
    return ref if ref.endswith((")", "]")) else f"{ref}.at[...]"
