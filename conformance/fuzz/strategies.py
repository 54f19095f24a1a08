"""Healthy programs, drawn with hypothesis.

Healthy by construction: memory is written before it is read, indices stay in range whatever the scalars are, nothing
touches what a copy in flight writes, nor writes what it reads, and no result is undefined. The first choice is always
the simplest, so that hypothesis shrinks towards short, plain programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import Final

from hypothesis import strategies as st

from conformance.fuzz.draw_memory import Layout, layout_of
from conformance.fuzz.draw_views import Views, whole
from conformance.fuzz.ops import OPS
from conformance.fuzz.program import (
    SEMAPHORES,
    Block,
    Buffer,
    Copy,
    Dim,
    EdgeLoad,
    For,
    If,
    Let,
    Load,
    Program,
    Read,
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
)
from conformance.fuzz.tape import TAPES, Tape

_NAMES: Final = tuple(OPS)
_LEAVES: Final = (*("let",) * 7, "load", "load", "store", "store", "masked", "copy", "copy", "read")
#: How often another operation is drawn where one has nothing to apply to.
_TRIES: Final = 8
_REGIONS: Final = ("copy", "for", "if", "when", "while", "scope")
_DEEPEST: Final = 2
_RESULTS: Final = 3


def program_of(data: bytes) -> Program:
    """A program of 3 to 12 steps, not counting what initialises memory."""
    tape = Tape(data)
    layout = layout_of(tape)
    writer = _Writer(tape, layout)
    body = writer.program(tape.integer(3, 12))
    return Program(
        grid=layout.grid,
        buffers=(*layout.in_role("input"), *layout.in_role("output"), *writer.results, *layout.in_role("scratch")),
        body=body,
        scalars=tuple(tape.integer(0, 3) for _ in range(4)),
        table=layout.table,
        seed=tape.integer(0, 9999),
        dma=tape.pick(("random", "eager", "wait")),
    )


def programs() -> st.SearchStrategy[Program]:
    """Healthy programs."""
    return TAPES.map(program_of)


class _Writer:
    """Draws statements; keeps what is in scope."""

    def __init__(self, tape: Tape, layout: Layout) -> None:
        self.tape = tape
        self.layout = layout
        self.types: list[Type] = []
        self.used: set[int] = set()
        self.buffers: list[Buffer] = []
        self.scalars = [*(Scalar("s", n) for n in range(4)), *(Scalar("pid", d) for d in range(len(layout.grid)))]
        self.views = Views(tape, self.scalars)
        self.results: list[Buffer] = []
        self.frozen: set[str] = set()  # a copy in flight reads these
        self.hidden: set[str] = set()  # a copy in flight writes these
        self.in_flight = False
        self.loops = 0
        self.depth = 0
        self.left = 0
        self.names = 0

    def program(self, steps: int) -> Block:
        """The body of a step of the grid."""
        made = list(self.layout.start)
        self.types += [s.type for s in made if isinstance(s, Let)]
        edges = [b for b in self.layout.in_role("input") if b.has_edge]
        # An aliased input is the output's memory, and is left alone.
        apart = {*(b.name for b in edges), *(b.alias for b in self.layout.buffers)}
        self.buffers = [b for b in self.layout.buffers if b.name not in apart]
        for b in edges:
            made.append(EdgeLoad(b.name, b.type, b.array_shape[0], 0))
            self.types.append(b.type)
        for b in self.in_vmem(self.buffers):
            if b.role == "input":
                made.append(Load(whole(b)))
                self.types.append(b.type)
        self.left = steps
        while self.left > 0:
            made += self.statement()
        return Block((*made, *self._hand_out()))

    def _hand_out(self) -> list[Statement]:
        """The newest values that nothing used, to outputs of their own."""
        made: list[Statement] = [] if self.types else [self._let()]
        for number in sorted(range(len(self.types)), key=lambda n: (n in self.used, -n))[:_RESULTS]:
            type_, value = self.types[number], number
            if type_.dtype == "i1":
                type_ = Type(type_.shape, "i32")
                made.append(Let("i1_to_i32", (number,), (), type_))
                self.types.append(type_)
                value = len(self.types) - 1
            scalar = type_.shape == ()
            buffer = Buffer(
                f"r{len(self.results)}",
                Type((1,), type_.dtype) if scalar else type_,
                "smem" if scalar else "vmem",
                "output",
            )
            self.results.append(buffer)
            view = View(buffer.name, (Slice((Dim(Start(0), 1, drop=True),)),), type_) if scalar else whole(buffer)
            made.append(Store(view, value))
        return made

    # --- scopes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, *types: Type) -> Iterator[None]:
        """Values made inside, and ``types``, end with it."""
        kept, buffers = len(self.types), len(self.buffers)
        self.types += types
        self.depth += 1
        yield
        self.depth -= 1
        del self.types[kept:]
        self.used = {n for n in self.used if n < kept}
        del self.buffers[buffers:]

    def body(self) -> tuple[Statement, ...]:
        """One to three statements."""
        made: list[Statement] = []
        for _ in range(self.tape.integer(1, 3)):
            made += self.statement()
        return tuple(made)

    def readable(self) -> list[Buffer]:
        return [b for b in self.buffers if b.name not in self.hidden]

    def writable(self) -> list[Buffer]:
        return [b for b in self.readable() if b.role != "input" and b.name not in self.frozen]

    def in_vmem(self, buffers: list[Buffer]) -> list[Buffer]:
        return [b for b in buffers if b.space == "vmem"]

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self) -> list[Statement]:
        """One step; with its results in `types`."""
        self.left -= 1
        kinds = _LEAVES if self.depth >= _DEEPEST else (*_LEAVES, *_REGIONS)
        kind = self.tape.pick(kinds)
        made = getattr(self, f"_{kind}")()
        return [self._let()] if made is None else made if isinstance(made, list) else [made]

    def _let(self) -> Let:
        drawn = (self.tape.pick(_NAMES) for _ in range(_TRIES))
        for name in chain(drawn, _NAMES):
            found = OPS[name].candidates(self.types)
            if found:
                chosen = self.tape.pick(found)
                self.types.append(chosen.type)
                self.used.update(chosen.args)
                return Let(name, chosen.args, chosen.params, chosen.type)
        raise AssertionError("some operations need no value")

    def _load(self) -> Load | None:
        buffers = self.in_vmem(self.readable())
        if not buffers:
            return None
        view = self.views.view(self.tape.pick(buffers))
        self.types.append(view.type)
        return Load(view)

    def _read(self) -> Read:
        self.types.append(Type((), "i32"))
        return Read(self.tape.pick(self.scalars))

    def _store(self) -> Store | None:
        return self._stored([n for n, t in enumerate(self.types) if t.shape and t.dtype not in ("i1", "u32")])

    def _masked(self) -> list[Statement] | None:
        """Where the value is less than another of its type."""
        values = [n for n, t in enumerate(self.types) if t.shape and t.dtype in ("i32", "f32")]
        store = self._stored(values, masked=True)
        if store is None:
            return None
        type_ = self.types[store.value]
        other = self.tape.pick([n for n, t in enumerate(self.types) if t == type_])
        self.types.append(Type(type_.shape, "i1"))
        mask = Let("lt", (store.value, other), (), self.types[-1])
        return [mask, replace(store, mask=len(self.types) - 1)]

    def _stored(self, values: list[int], *, masked: bool = False) -> Store | None:
        """One of the values, first of all one that nothing used, to where it fits."""
        buffers = self.in_vmem(self.writable())
        if not buffers or not values:
            return None
        value = self.tape.pick(sorted(values, key=lambda n: (n in self.used, -n))[:4])
        for buffer in self.tape.turned(buffers):
            view = self.views.fitted(buffer, self.types[value], strides=not masked)
            if view is not None:
                self.used.add(value)
                return Store(view, value)
        return None

    def _copy(self) -> Copy | None:
        source = self.tape.pick(self.readable()) if self.readable() else None
        if source is None:
            return None
        view = self.views.view(source, strides=False, widths=False)
        for target in self.tape.turned([b for b in self.writable() if b.name != source.name]):
            found = self.views.fitted(target, view.type, strides=False, widths=False)
            if found is not None:
                return self._copied(view, found)
        return None

    def _copied(self, source: View, target: View) -> Copy:
        semaphore = None
        if not self.in_flight and self.tape.boolean():
            semaphore = self.views.start(SEMAPHORES - 1)
        before = self.frozen, self.hidden, self.in_flight
        self.frozen, self.hidden = self.frozen | {source.buffer}, self.hidden | {target.buffer}
        self.in_flight = self.in_flight or semaphore is not None
        with self.scope():
            meanwhile = Block(self.body() if self.tape.boolean() else ())
        self.frozen, self.hidden, self.in_flight = before
        return Copy(source, target, semaphore, meanwhile)

    # --- regions -----------------------------------------------------------------------------------------------------

    def _carry(self) -> tuple[int, ...]:
        count = min(self.tape.integer(0, 2), len(self.types))
        found = [n for n, t in enumerate(self.types) if t.dtype != "i1"][::-1]
        return tuple(self.tape.pick(found) for _ in range(count if found else 0))

    def _repeated(self, carry: tuple[int, ...]) -> Block:
        """A loop's block: the next carry is the newest values of its types."""
        types = [self.types[n] for n in carry]
        self.scalars.append(Scalar("loop", self.loops))
        self.loops += 1
        with self.scope(*types):
            body = self.body()
            yields = tuple(self._newest(t) for t in types)
        self.loops -= 1
        self.scalars.pop()
        self.types += types
        return Block(body, yields)

    def _newest(self, type_: Type) -> int:
        found = [n for n, t in enumerate(self.types) if t == type_][::-1]
        chosen = self.tape.pick(found[:2])
        self.used.add(chosen)
        return chosen

    def _for(self) -> For:
        lower = self.tape.integer(0, 1)
        dynamic = self.tape.boolean()
        upper = self.tape.pick(self.scalars) if dynamic else self.tape.integer(lower + 1, 4)
        unroll = 1 if dynamic else self.tape.pick((1, 1, 2, True))
        carry = self._carry()
        return For(lower, upper, carry, self._repeated(carry), unroll)

    def _while(self) -> While:
        limit = self.tape.pick([*self.scalars, 3])
        carry = self._carry()
        return While(limit, self.tape.integer(1, 2), carry, self._repeated(carry))

    def _test(self) -> Test:
        predicate = self.tape.pick(("eq", "ne", "lt", "ge"))
        modulus = self.tape.pick((None, None, 2))
        return Test(self.tape.pick(self.scalars), predicate, self.tape.integer(0, 2), modulus)

    def _when(self) -> If:
        test = self._test()
        with self.scope():
            return If(test, Block(self.body()))

    def _if(self) -> If:
        test = self._test()
        types = tuple(self.types[n] for n in self._carry())
        then, otherwise = (self._side(types) for _ in range(2))
        self.types += types
        return If(test, then, otherwise, types)

    def _side(self, types: tuple[Type, ...]) -> Block:
        with self.scope():
            return Block(self.body(), tuple(self._newest(t) for t in types))

    def _scope(self) -> Scope:
        count = self.tape.integer(1, 2)
        made = [self._scoped() for _ in range(count)]
        with self.scope():
            start: list[Statement] = []
            for b in made:
                start += initialised(b, len(self.types))
                self.types.append(b.type)
            self.buffers += made
            return Scope(tuple(made), Block((*start, *self.body())))

    def _scoped(self) -> Buffer:
        self.names += 1
        type_ = self.tape.pick(self.layout.menu)
        return Buffer(f"m{self.names}", type_, "vmem", "scoped")


def initialised(buffer: Buffer, value: int) -> list[Statement]:
    """A buffer filled with a number, which becomes value ``value``."""
    number = 1 if buffer.type.dtype.startswith("i") else 1.0
    fill = Let("full", (), (buffer.type.shape, buffer.type.dtype, number), buffer.type)
    return [fill, Store(whole(buffer), value)]
