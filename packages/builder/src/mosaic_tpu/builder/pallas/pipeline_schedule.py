"""When a pipeline copies and waits: the conditions of one step, computed from the indices around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PIPELINE_BUFFERS_OUTPUTS
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.pallas._staging import Staged, Staging
from mosaic_tpu.builder.pallas.pipeline_buffers import Buffers, Indices
from mosaic_tpu.builder.views import RefView, Slice

type Grid = tuple[Staged, ...]


def first_index(st: Staging) -> Staged:
    """The first index: an array since JAX 0.12, and so all that follows from it is traced."""
    return st.literal(0, dt.i32) if PIPELINE_BUFFERS_OUTPUTS else 0


def keep_moving(st: Staging, indices: Indices, grid: Grid) -> Indices:
    """0 where the grid has one step."""
    return tuple(first_index(st) if isinstance(g, int) and g == 1 else i for i, g in zip(indices, grid, strict=True))


def next_index(st: Staging, indices: Indices, grid: Grid, *, overflow: bool = False) -> Indices:
    """The indices of the next step; they start again at the end, or leave the grid along its first dimension."""
    found: list[Staged] = []
    carry: Staged = True
    for position, (i, g) in enumerate(reversed(list(zip(indices, grid, strict=True)))):
        raised = st.select(carry, st.add(i, 1), i)
        carry = False if overflow and position == len(grid) - 1 else st.compare("eq", raised, g)
        found.append(st.select(carry, 0, raised))
    moved = tuple(reversed(found))
    return moved if overflow else keep_moving(st, moved, grid)


def previous_index(st: Staging, indices: Indices, grid: Grid) -> Indices:
    """The indices of the step before; the last ones before the first."""
    found: list[Staged] = []
    borrow: Staged = True
    for i, g in reversed(list(zip(indices, grid, strict=True))):
        lowered = st.select(borrow, st.sub(i, 1), i)
        borrow = st.compare("eq", lowered, -1)
        found.append(st.select(borrow, st.sub(g, 1), lowered))
    return keep_moving(st, tuple(reversed(found)), grid)


def differ(st: Staging, xs: Sequence[Any], ys: Sequence[Any]) -> Staged:
    """Whether two block indices differ: known ahead where nothing in them moves."""
    if PIPELINE_BUFFERS_OUTPUTS:
        parts = [
            _slices_differ(st, x, y) if isinstance(x, Slice) else _entries_differ(st, x, y)
            for x, y in zip(xs, ys, strict=True)
        ]
        return reduce(lambda a, b: _or(st, a, b), parts, False)
    found: Staged = False
    for x, y in zip(xs, ys, strict=True):
        pairs = [(x.start, y.start), (x.size, y.size)] if isinstance(x, Slice) else [(x, y)]
        for a, b in pairs:
            found = _or(st, found, _entries_differ(st, a, b))
    return found


def _slices_differ(st: Staging, x: Slice, y: Slice) -> Staged:
    parts = [_entries_differ(st, x.start, y.start), _entries_differ(st, x.size, y.size)]
    return reduce(lambda a, b: _or(st, a, b), parts, False)


def _entries_differ(st: Staging, x: Value | int, y: Value | int) -> Staged:
    return False if x is y else st.compare("ne", x, y)


def _or(st: Staging, a: Staged, b: Staged) -> Staged:
    if a is True or b is True:
        return True
    return b if a is False else a if b is False else st.either(a, b)


class Scheduler:
    """One step of the grid.

    Args:
        staging: where conditions are computed.
        step: number of the step.
        indices: of the step, in this core's part of the grid.
        grid: this core's part.
        offsets: where that part begins.
        stages: how many steps ahead blocks are fetched, and one.
    """

    def __init__(
        self, staging: Staging, step: Staged, indices: Indices, grid: Grid, offsets: Grid, stages: int
    ) -> None:
        st = self.st = staging
        self.step, self.grid, self.offsets, self.stages = step, grid, offsets, stages
        self.steps = st.product(grid)
        self.first_step = st.compare("eq", step, 0)
        self.last_step = st.compare("eq", step, st.sub(self.steps, 1))
        self.indices = self.offset(indices)
        self.earlier, self.later = [self.indices], [self.indices]
        if not PIPELINE_BUFFERS_OUTPUTS:
            self.earlier.append(self.offset(previous_index(st, indices, grid)))
        before, after = indices, next_index(st, indices, grid)
        self.later.append(self.offset(after))
        for _ in range(stages - 1):
            if PIPELINE_BUFFERS_OUTPUTS:
                before = previous_index(st, before, grid)
            after = next_index(st, after, grid)
            if PIPELINE_BUFFERS_OUTPUTS:
                self.earlier.append(self.offset(before))
            self.later.append(self.offset(after))
        self._blocks: dict[object, tuple[tuple[Any, ...], Indices]] = {}

    def offset(self, indices: Indices) -> Indices:
        """The indices in the whole grid."""
        return tuple(self.st.add(i, o) for i, o in zip(indices, self.offsets, strict=True))

    def _block(self, buffers: Buffers, indices: Indices) -> tuple[Any, ...]:
        """The block's index, computed once a step for each window, however many refs have it."""
        key = (id(buffers.block.window), tuple(i if isinstance(i, int) else (id(i),) for i in indices))
        found = self._blocks.get(key)
        if found is None:
            found = self._blocks[key] = buffers.block_index(indices), indices
        return found[0]

    def _differs(self, buffers: Buffers, here: Callable[[], Indices], there: Callable[[], Indices]) -> Staged:
        if not buffers.is_buffered or buffers.trivial:
            return False
        first = self._block(buffers, here())
        return differ(self.st, first, self._block(buffers, there()))

    def has_changed(self, buffers: Buffers, back: int = 1) -> Staged:
        """Whether the block is another one than a step before."""
        return self._differs(buffers, lambda: self.earlier[back - 1], lambda: self.earlier[back])

    def will_change(self, buffers: Buffers) -> Staged:
        """Whether the next step has another block."""
        return self._differs(buffers, lambda: self.indices, lambda: self.later[1])

    def _will_fetch(self, buffers: Buffers) -> Staged:
        if buffers.is_buffered and not buffers.trivial and buffers.in_count < 2:
            return self.has_changed(buffers)
        ahead = buffers.in_count
        return self._differs(buffers, lambda: self.later[ahead - 2], lambda: self.later[ahead - 1])

    def _out_of_fetch(self, buffers: Buffers) -> Staged:
        if not buffers.is_buffered:
            return False
        return self.st.compare("ge", self.step, self.st.add(self.st.sub(self.steps, buffers.in_count), 1))

    # --- what a step does, in order -----------------------------------------------------------------------------------

    def initialize(self, buffers: Buffers, ref: RefView, ahead: int) -> Buffers:
        """Before the loop: fetch the block of one of the first steps."""
        st = self.st
        with st.scope(f"ep_initialize_{ahead}"):
            if not buffers.is_input or not buffers.is_buffered or buffers.trivial:
                return buffers
            if ahead >= max(buffers.in_count - 1, 0):
                return buffers
            inside = st.compare("lt", ahead, self.steps)
            if buffers.grid_rank is not None:
                if ahead:
                    predicate = st.both(self.first_step, inside)
                    return fetch_ahead(self, buffers, ref, predicate=predicate, limit=1)
                predicate = st.both(self.first_step, inside)
                first = buffers.next_fetch
                assert first is not None
                st.when(st.both(predicate, True), lambda: buffers.start_in(ref, self.offset(first)))
                return buffers.advance("copy_in", predicate)
            indices = self.later[ahead]
            if ahead:
                here = self._block(buffers, indices)
                changed = differ(st, here, self._block(buffers, self.later[ahead - 1]))
                predicate = st.both(st.both(self.first_step, inside), changed)
            else:
                predicate = st.both(self.first_step, inside)
            st.when(st.both(predicate, ahead >= 0), lambda: buffers.start_in(ref, indices))
            return buffers.advance("copy_in", predicate)

    def copy_in(self, buffers: Buffers, ref: RefView) -> Buffers:
        """Fetch the block of a later step."""
        st = self.st
        if buffers.trivial:
            return buffers
        predicate = self._will_fetch(buffers)
        predicate = st.both(predicate, st.negation(self._out_of_fetch(buffers)))
        if buffers.is_buffered and buffers.in_count < 2:
            predicate = st.either(predicate, self.first_step)
        if not buffers.is_input:
            return buffers
        if buffers.grid_rank is not None:
            return fetch_ahead(self, buffers, ref, predicate=True)

        def send() -> None:
            with st.scope("ep_copy_in"):
                if buffers.is_buffered:
                    buffers.start_in(ref, self.later[buffers.in_count - 1])

        st.when(st.both(predicate, True), send)
        return buffers.advance("copy_in", st.both(predicate, True))

    def wait_in(self, buffers: Buffers, ref: RefView) -> Buffers:
        """Wait for this step's block."""
        st = self.st
        if buffers.trivial:
            return buffers
        predicate = st.either(self.has_changed(buffers), self.first_step)
        step = self.step
        if PIPELINE_BUFFERS_OUTPUTS and buffers.grid_rank is not None:
            assert buffers.wait_in is not None
            step = buffers.wait_in
        predicate = st.both(predicate, st.compare("ge", step, 0))

        def wait() -> None:
            with st.scope("ep_wait_in"):
                if buffers.is_input:
                    buffers.await_in(ref, self.indices)

        st.when(predicate, wait)
        return buffers

    def copy_out(self, buffers: Buffers, ref: RefView) -> Buffers:
        """Write this step's block back, if the next step has another one."""
        st = self.st
        if buffers.trivial:
            return buffers
        predicate = st.either(self.will_change(buffers), self.last_step)

        def send() -> None:
            with st.scope("ep_copy_out"):
                if buffers.is_output:
                    buffers.start_out(ref, self.indices)

        st.when(predicate, send)
        return buffers.advance("copy_out", st.both(predicate, buffers.is_output))

    def wait_out(self, buffers: Buffers, ref: RefView) -> Buffers:
        """Wait until an earlier step's block is written back."""
        st, lag = self.st, 1
        if buffers.trivial:
            return buffers
        if PIPELINE_BUFFERS_OUTPUTS:
            if not buffers.is_buffered or not buffers.is_output:
                return buffers
            lag = max(buffers.out_count - 1, 1)
            changed = self.has_changed(buffers, lag)
            predicate = st.both(changed, st.compare("ge", self.step, lag))
        else:
            changed = self.has_changed(buffers)
            predicate = st.both(changed, st.negation(self.first_step))

        def wait() -> None:
            with st.scope("ep_wait_out"):
                if buffers.is_output:
                    buffers.await_out(ref, self.earlier[lag])

        st.when(predicate, wait)
        return buffers.advance("wait_out", st.both(predicate, buffers.is_output))

    def advance(self, buffers: Buffers, _: RefView) -> Buffers:
        """Count the block that was read, if the next step has another one."""
        if not buffers.is_input:
            return buffers
        return buffers.advance("wait_in", self.st.either(self.will_change(buffers), self.last_step))

    def finalize(self, buffers: Buffers, ref: RefView, lag: int) -> Buffers:
        """After the loop: wait until the last blocks are written back."""
        st = self.st
        if buffers.trivial:
            return buffers
        if not PIPELINE_BUFFERS_OUTPUTS:
            self._finish(buffers, ref, self.last_step, "ep_finalize", self.indices)
            return buffers
        if not buffers.is_buffered or not buffers.is_output or lag >= max(buffers.out_count - 1, 1):
            return buffers
        changed = True if lag == 0 else self.has_changed(buffers, lag)
        predicate = st.both(self.last_step, st.compare("lt", lag, self.steps))
        predicate = st.both(predicate, changed)
        self._finish(buffers, ref, predicate, f"ep_finalize_{lag}", self.earlier[lag])
        return buffers.advance("wait_out", st.both(predicate, buffers.is_output))

    def _finish(self, buffers: Buffers, ref: RefView, predicate: Staged, name: str, indices: Indices) -> None:
        def end() -> None:
            with self.st.scope(name):
                if buffers.is_output:
                    buffers.await_out(ref, indices)

        self.st.when(predicate, end)


def fetch_ahead(
    scheduler: Scheduler, buffers: Buffers, ref: RefView, *, predicate: Staged, limit: int | None = None
) -> Buffers:
    """With lookahead: fetch blocks that differ, however many steps ahead, while slots are free."""
    st, grid = scheduler.st, scheduler.grid
    fetched, awaited, first = buffers.copy_in, buffers.wait_in, buffers.next_fetch
    assert fetched is not None and awaited is not None and first is not None
    most = st.add(awaited, buffers.in_count)
    if limit is not None:
        once = st.add(fetched, limit)
        most = st.select(st.compare("lt", most, once), most, once)
    second = next_index(st, first, grid, overflow=True)
    rank = len(grid)
    start = [st.value(n) for n in (*first, *second, fetched)]
    st.sync()
    with st.b.while_(start) as loop:
        with loop.before, st.block():
            carried = loop.before.carried
            room = st.compare("lt", carried[-1], most)
            each = [st.compare("lt", i, g) for i, g in zip(carried[rank:-1], grid, strict=True)]
            inside = reduce(st.both, each, True)
            go_on = st.both(st.both(predicate, room), inside)
            loop.condition(st.value(go_on, dt.i1), *carried)
        with loop.after, st.block():
            loop.yield_(*[st.value(n) for n in _fetch_one(scheduler, buffers, ref, loop.after.carried)])
    *indices, count = loop.results
    return replace(buffers, next_fetch=tuple(indices[:rank]), copy_in=count)


def _fetch_one(scheduler: Scheduler, buffers: Buffers, ref: RefView, carried: tuple[Value, ...]) -> list[Staged]:
    st, rank = scheduler.st, len(scheduler.grid)
    here, there, count = carried[:rank], carried[rank:-1], carried[-1]
    first, second = scheduler.offset(here), scheduler.offset(there)
    block = buffers.block_index(first)
    changes = differ(st, block, buffers.block_index(second))
    st.when(changes, lambda: replace(buffers, copy_in=count).start_in(ref, second))
    one = st.literal(changes, dt.u32) if isinstance(changes, int) else st.b.extui(changes, dt.u32)  # pyright: ignore[reportArgumentType]
    fetched = st.add(count, one)
    return [*there, *next_index(st, there, scheduler.grid, overflow=True), fetched]
