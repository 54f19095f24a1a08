"""``tpu.*`` on memrefs: views, strided and masked access."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, hold, poison, unhold
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import lax
from mosaic_tpu.sim.xla._views import View

# --- views -----------------------------------------------------------------------------------------------------------


@rule("tpu.memref_slice", view=True)
def _slice(t: Translation, op: Operation) -> Any:
    base, *starts = op.operands
    shape = op.result.type.shape
    return t.slice(t.view(base), [t.index(s) for s in starts[: len(shape)]], shape)


@rule("tpu.memref_squeeze", view=True)
def _squeeze(t: Translation, op: Operation) -> Any:
    return t.view(op.operands[0]).squeeze(op.result.type.shape)


@rule("tpu.memref_reshape", view=True)
def _reshape(t: Translation, op: Operation) -> Any:
    return t.view(op.operands[0]).reshape(op.result.type.shape)


@rule("tpu.memref_bitcast", view=True)
def _bitcast(t: Translation, op: Operation) -> Any:
    return t.view(op.operands[0]).bitcast(op.result.type.element, op.result.type.shape)


@rule("tpu.memref_memory_space_is")
def _is_in(t: Translation, op: Operation) -> Any:
    return op.operands[0].type.space == op.attributes.keyword("memory_space")


# --- strided and masked access -----------------------------------------------------------------------------------


def _span(t: Translation, base: View, starts: Sequence[Value], shape: Sequence[int], strides: Sequence[int]) -> View:
    """The box that strided access touches."""
    sizes = [(n - 1) * s + 1 for n, s in zip(shape, strides, strict=True)]
    return t.slice(base, [t.index(i) for i in starts], sizes)


def _load(t: Translation, op: Operation, starts: Sequence[Value], strides: Sequence[int]) -> Array:
    shape = op.result.type.shape
    found = t.load(op, _span(t, t.view(op.operands[0]), starts, shape, strides))
    return found if found.shape == shape else lax.slice(found, (0,) * found.ndim, found.shape, strides)


def _store(
    t: Translation, op: Operation, value: Value, base: Value, starts: Sequence[Value], strides: Sequence[int], mask: Any
) -> None:
    view = _span(t, t.view(base), starts, value.type.shape, strides)
    array = t.array(value)
    if op.attributes.boolean("add"):
        before = _load_again(t, op, view, strides)
        element = value.type.element
        array = hold(lax.add(unhold(array, element), unhold(before, element)))
    if view.shape != value.type.shape:
        gaps = [(0, 0, s - 1) for s in strides]
        touched = lax.pad(np.ones(array.shape, np.bool_) if mask is True else mask, np.bool_(False), gaps)
        array, mask = lax.pad(array, array.dtype.type(0), gaps), touched
    t.store(op, view, array, mask)


def _load_again(t: Translation, op: Operation, view: View, strides: Sequence[int]) -> Array:
    found = t.load(op, view)
    return lax.slice(found, (0,) * found.ndim, found.shape, strides)


def _strides(op: Operation, rank: int) -> tuple[int, ...]:
    return op.attributes.integers("strides") or (1,) * rank


@rule("tpu.strided_load", moves=True)
def _strided_load(t: Translation, op: Operation) -> Any:
    starts = op.operands[1:]
    return _load(t, op, starts, _strides(op, len(starts)))


@rule("tpu.strided_store", writes=lambda op: (op.operands[1],), moves=True)
def _strided_store(t: Translation, op: Operation) -> Any:
    value, base, *starts = op.operands
    _store(t, op, value, base, starts, _strides(op, len(starts)), True)


@rule("tpu.vector_load", moves=True)
def _vector_load(t: Translation, op: Operation) -> Any:
    _, starts, masks = op.segments()
    found = _load(t, op, starts, _strides(op, len(starts)))
    return _where(t.array(masks[0]), found, op) if masks else found


@rule("tpu.vector_store", writes=lambda op: (op.operands[1],), moves=True)
def _vector_store(t: Translation, op: Operation) -> Any:
    (value,), (base,), starts, masks = op.segments()
    _store(t, op, value, base, starts, _strides(op, len(starts)), t.array(masks[0]) if masks else True)


@rule("tpu.load", moves=True)
def _sublane_load(t: Translation, op: Operation) -> Any:
    """Sublanes that the mask leaves out are poison."""
    starts = op.operands[1:]
    shape = op.result.type.shape
    strides = (*(1,) * (len(shape) - 2), op.attributes.integer("sublane_stride", 1), 1)
    found = _load(t, op, starts, strides)
    mask = np.array(op.attributes.integers("sublane_mask"), np.bool_)
    return found if mask.all() else _where(_by_sublane(mask, shape), found, op)


def _where(mask: Array, found: Array, op: Operation) -> Array:
    return lax.select(mask, found, lax.full_like(found, poison(op.result.type.element)))


@rule("tpu.store", writes=lambda op: (op.operands[1],), moves=True)
def _sublane_store(t: Translation, op: Operation) -> Any:
    (value,), (base,), starts, masks = op.segments()
    shape = value.type.shape
    strides = (*(1,) * (len(shape) - 2), op.attributes.integer("sublane_stride", 1), 1)
    sublanes = np.array(op.attributes.integers("sublane_mask"), np.bool_)
    mask: Any = True if sublanes.all() else _by_sublane(sublanes, shape)
    if masks:
        mask = t.array(masks[0]) if mask is True else mask & t.array(masks[0])
    _store(t, op, value, base, starts, strides, mask)


def _by_sublane(mask: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
    if len(mask) != shape[-2]:
        raise UnsupportedOpError("the sublane mask does not have one entry a row", hint='run it with engine="numpy"')
    return np.broadcast_to(mask[:, None], shape)
