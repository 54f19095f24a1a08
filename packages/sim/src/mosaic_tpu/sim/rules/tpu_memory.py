"""Memory of the tpu dialect: views, loads, stores, scopes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from mosaic_tpu.sim._emit import Dim, Emitter, Info, Ref, rule, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim._types import DYNAMIC, Type, integers
from mosaic_tpu.sim.rules._access import load, scaled, store
from mosaic_tpu.sim.rules._elementwise import dtype
from mosaic_tpu.sim.rules.memref import allocate, reshape


@rule("tpu.memref_slice", view=True)
def _slice(e: Emitter, op: Operation) -> None:
    base, *rest = op.operands
    ref = e.ref(base)
    count = len(base.type.shape)
    starts = [e.index(v) for v in rest[:count]]
    dynamic = iter(rest[count:])
    sizes: list[int | str] = [e.index(next(dynamic)) if n == DYNAMIC else n for n in op.result.type.shape]
    overhangs = [n == DYNAMIC for n in op.result.type.shape]
    e.set_ref(op.result, e.slice(ref, starts, sizes, overhangs=overhangs))


@rule("tpu.memref_squeeze", view=True)
def _squeeze(e: Emitter, op: Operation) -> None:
    base = op.operands[0]
    ref = e.ref(base)
    squeezed = _squeezed(base.type.shape, op.result.type.shape)
    dims: list[Dim] = []
    k = 0
    for d in ref.dims:
        if d.squeezed:
            dims.append(d)
            continue
        dims.append(replace(d, squeezed=True) if squeezed[k] else d)
        k += 1
    e.set_ref(op.result, replace(ref, dims=tuple(dims)))


def _squeezed(shape: tuple[int, ...], target: tuple[int, ...]) -> list[bool]:
    """Which sizes of 1 a squeeze drops: matched from the right, as the dialect does."""
    dropped = [False] * len(shape)
    left = len(target) - 1
    for i in reversed(range(len(shape))):
        if left >= 0 and shape[i] == target[left]:
            left -= 1
        else:
            dropped[i] = True
    return dropped


@rule("tpu.memref_reshape", view=True)
def _reshape(e: Emitter, op: Operation) -> None:
    base = op.operands[0]
    if e.ref(base).packed is not None:
        _packed_reshape(e, op)
    else:
        reshape(e, op)


def _packed_reshape(e: Emitter, op: Operation) -> None:
    """Of memory in another element width: where the rows of its words stay together."""
    ref = e.ref(op.operands[0])
    assert ref.packed is not None
    source, target = ref.packed
    kept = [d for d in ref.dims if not d.squeezed]
    shape = list(op.result.type.shape)
    ratio = max(source.bits // target.bits, 1)  # rows of a word
    plain = ref.static and len(kept) > 1 and len(shape) > 1 and kept[-1].size == shape[-1]
    if not plain or any(int(n) % ratio for n in (kept[-2].start, kept[-2].size, shape[-2])):
        raise unsupported(e.module, op, "it reshapes a bitcast memref across its words")
    shape[-2] = shape[-2] // ratio * max(target.bits // source.bits, 1)
    whole_ref = replace(ref, packed=None, dims=_under(ref.dims, source, target))
    name = f"a{op.result.index}"
    e.line(f"{name} = np.reshape({e.part(whole_ref)}, {tuple(shape)}, copy=False)")
    e.root(op.result, name, ref.buffer, ref.root)
    e.refs[op.result.index] = replace(e.refs[op.result.index], packed=ref.packed)


def _under(dims: tuple[Dim, ...], source: Type, target: Type) -> tuple[Dim, ...]:
    """The dimensions of the memory underneath a bitcast, whose rows are whole words."""
    *lead, rows, lanes = dims
    if source.bits < target.bits:
        return (*lead, scaled(rows, target.bits // source.bits), lanes)
    ratio = source.bits // target.bits
    assert isinstance(rows.start, int)
    assert isinstance(rows.size, int)
    return (*lead, replace(rows, start=rows.start // ratio, size=rows.size // ratio), lanes)


@rule("tpu.memref_bitcast", view=True)
def _bitcast(e: Emitter, op: Operation) -> None:
    base = op.operands[0]
    ref = e.ref(base)
    name = f"a{op.result.index}"
    if ref.packed is not None:
        _bitcast_again(e, op, ref)
        return
    if base.type.bits == op.result.type.bits:
        e.line(f"{name} = {e.view(ref)}.view({dtype(e, op.result.type)})")
        e.root(op.result, name, ref.buffer, ref.root)
        return
    if len(base.type.shape) < 2:
        raise unsupported(e.module, op, "a memref of rank 1 has no rows to pack")
    e.line(f"{name} = {e.view(ref)}")
    e.root(op.result, name, ref.buffer, ref.root)
    e.refs[op.result.index] = replace(e.refs[op.result.index], packed=(base.type, op.result.type))


def _bitcast_again(e: Emitter, op: Operation, ref: Ref) -> None:
    """A bitcast of a bitcast: another view of the same words."""
    assert ref.packed is not None
    source, _ = ref.packed
    if any(d.squeezed or d.start != 0 for d in ref.dims):
        raise unsupported(e.module, op, "it is a bitcast of a part of a bitcast memref")
    name = f"a{op.result.index}"
    same = source.bits == op.result.type.bits
    e.line(f"{name} = {ref.base}" + (f".view({dtype(e, op.result.type)})" if same else ""))
    e.root(op.result, name, ref.buffer, ref.root)
    if not same:
        e.refs[op.result.index] = replace(e.refs[op.result.index], packed=(source, op.result.type))


@rule("tpu.reinterpret_cast", "tpu.erase_memref_layout", "tpu.assume_layout", view=True)
def _same(e: Emitter, op: Operation) -> None:
    base = op.operands[0]
    if base.type.kind != "memref":
        e.alias(op.result, base)
    elif base.type.shape == op.result.type.shape and base.type.element == op.result.type.element:
        e.set_ref(op.result, e.ref(base))
    else:
        raise unsupported(e.module, op)


@rule("tpu.vector_load")
def _vector_load(e: Emitter, op: Operation) -> None:
    """What a mask leaves out is poison."""
    base, indices, mask = _parts(op.segments())
    load(e, op, base, indices, op.result.type.shape, _strides(op))
    if mask is not None and e.users(op.result):
        loaded = e.info(op.result)
        name = f"m{op.result.index}"
        nothing = f"core.left_out({op.number}, {dtype(e, op.result.type)})"
        e.line(f"{name} = np.where({e.full(mask)}, {loaded.text}, {nothing})")
        e.infos[op.result.index] = Info(name, op.result.type.shape)


@rule("tpu.vector_store", writes=True)
def _vector_store(e: Emitter, op: Operation) -> None:
    segments = op.segments()
    base, indices, mask = _parts(segments[1:])
    store(
        e,
        op,
        segments[0][0],
        base,
        indices,
        mask=mask,
        add=op.attributes.boolean("add"),
        strides=_strides(op),
    )


def _parts(segments: list[tuple[Value, ...]]) -> tuple[Value, list[Value], Value | None]:
    """The memref, the indices and the mask."""
    base, indices, *rest = segments
    mask = rest[0][0] if rest and rest[0] else None
    return base[0], list(indices), mask


def _strides(op: Operation) -> tuple[int, ...] | None:
    return integers(op.attributes.text("strides")) or None


@rule("tpu.strided_load")
def _strided_load(e: Emitter, op: Operation) -> None:
    base, *indices = op.operands
    load(e, op, base, indices, op.result.type.shape, op.attributes.integers("strides"))


@rule("tpu.strided_store", writes=True)
def _strided_store(e: Emitter, op: Operation) -> None:
    value, base, *indices = op.operands
    store(e, op, value, base, indices, strides=op.attributes.integers("strides"))


# --- scopes ----------------------------------------------------------------------------------------------------------


@rule("tpu.region")
def _region(e: Emitter, op: Operation) -> None:
    """A scope: what is allocated in it ends with it."""
    block = op.regions[0]
    e.allocations.append([])
    names = [f"s{r.index}" for r in op.results]

    def ending() -> None:
        values = block.terminator.operands
        if names:
            e.line(f"{', '.join(names)} = {', '.join(e.full(v) for v in values)}")
        for number, name in reversed(e.allocations.pop()):
            e.line(f"core.release({number}, {name})")

    e.line("if True:")
    e.inner(block, ending)
    for r, name in zip(op.results, names, strict=True):
        e.infos[r.index] = Info(name, r.type.shape)


@rule("tpu.sem_alloc", writes=True)
def _sem_alloc(e: Emitter, op: Operation) -> None:
    allocate(e, op, op.result.index)


# --- registers -------------------------------------------------------------------------------------------------------


def _register(e: Emitter, op: Operation, base: Value, indices: Sequence[Value], type_: Type) -> tuple[Ref, str, str]:
    """The rows from the first to the last that a sublane mask names, which of them, and which of the register."""
    enabled = [i for i, on in enumerate(op.attributes.integers("sublane_mask")) if on]
    stride = op.attributes.integer("sublane_stride", 1)
    ref = e.ref(base)
    plain = len(type_.shape) == 2 and type_.bits == 32 and ref.packed is None and stride > 0
    if not plain or len(indices) < 2 or len(op.attributes.integers("sublane_mask")) != type_.shape[0]:
        raise unsupported(e.module, op, "it is known for registers of 32-bit elements and two dimensions only")
    first, last = (enabled[0], enabled[-1]) if enabled else (0, 0)
    starts = [e.index(i) for i in indices]
    row = starts[-2]
    starts[-2] = row + first * stride if isinstance(row, int) else f"({row}) + {first * stride}"
    drop = len(indices) - 2
    view = e.slice(ref, starts, (*(1,) * drop, (last - first) * stride + 1, type_.shape[1]), drop=drop)
    return view, str([(i - first) * stride for i in enabled]), str(enabled)


@rule("tpu.load")
def _register_load(e: Emitter, op: Operation) -> None:
    """What the mask leaves out is poison."""
    base, *indices = op.operands
    view, rows, enabled = _register(e, op, base, indices, op.result.type)
    text = e.part(view)
    e.check(view, text, writes=False)
    name = f"v{op.result.index}"
    nothing = f"core.left_out({op.number}, {dtype(e, op.result.type)})"
    e.line(f"{name} = np.full({op.result.type.shape}, {nothing})")
    e.line(f"{name}[{enabled}] = {text}[{rows}]")
    e.define(op.result, name)


@rule("tpu.store", writes=True)
def _register_store(e: Emitter, op: Operation) -> None:
    (value,), (base,), indices, mask = op.segments()
    view, rows, enabled = _register(e, op, base, indices, value.type)
    text = e.part(view)
    e.check(view, text, writes=True)
    target = f"{text}[{rows}]"
    stored = f"{e.full(value)}[{enabled}]"
    new = f"{target} + {stored}" if op.attributes.boolean("add") else stored
    if mask:
        new = f"np.where({e.full(mask[0])}[{enabled}], {new}, {target})"
    e.line(f"{target} = {new}")


@rule("tpu.memref_memory_space_is")
def _memory_space_is(e: Emitter, op: Operation) -> None:
    wanted = re.search(r"memory_space<(\w+)", op.attributes.text("memory_space"))
    space = e.ref(op.operands[0]).type.space
    if space in ("", "any") or wanted is None:
        raise unsupported(e.module, op, "the memory space is left to the compiler")
    e.fold(op.result, space == wanted[1])
