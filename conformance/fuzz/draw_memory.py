"""Draws what a program's memory is: grid, windows, buffers, and the statements that initialise them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from conformance.fuzz.draw_views import whole
from conformance.fuzz.program import (
    Block,
    Buffer,
    Copy,
    If,
    Let,
    Map,
    Role,
    Scalar,
    Shape,
    Statement,
    Store,
    Test,
    Type,
)
from conformance.fuzz.tape import Tape

MENU: Final = (
    Type((8, 128), "f32"),
    Type((8, 128), "i32"),
    Type((16, 128), "f32"),
    Type((16, 128), "bf16"),
    Type((8, 256), "i32"),
    Type((2, 8, 128), "f32"),
    Type((32, 128), "i8"),
    Type((16, 128), "i16"),
    Type((2, 16, 128), "bf16"),
)
#: Blocks of windows.
_BLOCKS: Final = tuple(t for t in MENU if len(t.shape) == 2)
_INPUT_MAPS: Final[dict[int, tuple[Map, ...]]] = {
    1: ("i, 0", "i, 0", "0, i", "0, 0", "i // 2, 0", "last - i, 0", "t[i], 0"),
    2: ("i, j", "j, i", "i, 0 of 2", "0, j"),
}
_OUTPUT_MAPS: Final[dict[int, tuple[Map, ...]]] = {
    1: ("i, 0", "0, i", "0, 0", "i // 2, 0", "last - i, 0"),
    2: ("i, j", "j, i", "i, 0 of 2"),
}


@dataclass
class Layout:
    """Grid and memory.

    Attributes:
        grid: sizes.
        buffers: inputs, outputs, scratch.
        table: the prefetched block indices.
        start: statements that initialise what the kernel writes.
        menu: types of buffers.
    """

    grid: Shape
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    table: tuple[int, ...] = ()
    start: list[Statement] = field(default_factory=list[Statement])
    menu: tuple[Type, ...] = MENU

    def in_role(self, role: Role) -> list[Buffer]:
        """The buffers of a role, in order."""
        return [b for b in self.buffers if b.role == role]


def layout_of(tape: Tape) -> Layout:
    """Memory of a program, all of it initialised."""
    grid = tape.pick(((), (), (), (2,), (3,), (4,), (1,), (2, 2), (1, 3), (3, 2)))
    layout = Layout(grid)
    # Few types, so that much in a program fits together.
    layout.menu = tuple(tape.pick(MENU) for _ in range(tape.integer(2, 3)))
    if grid:
        layout.table = tuple(tape.integer(0, grid[0] - 1) for _ in range(grid[0]))
    for n in range(tape.integer(1, 3)):
        layout.buffers.append(_input(tape, layout, n))
    values = 0
    for n in range(tape.integer(1, 2)):
        buffer = _window(tape, layout, f"o{n}", "output")
        layout.buffers.append(buffer)
        values += _start(layout, buffer, _first_visit(buffer), values)
    for n in range(tape.integer(0, 1)):
        buffer = Buffer(f"v{n}", tape.pick(layout.menu), "vmem", "scratch")
        layout.buffers.append(buffer)
        values += _start(layout, buffer, "first step", values)
    if tape.boolean():
        _far_output(tape, layout)
    if not any("t[i]" in (b.map or "") for b in layout.buffers):
        layout.table = ()
    return layout


def _input(tape: Tape, layout: Layout, n: int) -> Buffer:
    if tape.pick((False, False, True)):
        return Buffer(f"h{n}", tape.pick(layout.menu), "any")
    return _window(tape, layout, f"x{n}", "input")


def _window(tape: Tape, layout: Layout, name: str, role: Role) -> Buffer:
    """A buffer in VMEM, in a grid often a window."""
    rank = len(layout.grid)
    if not rank or tape.pick((False, False, True)):
        return Buffer(name, tape.pick(layout.menu), "vmem", role)
    block = tape.pick([t for t in layout.menu if len(t.shape) == 2] or _BLOCKS)
    chosen = tape.pick((_INPUT_MAPS if role == "input" else _OUTPUT_MAPS)[rank])
    array = _array(chosen, block.shape, layout.grid)
    by_rows = chosen in ("i, 0", "last - i, 0") if role == "output" else chosen == "i, 0"
    if by_rows and block.dtype not in ("i8", "i16") and tape.boolean():
        array = (array[0] - tape.integer(1, block.shape[0] - 1), array[1])
    return Buffer(name, block, "vmem", role, chosen, array, single=tape.boolean())


def _array(chosen: Map, block: Shape, grid: Shape) -> Shape:
    """The smallest array that holds all blocks."""
    rows, columns = block
    first, last = grid[0], grid[-1]
    sizes: dict[Map, Shape] = {
        "0, i": (1, first),
        "0, 0": (1, 1),
        "i // 2, 0": ((first + 1) // 2, 1),
        "i, j": (first, last),
        "j, i": (last, first),
        "0, j": (1, last),
    }
    down, across = sizes.get(chosen, (first, 1))
    return rows * down, columns * across


def _first_visit(buffer: Buffer) -> Test | str | None:
    """When an output's window is new; ``None`` if it always is."""
    match buffer.map:
        case None | "0, 0":
            return "first step"
        case "i // 2, 0":
            return Test(Scalar("pid", 0), "eq", 0, 2)
        case "i, 0 of 2":
            return Test(Scalar("pid", 1), "eq", 0)
        case _:
            return None


def _start(layout: Layout, buffer: Buffer, when: Test | str | None, values: int) -> int:
    """Write all of a buffer where it is new; how many values that made in the outermost scope."""
    number = 1 if buffer.type.dtype.startswith("i") else 1.0
    fill = Let("full", (), (buffer.type.shape, buffer.type.dtype, number), buffer.type)
    layout.start.append(fill)
    _once(layout, when, Store(whole(buffer), values))
    return 1


def _once(layout: Layout, when: Test | str | None, statement: Statement) -> None:
    tests = [when] if isinstance(when, Test) else []
    if when == "first step":
        tests = [Test(Scalar("pid", d), "eq", 0) for d in range(len(layout.grid))]
    for test in tests:
        statement = If(test, Block((statement,)))
    layout.start.append(statement)


def _far_output(tape: Tape, layout: Layout) -> None:
    """An output that XLA places: an input with its memory, or a copy of one."""
    sources = [b for b in layout.buffers if b.map is None and b.role == "input"]
    if not sources:
        sources = [Buffer("h9", tape.pick(layout.menu), "any")]
        layout.buffers.append(sources[0])
    source = tape.pick(sources)
    target = Buffer("far", source.type, "any", "output")
    if source.space == "any" and tape.boolean():
        layout.buffers.append(replace(target, alias=source.name))
        return
    layout.buffers.append(target)
    _once(layout, "first step", Copy(whole(source), whole(target), None, Block(())))
