"""``memref.*``: scalars, allocations, casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import DYNAMIC
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import poison
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._views import filled


@rule("memref.load", moves=True)
def _load(t: Translation, op: Operation) -> Any:
    base, *indices = op.operands
    view = t.slice(t.view(base), [t.index(i) for i in indices], (1,) * len(indices))
    return t.load(op, view.squeeze(()))


@rule("memref.store", writes=lambda op: (op.operands[1],), moves=True)
def _store(t: Translation, op: Operation) -> Any:
    value, base, *indices = op.operands
    view = t.slice(t.view(base), [t.index(i) for i in indices], (1,) * len(indices))
    t.store(op, view.squeeze(()), t.array(value))


@rule("memref.alloca", "memref.alloc")
def _allocate(t: Translation, op: Operation) -> Any:
    of = op.result.type
    if DYNAMIC in of.shape:
        raise UnsupportedOpError("an allocation has a size known at run time only", op=op.name)
    return t.allocate(op.name, of, filled(of.shape, poison(of.element)))


@rule("memref.dealloc", pure=False)
def _deallocate(t: Translation, op: Operation) -> Any:
    return None


@rule(
    "memref.cast", "memref.memory_space_cast", "tpu.erase_memref_layout", "tpu.assume_layout", "tpu.annotate", view=True
)
def _same(t: Translation, op: Operation) -> Any:
    return t.get(op.operands[0])


@rule("memref.reinterpret_cast", "tpu.reinterpret_cast", view=True)
def _reinterpret(t: Translation, op: Operation) -> Any:
    """The whole memref, contiguous, in another shape."""
    shape = op.result.type.shape
    view = t.view(op.operands[0])
    offsets = op.attributes.integers("static_offsets") or (0,)
    if len(op.operands) > 1 or DYNAMIC in shape or any(offsets) or np.prod(shape) != np.prod(view.shape):
        raise UnsupportedOpError(
            f"{op.name} with an offset or a size known at run time", op=op.name, hint='run it with engine="numpy"'
        )
    return view.reshape(shape)


@rule("memref.dim")
def _dim(t: Translation, op: Operation) -> Any:
    which = t.index(op.operands[1])
    shape = t.view(op.operands[0]).shape
    if not isinstance(which, int) or not 0 <= which < len(shape):
        raise UnsupportedOpError("memref.dim of a dimension known at run time only", op=op.name)
    return shape[which]
