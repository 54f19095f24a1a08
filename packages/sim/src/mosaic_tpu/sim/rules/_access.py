"""Shared bodies of loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Dim, Emitter, Ref, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.rules._elementwise import dtype


def load(
    e: Emitter,
    op: Operation,
    base: Value,
    indices: Sequence[Value],
    shape: tuple[int, ...],
    strides: Sequence[int] | None = None,
) -> None:
    """A vector from memory; a dead one reads nothing, as the compiler drops it."""
    view, stepped = _view(e, op, base, indices, shape, strides)
    if view.packed is not None:
        # Of a single row or lane, repacking is no copy.
        e.define(op.result, packed_load(e, view) + stepped + (".copy()" if e.copied(op) else ""))
        return
    text = e.part(view)
    e.check(view, text, writes=False)
    e.look(view, text)
    text += stepped
    e.define(op.result, f"{text}.copy()" if e.copied(op) else text)


def store(
    e: Emitter,
    op: Operation,
    value: Value,
    base: Value,
    indices: Sequence[Value],
    *,
    mask: Value | None = None,
    add: bool = False,
    strides: Sequence[int] | None = None,
) -> None:
    """A vector to memory."""
    view, stepped = _view(e, op, base, indices, value.type.shape, strides)
    stored = e.text(value)
    if view.packed is not None:
        packed_store(e, view, stored, stepped, mask=None if mask is None else e.text(mask), add=add)
        return
    text = e.part(view)
    e.check(view, text, writes=True)
    if mask is not None:
        place = e.name()
        e.line(f"{place} = {text}{stepped}")
        new = f"{place} + {stored}" if add else stored
        e.line(f"np.copyto({place}, {new}, where={e.text(mask)})")
    elif add:
        e.line(f"{text}{stepped} += {stored}")
    else:
        e.line(f"{text}{stepped or ('' if text.endswith(']') else '[...]')} = {stored}")


def _view(
    e: Emitter,
    op: Operation,
    base: Value,
    indices: Sequence[Value],
    shape: tuple[int, ...],
    strides: Sequence[int] | None,
) -> tuple[Ref, str]:
    """The part of a memref that is accessed, and the subscript that strides make of it."""
    ref = e.ref(base)
    drop = len(base.type.shape) - len(shape)
    if drop < 0 or len(indices) != len(base.type.shape):
        raise unsupported(e.module, op, "its vector and its memref have ranks that do not fit")
    sizes = (1,) * drop + tuple(shape)
    steps = None if strides is None else (1,) * (len(sizes) - len(strides)) + tuple(strides)
    part = e.slice(ref, [e.index(i) for i in indices], sizes, drop=drop, strides=steps)
    stepped = ""
    if steps is not None and any(s != 1 for s in steps):
        stepped = "[" + ", ".join(f"::{s}" if s != 1 else ":" for s in steps[drop:]) + "]"
    return part, stepped


# --- memory seen in another element width ----------------------------------------------------------------------------


def packed_load(e: Emitter, view: Ref) -> str:
    """An array of what is in memory underneath a bitcast."""
    words, rows = words_under(e, view)
    e.check(view, words, writes=False)
    e.look(view, words)
    return _repacked(e, view, words) + _chosen(view, rows)


def packed_store(e: Emitter, view: Ref, stored: str, stepped: str, *, mask: str | None, add: bool) -> None:
    """Read the words underneath, change the elements, and write them back."""
    assert view.packed is not None
    source, target = view.packed
    words, rows = words_under(e, view)
    e.check(view, words, writes=True)
    place = e.name()
    e.line(f"{place} = np.array({_repacked(e, view, words)})")
    part = f"{place}{_chosen(view, rows) or '[...]'}{stepped}"
    new = f"{part} + {stored}" if add else stored
    e.line(f"{part} = {new if mask is None else f'np.where({mask}, {new}, {part})'}")
    name = dtype(e, source)
    e.line(f"{words} = {e.runtime(runtime.repack)}({place}, {name}, {target.bits}, {source.bits})")


def _repacked(e: Emitter, view: Ref, words: str) -> str:
    assert view.packed is not None
    source, target = view.packed
    return f"{e.runtime(runtime.repack)}({words}, {dtype(e, view.type)}, {source.bits}, {target.bits})"


def words_under(e: Emitter, view: Ref) -> tuple[str, str]:
    """The memory underneath with its last two dimensions kept, and which rows of it, repacked, are the view's."""
    assert view.packed is not None
    source, target = view.packed
    *lead, rows, lanes = view.dims
    if source.bits < target.bits:
        under, chosen = scaled(rows, target.bits // source.bits), ":"
    else:
        under, chosen = _covering(e, rows, source.bits // target.bits)
    dims = (*lead, replace(under, squeezed=False), replace(lanes, squeezed=False))
    return e.part(replace(view, dims=dims)), chosen


def scaled(rows: Dim, ratio: int) -> Dim:
    """The rows of narrower elements that rows are made of."""
    start = rows.start * ratio if isinstance(rows.start, int) else f"({rows.start}) * {ratio}"
    size = rows.size * ratio if isinstance(rows.size, int) else f"({rows.size}) * {ratio}"
    return replace(rows, start=start, size=size)


def _covering(e: Emitter, rows: Dim, ratio: int) -> tuple[Dim, str]:
    """The rows of wider elements that hold some rows, and where in them those are."""
    start, size = rows.start, rows.size
    if isinstance(start, int) and isinstance(size, int):
        first, last = start // ratio, -(-(start + size) // ratio)
        offset = start - first * ratio
        chosen = ":" if offset == 0 and size == (last - first) * ratio else f"{offset}:{offset + size}"
        return replace(rows, start=first, size=last - first), chosen
    begin = e.atom(f"({start}) // {ratio}")
    offset = e.atom(f"({start}) - {begin} * {ratio}")
    count = e.atom(f"-(-({offset} + {size}) // {ratio})")
    return replace(rows, start=begin, size=count), f"{offset}:{offset}+{size}"


def _chosen(view: Ref, rows: str) -> str:
    """The subscript of repacked words that leaves the view."""
    *_, row, lane = view.dims
    if row.squeezed:
        rows = rows.partition(":")[0] or "0"
    if lane.squeezed:
        return f"[..., {rows}, 0]"
    return f"[..., {rows}, :]" if rows != ":" else ""
