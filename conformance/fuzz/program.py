"""Programs as data: types, buffers, views, statements.

Values are numbered in the order they are made: a statement's results follow all values of its scope. What a block makes
ends with it, but for what it yields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from mosaic_tpu import builder
from mosaic_tpu.builder import DType

DTYPES: Final = ("i32", "f32", "bf16", "i16", "i8", "u32", "i1")
_NUMPY: Final = {
    "i32": np.int32,
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "i16": np.int16,
    "i8": np.int8,
    "u32": np.uint32,
    "i1": np.bool_,
}
Shape = tuple[int, ...]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of one of `DTYPES`."""
    return np.dtype(_NUMPY[name])


def builder_dtype(name: str) -> DType:
    """The builder's."""
    return getattr(builder, name)


@dataclass(frozen=True)
class Type:
    """Of a value: a vector, or a scalar if the shape is empty."""

    shape: Shape
    dtype: str

    @property
    def bits(self) -> int:
        return 1 if self.dtype == "i1" else 8 * numpy_dtype(self.dtype).itemsize

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


# --- memory ----------------------------------------------------------------------------------------------------------

#: What the index maps of windows may be, of one program id or two; ``t`` is the prefetched table.
Map = Literal["i, 0", "0, i", "0, 0", "i // 2, 0", "last - i, 0", "t[i], 0", "i, j", "j, i", "i, 0 of 2", "0, j"]
Space = Literal["vmem", "smem", "any"]
Role = Literal["input", "output", "scratch", "scoped"]


@dataclass(frozen=True)
class Buffer:
    """A memory operand, scratch, or memory of a scope.

    Attributes:
        name: unique in a program.
        type: what the kernel sees of it.
        space: where it is.
        role: what it is to the call.
        map: the index map of its window; all of it stays in place if omitted.
        array: shape of the whole array, if there is an index map.
        alias: the input that an output starts as.
        single: one buffer for the window, not two.
    """

    name: str
    type: Type
    space: Space = "vmem"
    role: Role = "input"
    map: Map | None = None
    array: Shape | None = None
    alias: str | None = None
    single: bool = False

    @property
    def array_shape(self) -> Shape:
        """The shape of what is handed in or out."""
        return self.type.shape if self.array is None else self.array

    @property
    def has_edge(self) -> bool:
        """Whether blocks reach outside of the array."""
        return any(a % b for a, b in zip(self.array_shape, self.type.shape, strict=True))


@dataclass(frozen=True)
class Scalar:
    """An integer from 0 to 3 that is known at run time only.

    Attributes:
        kind: an element of the SMEM input, a loop's counter by depth, or a program id.
        number: which.
    """

    kind: Literal["s", "loop", "pid"]
    number: int


#: The largest value of a `Scalar`.
SCALAR_MAX: Final = 3


@dataclass(frozen=True)
class Start:
    """``base + times * scalar``."""

    base: int
    times: int = 0
    scalar: Scalar | None = None

    @property
    def limit(self) -> int:
        """The largest it may become."""
        return self.base + self.times * SCALAR_MAX


@dataclass(frozen=True)
class Dim:
    """One dimension's part of an index; dropped dimensions have size 1."""

    start: Start
    size: int
    stride: int = 1
    drop: bool = False


@dataclass(frozen=True)
class Slice:
    """``.at[…]``, or the index of a load or store."""

    dims: tuple[Dim, ...]

    @property
    def shape(self) -> Shape:
        return tuple(d.size for d in self.dims if not d.drop)


@dataclass(frozen=True)
class Reshape:
    """``.reshape(…)``."""

    shape: Shape


@dataclass(frozen=True)
class Bitcast:
    """``.bitcast(…)``; ``shape`` is that of the result."""

    dtype: str
    shape: Shape


@dataclass(frozen=True)
class View:
    """Transforms of a buffer; a load or store folds the last `Slice` into its index."""

    buffer: str
    transforms: tuple[Slice | Reshape | Bitcast, ...]
    type: Type


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Let:
    """An operation of `ops` on values; one result."""

    op: str
    args: tuple[int, ...]
    params: tuple[Any, ...]
    type: Type


@dataclass(frozen=True)
class Load:
    """One result of the view's type; in SMEM views of one element, a scalar."""

    view: View


@dataclass(frozen=True)
class EdgeLoad:
    """The window of an input with an edge, zero where it is outside the array; one result."""

    buffer: str
    type: Type
    rows: int
    pid: int


@dataclass(frozen=True)
class Read:
    """A `Scalar` as a value; one result."""

    scalar: Scalar


@dataclass(frozen=True)
class Store:
    """A value to a view, under a mask if there is one."""

    view: View
    value: int
    mask: int | None = None


@dataclass(frozen=True)
class Block:
    """Statements, and the values they hand out."""

    body: tuple[Statement, ...]
    yields: tuple[int, ...] = ()


@dataclass(frozen=True)
class Test:
    """``scalar % modulus`` compared with ``value``."""

    scalar: Scalar
    predicate: Literal["eq", "ne", "lt", "ge"]
    value: int
    modulus: int | None = None


@dataclass(frozen=True)
class For:
    """A counted loop; its results are the last carry. The block's first values are the carry.

    Attributes:
        lower: first count.
        upper: end, excluded.
        unroll: iterations a step, or ``True``.
    """

    lower: int
    upper: int | Scalar
    carry: tuple[int, ...]
    block: Block
    unroll: int | bool = 1


@dataclass(frozen=True)
class While:
    """``while count < limit``, from 0 by ``step``; results and carry as of `For`."""

    limit: int | Scalar
    step: int
    carry: tuple[int, ...]
    block: Block


@dataclass(frozen=True)
class If:
    """One result a yielded value, of `types`. ``otherwise`` is ``None`` in `pl.when`."""

    test: Test
    then: Block
    otherwise: Block | None = None
    types: tuple[Type, ...] = ()


@dataclass(frozen=True)
class Scope:
    """`pl.run_scoped` with buffers of its own."""

    buffers: tuple[Buffer, ...]
    block: Block


@dataclass(frozen=True)
class Copy:
    """A DMA: its start, what happens meanwhile, its wait.

    Attributes:
        source: view copied from.
        target: view copied to, of the same type.
        semaphore: which of the array of semaphores; one of its own scope if omitted.
        meanwhile: leaves source and target alone; nothing it makes is used later.
        waits: how often it is waited for: 1, in a healthy program.
        starts: whether it is started.
    """

    source: View
    target: View
    semaphore: Start | None
    meanwhile: Block
    waits: int = 1
    starts: bool = True


Statement = Let | Load | EdgeLoad | Read | Store | For | While | If | Scope | Copy


@dataclass(frozen=True)
class Program:
    """A kernel and its inputs.

    Attributes:
        grid: sizes, 1 to 4 each; empty for none.
        buffers: inputs, outputs and scratch.
        body: what a step of the grid does.
        scalars: what the SMEM input ``s`` holds, from 0 to 3 each.
        table: what the prefetched ``t`` holds, block indices.
        seed: of the inputs' contents, and of the schedule.
        dma: when copies happen.
    """

    grid: Shape
    buffers: tuple[Buffer, ...]
    body: Block
    scalars: tuple[int, ...] = (1, 0, 2, 3)
    table: tuple[int, ...] = ()
    seed: int = 0
    dma: Literal["random", "eager", "wait"] = "random"
    types: dict[str, Buffer] = field(init=False, repr=False, compare=False, hash=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.types.update((b.name, b) for b in self.buffers)

    def with_role(self, role: Role) -> tuple[Buffer, ...]:
        """The buffers of a role, in order."""
        return tuple(b for b in self.buffers if b.role == role)


#: Semaphores in the array that every program with copies has.
SEMAPHORES: Final = 4


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """The blocks in a statement."""
    match statement:
        case For() | While() | Scope():
            return (statement.block,)
        case If():
            return (statement.then,) if statement.otherwise is None else (statement.then, statement.otherwise)
        case Copy():
            return (statement.meanwhile,)
        case _:
            return ()


def results_of(statement: Statement) -> int:
    """How many values a statement makes."""
    match statement:
        case Let() | Load() | EdgeLoad() | Read():
            return 1
        case For() | While():
            return len(statement.carry)
        case If():
            return len(statement.types)
        case _:
            return 0


def walk(block: Block) -> Iterator[Statement]:
    """All statements, those of inner blocks too."""
    for statement in block.body:
        yield statement
        for inner in blocks_of(statement):
            yield from walk(inner)


def uses(program: Program, *kinds: type) -> bool:
    """Whether the program has a statement of one of these kinds."""
    return any(isinstance(s, kinds) for s in walk(program.body))
