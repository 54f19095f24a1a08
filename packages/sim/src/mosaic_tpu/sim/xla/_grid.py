"""The grid: a loop over its steps that fetches windows, runs the kernel and writes windows back.

An output window that every step overwrites is written back in every step: nothing else sees the array in between. Any
other is carried from step to step, and written back and poisoned where its place changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mosaic_tpu.sim._layout import DIRECT, Layout, layout
from mosaic_tpu.sim._layout import Window as Blocks
from mosaic_tpu.sim._module import Module, Value
from mosaic_tpu.sim._types import DYNAMIC
from mosaic_tpu.sim.xla import _cost
from mosaic_tpu.sim.xla._elements import Array, is_static, poison
from mosaic_tpu.sim.xla._operands import (
    Operand,
    adopt,
    hand_back,
    overwrites,
    padded,
    padded_shape,
    unpadded,
)
from mosaic_tpu.sim.xla._translation import Translation, both, either
from mosaic_tpu.sim.xla._untyped import jax, jnp, lax
from mosaic_tpu.sim.xla._views import Index, Root, View, Window, as_index, filled, plus, read, write

Output = tuple[tuple[int, ...], Any]
Starts = tuple[Index, ...]
#: No window starts here.
_NOWHERE = np.int32(np.iinfo(np.int32).min)


def run(module: Module, inputs: Sequence[Any], outputs: Sequence[Output], *, checks: bool) -> tuple[list[Array], Array]:
    """Translate a kernel on traced inputs: its outputs, and the flag."""
    grid = _Grid(Translation(module, checks=checks), layout(module, len(inputs), len(outputs)))
    grid.bind(inputs, outputs)
    grid.run()
    t = grid.t
    results = [
        hand_back(unpadded(t.memory[o.root], o), dtype)
        for o, (_, dtype) in zip((o for o in grid.operands if o.is_output), outputs, strict=True)
    ]
    return results, as_index(t.flag)


class _Grid:
    def __init__(self, t: Translation, plan: Layout) -> None:
        self.t = t
        self.plan = plan
        arguments = t.module.kernel.arguments
        #: The kernel's arguments after the grid's indices.
        self.arguments = list(zip(arguments[len(arguments) - len(plan.arguments) :], plan.arguments, strict=True))
        self.prefetch = self._of_role("prefetch")
        self.bounds: list[Index] = []
        self.operands: list[Operand] = []
        #: Windows that are in one place throughout, with that place.
        self.resident: dict[Operand, Starts] = {}
        #: Input windows that may differ from their array: fetched only where their place changes.
        self.kept: list[Operand] = []
        #: Output windows that the kernel may not overwrite, or read.
        self.carried: list[Operand] = []
        self._products: dict[tuple[int, int], tuple[Any, Any]] = {}

    # --- before the first step ---------------------------------------------------------------------------------

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Output]) -> None:
        """Give the kernel's arguments their memory."""
        t, dynamic = self.t, self.plan.dynamic
        self._bind_bounds(inputs[:dynamic])
        first = dynamic + len(self.prefetch)
        for argument, x in zip(self.prefetch, inputs[dynamic:first], strict=True):
            content = adopt(x, argument.type.element).reshape(argument.type.shape)
            t.values[argument] = t.allocate("scalar prefetch", argument.type, content)
        given = inputs[first:]
        for i, x in enumerate(given):
            self._bind_input(i, x)
        aliases = t.module.call.aliases
        for i, (shape, _) in enumerate(outputs):
            aliased = self.operands[aliases[i] - first] if i in aliases and aliases[i] >= first else None
            self._bind_output(len(given) + i, tuple(shape), aliased)
        for argument in self._of_role("scratch"):
            content = filled(argument.type.shape, poison(argument.type.element))
            t.values[argument] = t.allocate("scratch", argument.type, content)

    def _of_role(self, role: str) -> list[Value]:
        return [value for value, argument in self.arguments if argument.role == role]

    def _array(self, place: int) -> tuple[Value, Blocks | None]:
        """An input's or output's argument, and how its windows are found."""
        value, argument = self.arguments[len(self.prefetch) + place]
        window = argument.window
        return value, window if window is not None and window.transform is not None else None

    def _bind_bounds(self, dynamic: Sequence[Any]) -> None:
        rest = iter(dynamic)
        for bound in self.plan.grid:
            self.bounds.append(jnp.asarray(next(rest), np.int32).reshape(()) if bound == DYNAMIC else bound)
        self.t.bounds = tuple(self.bounds)

    def _bind_input(self, place: int, x: Any) -> None:
        argument, blocks = self._array(place)
        content = adopt(x, argument.type.element)
        if blocks is None:
            content = content.reshape(argument.type.shape)
        root = Root("input", padded_shape(content.shape, blocks), argument.type.element)
        self.t.memory[root] = padded(content, blocks, argument.type.element)
        self._add(Operand(argument, root, content.shape, blocks, False))

    def _bind_output(self, place: int, shape: tuple[int, ...], aliased: Operand | None) -> None:
        argument, blocks = self._array(place)
        # Without blocks, memory that is not the array itself is a window of all of it: not the input's.
        own_window = blocks is None and argument.type.space not in DIRECT
        if aliased is not None and not own_window:
            root = aliased.root
        else:
            root = Root("output", padded_shape(shape, blocks), argument.type.element)
            self.t.memory[root] = filled(root.shape, poison(argument.type.element))
        self._add(Operand(argument, root, shape, blocks, True))

    def _add(self, operand: Operand) -> None:
        self.operands.append(operand)
        self.t.values[operand.argument] = View.whole(operand.window)

    # --- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Every step."""
        t = self.t
        if any(isinstance(b, int) and b == 0 for b in self.bounds):
            return
        looped = [d for d, b in enumerate(self.bounds) if not (isinstance(b, int) and b == 1)]
        self._settle(looped)
        for operand, starts in self.resident.items():
            self._fetch(operand, starts)
        if looped:
            self._loop(*self._split(looped))
        else:
            self._step([0] * len(self.plan.grid), {}, [])
        ran = _all([lax.gt(b, np.int32(0)) for b in self.bounds if not isinstance(b, int)])
        for operand, starts in self.resident.items():
            if operand.is_output:
                t.memory[operand.root] = _choose(ran, self._write_back(operand, starts), t.memory[operand.root])

    def _settle(self, looped: list[int]) -> None:
        """Find out which windows stay where they are, and which may be written by the kernel."""
        t = self.t
        moving = [o for o in self.operands if o.blocks is not None]
        found: list[Starts] = []

        def places(*indices: Array) -> None:
            whole = self._indices(looped, indices)
            t.region(lambda: found.extend(self._starts(o, whole) for o in moving) or [], {}, t.flag)

        jax.eval_shape(places, *(jax.ShapeDtypeStruct((), np.int32) for _ in looped))
        self.resident = {
            o: starts for o, starts in zip(moving, found, strict=True) if all(isinstance(s, int) for s in starts)
        }
        written = self._written_by_kernel()
        arrays = {o.root for o in self.operands if o.is_output} | written
        self.kept = [
            o for o in moving
            if not o.is_output and o not in self.resident and (o.window in written or o.root in arrays)
        ]  # fmt: skip
        body = t.module.kernel.body
        self.carried = [
            o for o in moving if o.is_output and o not in self.resident and not overwrites(body, o.argument)
        ]

    def _written_by_kernel(self) -> set[Root]:
        t = self.t
        for o in self.operands:
            t.memory.setdefault(o.window, filled((), np.int32(0)))  # exists, so that `written` sees it
        return set(t.written([t.module.kernel.body]))

    def _loop(self, looped: list[int], unrolled: list[int]) -> None:
        t = self.t
        written = self._written_by_kernel()
        tracked = [*self.kept, *self.carried]
        own = {o.window for o in self.operands if o.blocks is not None and o not in self.resident and o not in tracked}
        outputs = [o.root for o in self.operands if o.is_output and o not in self.resident]
        for o in tracked:
            t.memory[o.window] = filled(o.window.shape, poison(o.window.element))
        windows = [o.window for o in tracked]
        roots = list(dict.fromkeys([*(r for r in t.memory if r in written and r not in own), *outputs, *windows]))
        bounds = [self.bounds[d] for d in looped]

        def body(carry: Any) -> Any:
            indices, last, memory, flag = carry
            for i, bound in zip(indices, bounds, strict=True):
                t.ranges.set(i, 0, bound - 1 if isinstance(bound, int) else (1 << 31) - 2)

            def steps() -> list[Any]:
                places = dict(zip(tracked, last, strict=True))
                for inner in itertools.product(*(range(self.bounds[d]) for d in unrolled)):
                    places = self._step(self._indices([*looped, *unrolled], [*indices, *inner]), places, tracked)
                return [[as_index(s) for s in places[o]] for o in tracked]

            places, memory, flag = t.region(steps, dict(zip(roots, memory, strict=True)), flag)
            return _next(indices, bounds), places, memory, flag

        def more(carry: Any) -> Array:
            indices = carry[0]
            inner = [lax.gt(b, np.int32(0)) for b in bounds[1:] if not isinstance(b, int)]
            return _all([lax.lt(indices[0], as_index(bounds[0])), *inner])

        nowhere = [[_NOWHERE] * len(o.root.shape) for o in tracked]
        first = [np.int32(0)] * len(looped), nowhere, [t.memory[r] for r in roots], as_index(t.flag)
        _, last, memory, flag = lax.while_loop(more, body, first)
        t.memory.update(zip(roots, memory, strict=True))
        t.flag = flag
        for o in self.carried:
            self._turn(o, (), last[tracked.index(o)])

    def _indices(self, looped: list[int], indices: Sequence[Array]) -> list[Index]:
        traced = dict(zip(looped, indices, strict=True))
        return [traced.get(d, 0) for d in range(len(self.bounds))]

    def _split(self, looped: list[int]) -> tuple[list[int], list[int]]:
        """The dimensions to loop over, and the fastest ones if their steps are few and small: these are unrolled."""
        size = _cost.operations(self.t.module.kernel.body)
        unrolled: list[int] = []
        for d in reversed(looped[1:]):
            if not isinstance(self.bounds[d], int) or size * self.bounds[d] > _cost.UNROLL_GRID_UP_TO:
                break
            size *= self.bounds[d]
            unrolled.insert(0, d)
        return looped[: len(looped) - len(unrolled)], unrolled

    # --- a step ------------------------------------------------------------------------------------------------

    def _step(self, indices: list[Index], last: dict[Operand, Any], tracked: list[Operand]) -> dict[Operand, Starts]:
        """Fetch, run, write back; where each window was."""
        t = self.t
        moving = [o for o in self.operands if o.blocks is not None and o not in self.resident]
        places = {o: self._starts(o, indices) for o in moving}
        for o in moving:
            if o.is_output and o in tracked:
                self._turn(o, places[o], last[o])
            else:
                self._fetch(o, places[o], _differs(places[o], last[o]) if o in tracked else True)
        t.run(t.module.kernel.body, [*indices, *(t.values[a] for a in t.module.kernel.arguments[len(indices) :])])
        for o in moving:
            if o.is_output and o not in tracked:
                t.memory[o.root] = self._write_back(o, places[o])
        return places

    def _starts(self, operand: Operand, indices: list[Index]) -> Starts:
        """Where the window is in the padded array."""
        t, blocks = self.t, operand.blocks
        assert blocks is not None
        assert blocks.transform is not None
        body = t.module.functions[blocks.transform].body
        arguments = [*indices, *(t.values[a] for a in self.prefetch)]
        values = t.run(body, arguments[: len(body.arguments)])
        found: list[Index] = []
        for value, block, size in zip(values, blocks.bounds, operand.root.shape, strict=True):
            found.append(_as_place(value if blocks.element else self._scaled(value, block)))
            # Blocks are counted before they are scaled, which may wrap.
            place, last = (found[-1], size - block) if blocks.element else (_as_place(value), (size - block) // block)
            t.fail_if(t.leaves(place, last), body.terminator)
        return tuple(found)

    def _scaled(self, value: Any, block: int) -> Index:
        """A place in elements; the same object for the same place, by which `_differs` knows it."""
        if is_static(value):
            return int(value) * block
        key = id(value), block
        if key not in self._products:
            made = lax.mul(value, np.int32(block))
            low, high = self.t.ranges.of(value)
            self.t.ranges.set(made, low * block, high * block)
            self._products[key] = value, made
        return self._products[key][1]

    def _fetch(self, operand: Operand, starts: Starts, moved: Any = True) -> None:
        t = self.t
        if operand.is_output:
            fresh = filled(operand.window.shape, poison(operand.window.element))
        else:
            fresh = read(t.memory[operand.root], _steps(operand, starts))
            if operand in self.kept:
                fresh = _choose(moved, fresh, t.memory[operand.window])
        t.memory[operand.window] = fresh

    def _turn(self, operand: Operand, starts: Starts, last: Sequence[Array]) -> None:
        """Write a carried window back where its place changes, or after the last step.

        In the first step it was nowhere, and is poison.
        """
        t = self.t
        changed = _differs(starts, last) if starts else True
        if changed is False:
            return
        there = lax.ne(as_index(last[0]), _NOWHERE)

        def turn(array: Array, window: Array) -> tuple[Array, Array]:
            written = write(array, _steps(operand, tuple(last)), window)
            return written, filled(operand.window.shape, poison(operand.window.element))

        held = t.memory[operand.root], t.memory[operand.window]
        turned = lax.cond(both(changed, there), turn, _same, *held)
        t.memory[operand.root], t.memory[operand.window] = turned

    def _write_back(self, operand: Operand, starts: Starts) -> Array:
        t = self.t
        return write(t.memory[operand.root], _steps(operand, starts), t.memory[operand.window])


def _as_place(value: Any) -> Index:
    """A number known while translating as Python's."""
    return int(value) if is_static(value) else value


def _same(*held: Array) -> tuple[Array, ...]:
    return held


def _steps(operand: Operand, starts: Starts) -> tuple[Window, ...]:
    sizes = operand.window.shape
    if sizes == operand.root.shape:
        return ()
    return (Window(starts, sizes, (True,) * len(sizes)),)


def _choose(condition: Any, yes: Array, no: Array) -> Array:
    return yes if condition is True else no if condition is False else lax.select(condition, yes, no)


def _differs(starts: Starts, last: Sequence[Array]) -> Any:
    found: Any = False
    for a, b in zip(starts, last, strict=True):
        if a is not b:
            both_known = isinstance(a, int) and isinstance(b, int)
            found = either(found, a != b if both_known else lax.ne(as_index(a), as_index(b)))
    return found


def _next(indices: Sequence[Array], bounds: Sequence[Index]) -> list[Array]:
    """The next step's indices: the last dimension runs fastest."""
    made: list[Array] = []
    step: Any = 1
    for d in reversed(range(len(indices))):
        value = plus(indices[d], step)
        if d:
            wraps = lax.ge(value, as_index(bounds[d]))
            step = lax.convert_element_type(wraps, np.int32)
            value = lax.select(wraps, np.int32(0), value)
        made.insert(0, value)
    return made


def _all(conditions: list[Any]) -> Any:
    found: Any = True
    for condition in conditions:
        found = both(found, condition)
    return found
