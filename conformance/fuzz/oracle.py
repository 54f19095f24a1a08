"""Programs computed with NumPy, eagerly: what the engines must give.

Memory is bytes. A byte's address is its place in an array whose rows are one byte each, so that bitcasts of memory move
nothing; a view is an array of addresses. Each byte knows the error of the element it was written with, and whether that
element's bits are known as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from conformance.fuzz.emit import index_map
from conformance.fuzz.ops import OPS
from conformance.fuzz.program import (
    DTYPES,
    Bitcast,
    Block,
    Buffer,
    Copy,
    EdgeLoad,
    For,
    If,
    Let,
    Load,
    Program,
    Read,
    Reshape,
    Scalar,
    Scope,
    Slice,
    Start,
    Statement,
    Store,
    Test,
    Type,
    View,
    While,
    numpy_dtype,
)
from conformance.fuzz.tracked import Array, Tracked, bits_known, exact

_TAGS: Final = {name: np.int8(n) for n, name in enumerate(DTYPES)}
_POISON: Final = 0xA5


class Memory:
    """A buffer's bytes; nothing is known of them until they are written."""

    def __init__(self, type_: Type) -> None:
        self.type = type_
        self._rank1 = len(type_.shape) == 1
        shape = (1, *type_.shape) if self._rank1 else type_.shape
        size = type_.bits // 8
        rows = (*shape[:-2], shape[-2] * size, shape[-1])
        count = int(np.prod(rows))
        self.bytes = np.full(count, _POISON, np.uint8)
        self.error = np.full(count, np.inf)
        self.sure = np.zeros(count, bool)
        self.tag = np.full(count, _TAGS[type_.dtype])
        self._grouped = _group(np.arange(count).reshape(rows), size)

    def whole(self) -> Array:
        """Addresses of all elements, with a last dimension of bytes."""
        return self._grouped[0] if self._rank1 else self._grouped

    def load(self, addresses: Array, dtype: str) -> Tracked:
        """What is there; of elements written as another type, only what is known to the bit."""
        found = self.bytes[addresses]
        value = np.ascontiguousarray(found).view(numpy_dtype(dtype)).reshape(addresses.shape[:-1])
        error = self.error[addresses].max(-1)
        same = (self.tag[addresses] == _TAGS[dtype]).all(-1)
        return Tracked(value, np.where(same | self.sure[addresses].all(-1), error, np.inf))

    def store(self, addresses: Array, value: Tracked, dtype: str, mask: Array | None = None) -> None:
        """Write a value, where the mask is true."""
        bytes_ = np.ascontiguousarray(value.value).view(np.uint8).reshape(addresses.shape)
        error = np.broadcast_to(value.error[..., None], addresses.shape)
        sure = np.broadcast_to(bits_known(value)[..., None], addresses.shape)
        if mask is not None:
            addresses, bytes_, error, sure = addresses[mask], bytes_[mask], error[mask], sure[mask]
        self.bytes[addresses] = bytes_
        self.error[addresses] = error
        self.sure[addresses] = sure
        self.tag[addresses] = _TAGS[dtype]

    def held(self, addresses: Array) -> list[Array]:
        """All that is known of some bytes."""
        return [of[addresses] for of in (self.bytes, self.error, self.sure, self.tag)]

    def put(self, addresses: Array, held: list[Array]) -> None:
        """Bytes from elsewhere, as they are."""
        for of, new in zip((self.bytes, self.error, self.sure, self.tag), held, strict=True):
            of[addresses] = new


def _group(rows: Array, size: int) -> Array:
    """Addresses of rows of bytes as addresses of elements."""
    grouped = rows.reshape(*rows.shape[:-2], rows.shape[-2] // size, size, rows.shape[-1])
    return np.moveaxis(grouped, -2, -1)


def _ungroup(addresses: Array) -> Array:
    parts = np.moveaxis(addresses, -1, -2)
    return parts.reshape(*parts.shape[:-3], parts.shape[-3] * parts.shape[-2], parts.shape[-1])


def inputs(program: Program) -> list[Array]:
    """The arrays of the call: the table, the scalars, the inputs, by the program's seed."""
    random = np.random.default_rng(program.seed)
    tables = [np.array(t, np.int32) for t in (program.table, program.scalars) if t]
    return [*tables, *(_content(random, b.array_shape, b.type.dtype) for b in program.with_role("input"))]


def _content(random: np.random.Generator, shape: Sequence[int], dtype: str) -> Array:
    """Small multiples of an eighth, small and large integers."""
    numpy = numpy_dtype(dtype)
    if dtype in ("f32", "bf16"):
        return (random.integers(-32, 33, shape) / 8).astype(numpy)
    if dtype == "i32":
        small = random.integers(-100, 100, shape)
        large = random.integers(-(1 << 31), 1 << 31, shape)
        return np.where(random.random(shape) < 0.7, small, large).astype(numpy)
    info = np.iinfo(numpy)
    return random.integers(info.min, info.max + 1, shape).astype(numpy)


def run(program: Program, arrays: Sequence[Array]) -> list[Tracked]:
    """The outputs, under the current `rounding`."""
    return _Run(program, arrays).run()


@dataclass
class _Whole:
    """An array behind windows."""

    value: Array
    error: Array


@dataclass
class _Run:
    program: Program
    arrays: Sequence[Array]
    memory: dict[str, Memory] = field(default_factory=dict[str, Memory])
    whole: dict[str, _Whole] = field(default_factory=dict[str, _Whole])
    pids: tuple[int, ...] = ()
    counters: list[int] = field(default_factory=list[int])

    def run(self) -> list[Tracked]:
        program = self.program
        given = list(self.arrays)[1 + bool(program.table) :]
        by_name = {b.name: a for b, a in zip(program.with_role("input"), given, strict=True)}
        for b in program.buffers:
            self.memory[b.name] = memory = Memory(b.type)
            content = by_name.get(b.alias or b.name)
            if b.map is not None:
                shape = b.array_shape
                self.whole[b.name] = (
                    _Whole(np.full(shape, 0, numpy_dtype(b.type.dtype)), np.full(shape, np.inf))
                    if content is None
                    else _Whole(content, np.zeros(shape))
                )
            elif content is not None:
                memory.store(memory.whole(), exact(content), b.type.dtype)
        windows = [b for b in program.buffers if b.map is not None]
        last: dict[str, tuple[int, ...]] = {}
        for self.pids in itertools.product(*(range(n) for n in program.grid)):
            for b in windows:
                self._fetch(b, last)
            self.block(program.body, [])
            for b in windows:
                if b.role == "output":
                    self._write_back(b)
        return [self._result(b) for b in program.with_role("output")]

    # --- windows ---------------------------------------------------------------------------------------------------

    def _place(self, b: Buffer) -> tuple[int, ...]:
        assert b.map is not None
        table = [np.array(self.program.table)] if self.program.table else []
        return tuple(int(n) for n in index_map(b.map, self.program.grid)(*self.pids, *table))

    def _boxes(self, b: Buffer) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The part of the array, and of the window, that the window shows."""
        starts = [n * size for n, size in zip(self._place(b), b.type.shape, strict=True)]
        spans = [min(size, total - at) for at, size, total in zip(starts, b.type.shape, b.array_shape, strict=True)]
        inside = tuple(slice(at, at + n) for at, n in zip(starts, spans, strict=True))
        return inside, tuple(slice(0, n) for n in spans)

    def _fetch(self, b: Buffer, last: dict[str, tuple[int, ...]]) -> None:
        place = self._place(b)
        if b.role == "output" and last.get(b.name) == place:
            return
        last[b.name] = place
        memory = self.memory[b.name] = Memory(b.type)
        if b.role == "input":
            whole, (inside, part) = self.whole[b.name], self._boxes(b)
            memory.store(memory.whole()[part], exact(whole.value[inside]), b.type.dtype)

    def _write_back(self, b: Buffer) -> None:
        memory, whole, (inside, part) = self.memory[b.name], self.whole[b.name], self._boxes(b)
        found = memory.load(memory.whole(), b.type.dtype)
        whole.value[inside], whole.error[inside] = found.value[part], found.error[part]

    def _result(self, b: Buffer) -> Tracked:
        if b.map is not None:
            return Tracked(self.whole[b.name].value, self.whole[b.name].error)
        return self.memory[b.name].load(self.memory[b.name].whole(), b.type.dtype)

    # --- indices and views -----------------------------------------------------------------------------------------

    def scalar(self, scalar: Scalar | int) -> int:
        if isinstance(scalar, int):
            return scalar
        sources = {"s": self.program.scalars, "loop": self.counters, "pid": self.pids}
        return sources[scalar.kind][scalar.number]

    def start(self, start: Start) -> int:
        return start.base + (0 if start.scalar is None else start.times * self.scalar(start.scalar))

    def addresses(self, view: View) -> Array:
        memory = self.memory[view.buffer]
        found = memory.whole()
        for transform in view.transforms:
            match transform:
                case Slice(dims):
                    index: list[Any] = []
                    for d, size in zip(dims, found.shape, strict=False):
                        first, last = self.start(d.start), self.start(d.start) + (d.size - 1) * d.stride
                        assert 0 <= first <= last < size, f"{view} leaves its buffer"
                        index.append(first if d.drop else slice(first, last + 1, d.stride))
                    found = found[tuple(index)]
                case Reshape(shape):
                    found = found.reshape(*shape, found.shape[-1])
                case Bitcast(dtype, _):
                    size = numpy_dtype(dtype).itemsize
                    found = found if size == found.shape[-1] else _group(_ungroup(found), size)
        assert found.shape[:-1] == view.type.shape, f"{view} shows {found.shape[:-1]}"
        return found

    def load(self, view: View) -> Tracked:
        return self.memory[view.buffer].load(self.addresses(view), view.type.dtype)

    # --- statements ------------------------------------------------------------------------------------------------

    def block(self, block: Block, values: list[Tracked]) -> list[Tracked]:
        known = list(values)
        for statement in block.body:
            known += self.statement(statement, known)
        return [known[v] for v in block.yields]

    def statement(self, statement: Statement, known: list[Tracked]) -> Sequence[Tracked]:
        match statement:
            case Let(op, args, params, type_):
                made = OPS[op].compute(*[known[v] for v in args], *params)
                assert made.shape == type_.shape and made.dtype == numpy_dtype(type_.dtype), f"{statement} is {made}"
                return [made]
            case Load(view):
                return [self.load(view)]
            case EdgeLoad():
                return [self.edge_load(statement)]
            case Read(scalar):
                return [exact(np.int32(self.scalar(scalar)))]
            case Store(view, value, mask):
                self.store(view, known[value], None if mask is None else known[mask])
            case For():
                return self.loop(statement, known)
            case While():
                return self.while_loop(statement, known)
            case If():
                return self.branch(statement, known)
            case Scope(buffers, block):
                self.memory.update((b.name, Memory(b.type)) for b in buffers)
                self.block(block, known)
            case Copy():
                source, target = statement.source, statement.target
                held = self.memory[source.buffer].held(self.addresses(source))
                self.block(statement.meanwhile, known)
                self.memory[target.buffer].put(self.addresses(target), held)
        return []

    def store(self, view: View, value: Tracked, mask: Tracked | None) -> None:
        memory, addresses = self.memory[view.buffer], self.addresses(view)
        if mask is not None and mask.error.any():
            unsure = mask.error > 0
            before = memory.load(addresses, view.type.dtype)
            memory.store(addresses, Tracked(before.value, before.error + np.inf), view.type.dtype, unsure)
            memory.store(addresses, value, view.type.dtype, mask.value & ~unsure)
            return
        memory.store(addresses, value, view.type.dtype, None if mask is None else mask.value)

    def edge_load(self, load: EdgeLoad) -> Tracked:
        memory = self.memory[load.buffer]
        found = memory.load(memory.whole(), load.type.dtype)
        row = np.arange(load.type.shape[0]) + self.pids[load.pid] * load.type.shape[0]
        inside = (row < load.rows)[:, None]
        zero = np.zeros((), found.dtype)
        return Tracked(np.where(inside, found.value, zero), np.where(inside, found.error, 0.0))

    def test(self, test: Test) -> bool:
        value = self.scalar(test.scalar)
        value = value if test.modulus is None else value % test.modulus
        given = {"eq": value == test.value, "ne": value != test.value, "lt": value < test.value}
        return given.get(test.predicate, value >= test.value)

    def loop(self, loop: For, known: list[Tracked]) -> list[Tracked]:
        return self._repeat(range(loop.lower, self.scalar(loop.upper)), loop, known)

    def while_loop(self, loop: While, known: list[Tracked]) -> list[Tracked]:
        return self._repeat(range(0, self.scalar(loop.limit), loop.step), loop, known)

    def _repeat(self, counts: range, loop: For | While, known: list[Tracked]) -> list[Tracked]:
        carry = [known[v] for v in loop.carry]
        for i in counts:
            self.counters.append(i)
            carry = self.block(loop.block, [*known, *carry])
            self.counters.pop()
        return carry

    def branch(self, branch: If, known: list[Tracked]) -> list[Tracked]:
        block = branch.then if self.test(branch.test) else branch.otherwise
        return [] if block is None else self.block(block, known)
