"""Memrefs: scalar accesses and allocations."""

from __future__ import annotations

import math

from mosaic_tpu.sim._emit import Emitter, rule, unsupported
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules._access import packed_load, packed_store
from mosaic_tpu.sim.rules.vector import scalar


@rule("memref.load")
def _load(e: Emitter, op: Operation) -> None:
    base, *indices = op.operands
    view = e.slice(e.ref(base), [e.index(i) for i in indices], (1,) * len(indices), drop=len(indices))
    if view.packed is not None:
        e.assign(op.result, scalar(f"{packed_load(e, view)}[()]", op.result))
        return
    text = f"{view.base}[{view.subscript()}]"
    kept = f"{view.base}[{_kept(view.subscript())}]"
    e.check(view, kept, writes=False)
    e.look(view, kept)
    e.assign(op.result, scalar(text, op.result))


@rule("memref.store", writes=True)
def _store(e: Emitter, op: Operation) -> None:
    value, base, *indices = op.operands
    view = e.slice(e.ref(base), [e.index(i) for i in indices], (1,) * len(indices), drop=len(indices))
    if view.packed is not None:
        packed_store(e, view, e.text(value), "", mask=None, add=False)
        return
    e.check(view, f"{view.base}[{_kept(view.subscript())}]", writes=True)
    e.line(f"{view.base}[{view.subscript()}] = {e.text(value)}")


def _kept(subscript: str) -> str:
    """A subscript that gives a view and not a number."""
    return f"{subscript}, ..." if subscript != "()" else "..."


@rule("memref.alloca", "memref.alloc", writes=True)
def _alloca(e: Emitter, op: Operation) -> None:
    allocate(e, op, op.result.index)


def allocate(e: Emitter, op: Operation, index: int) -> None:
    """Uninitialised memory, or semaphores at zero."""
    value = op.result
    name = f"b{index}"
    type_ = e.constant_object(value.type)
    e.line(f"{name} = core.allocate({op.number}, {type_})")
    if value.type.is_semaphore:
        e.root(value, name, "None", value.index)
    else:
        e.line(f"a{index} = {name}.array")
        e.root(value, f"a{index}", name, value.index)
    e.allocations[-1].append((op.number, name))


@rule("memref.memory_space_cast", "memref.cast", view=True)
def _cast(e: Emitter, op: Operation) -> None:
    e.set_ref(op.result, e.ref(op.operands[0]))


@rule("memref.reinterpret_cast", view=True)
def _reinterpret_cast(e: Emitter, op: Operation) -> None:
    """A memref of another shape over the same elements; only of all of them, in their order."""
    base = op.operands[0]
    ref = e.ref(base)
    shape = op.result.type.shape
    offsets, sizes, strides = (op.attributes.integers(f"static_{n}") for n in ("offsets", "sizes", "strides"))
    dense = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
    plain = sizes == shape and strides == dense and not any(offsets) and len(op.operands) == 1
    if ref.packed is not None or not plain or math.prod(shape) != base.type.size:
        raise unsupported(e.module, op, "it makes a memref of part of the elements, or in another order")
    reshape(e, op)


def reshape(e: Emitter, op: Operation) -> None:
    """A memref of another shape over the same memory."""
    ref = e.ref(op.operands[0])
    name = f"a{op.result.index}"
    e.line(f"{name} = np.reshape({e.view(ref)}, {op.result.type.shape}, copy=False)")
    e.root(op.result, name, ref.buffer, ref.root)
    e.remember(name, op.result.type.shape)


@rule("memref.dim")
def _dim(e: Emitter, op: Operation) -> None:
    base, which = op.operands
    known = e.known(which)
    if known is None:
        raise unsupported(e.module, op, "which dimension is known at run time only")
    size = [d.size for d in e.ref(base).dims if not d.squeezed][int(known)]
    if isinstance(size, int):
        e.fold(op.result, size)
    else:
        e.define(op.result, size)


@rule("memref.dealloc")
def _dealloc(e: Emitter, op: Operation) -> None:
    """Scopes free their memory."""
