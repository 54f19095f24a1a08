"""Programs written with the builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from conformance.fuzz.ops import OPS
from conformance.fuzz.program import (
    SEMAPHORES,
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
    View,
    While,
    builder_dtype,
    numpy_dtype,
    uses,
)
from mosaic_tpu.builder import Builder, Ref, SemArray, Value, Window, i32
from mosaic_tpu.builder import Scalar as GridScalar
from mosaic_tpu.sim import Module, read
from mosaic_tpu.sim._module import Call

IndexMap = Callable[..., Sequence[Any]]


def to_module(program: Program) -> Module:
    """The program's kernel, as the simulator reads it."""
    b = Builder("fuzz")
    emit(b, program)
    inputs = [buffer.name for buffer in program.with_role("input")]
    first = 1 if program.table else 0
    outputs = program.with_role("output")
    aliases = {o: first + 1 + inputs.index(x.alias) for o, x in enumerate(outputs) if x.alias is not None}
    module = read(b.finish())
    module.call = Call(tuple((x.array_shape, numpy_dtype(x.type.dtype)) for x in outputs), aliases)
    return module


def emit(b: Builder, program: Program) -> None:
    """Write the program's kernel."""
    specs: dict[str, Any] = {f"i{axis}": GridScalar(i32) for axis in range(len(program.grid))}
    if program.table:
        specs["t"] = Ref((len(program.table),), i32, "smem", "scalar_prefetch")
    specs["s"] = Ref((len(program.scalars),), i32, "smem")
    for role in ("input", "output", "scratch"):
        for buffer in program.with_role(role):
            specs[buffer.name] = _ref(buffer, program.grid)
    if uses(program, Copy):
        specs["sems"] = SemArray((SEMAPHORES,), "dma")
    a = b.declare_args(specs, grid=program.grid) if program.grid else b.declare_args(specs)
    refs = {name: a[name] for name in specs if name[0] != "i" or not name[1:].isdigit()}
    pids = [a[f"i{axis}"] for axis in range(len(program.grid))]
    _Writer(b, refs, pids).block(program.body, [])


def _ref(buffer: Buffer, grid: Sequence[int]) -> Ref:
    window = None
    if buffer.map is not None:
        mode = "synchronous" if buffer.single else None
        window = Window(buffer.type.shape, index_map=index_map(buffer.map, grid), pipeline_mode=mode)
    dtype = builder_dtype(buffer.type.dtype)
    return Ref(buffer.type.shape, dtype, buffer.space, buffer.role, window, buffer.array)


def index_map(name: str, grid: Sequence[int]) -> IndexMap:
    """The function of a `Map`."""
    last = grid[0] - 1
    maps: dict[str, IndexMap] = {
        "i, 0": lambda i, *_: (i, 0),
        "0, i": lambda i, *_: (0, i),
        "0, 0": lambda *_: (0, 0),
        "i // 2, 0": lambda i, *_: (i // 2, 0),
        "last - i, 0": lambda i, *_: (last - i, 0),
        "t[i], 0": lambda i, t: (t[i], 0),
        "i, j": lambda i, j, *_: (i, j),
        "j, i": lambda i, j, *_: (j, i),
        "i, 0 of 2": lambda i, j, *_: (i, 0),
        "0, j": lambda i, j, *_: (0, j),
    }
    return maps[name]


class _Writer:
    def __init__(self, b: Builder, refs: dict[str, Value], pids: list[Value]) -> None:
        self.b = b
        self.refs = refs
        self.pids = pids
        self.counters: list[Value] = []

    def block(self, block: Block, values: list[Value]) -> list[Value]:
        """Write a block's statements after `values`; what it yields."""
        known = list(values)
        for statement in block.body:
            known += self.statement(statement, known)
        return [known[v] for v in block.yields]

    def statement(self, statement: Statement, known: list[Value]) -> Sequence[Value]:
        b = self.b
        match statement:
            case Let(op, args, params, _):
                return [OPS[op].emit(b, *[known[v] for v in args], *params)]
            case Load(view):
                return [b.pallas.load(self.view(view))]
            case EdgeLoad(buffer, type_, rows, pid):
                return [self.edge_load(buffer, type_.shape, rows, self.pids[pid])]
            case Read(scalar):
                return [self.scalar(scalar)]
            case Store(view, value, mask):
                b.pallas.store(self.view(view), known[value], mask=None if mask is None else known[mask])
            case For():
                return self.loop(statement, known)
            case While():
                return self.while_loop(statement, known)
            case If():
                return self.branch(statement, known)
            case Scope(buffers, block):
                with b.pallas.run_scoped():
                    for x in buffers:
                        self.refs[x.name] = b.alloca(x.type.shape, builder_dtype(x.type.dtype), x.space)
                    self.block(block, known)
            case Copy():
                if statement.semaphore is None:
                    with b.pallas.run_scoped():
                        self.copy(statement, b.sem_alloc("dma"), known)
                else:
                    sems = self.refs["sems"]
                    self.copy(statement, sems.at[self.start(statement.semaphore)], known)
        return []

    # --- indices and views -----------------------------------------------------------------------------------------

    def scalar(self, scalar: Scalar) -> Value:
        if scalar.kind == "s":
            return self.b.pallas.load(self.refs["s"], scalar.number)
        return (self.counters if scalar.kind == "loop" else self.pids)[scalar.number]

    def start(self, start: Start) -> Value | int:
        if start.scalar is None:
            return start.base
        value = self.scalar(start.scalar)
        scaled = value if start.times == 1 else value * start.times
        return scaled + start.base if start.base else scaled

    def view(self, view: View) -> Any:
        ref = self.refs[view.buffer]
        found = ref.at[...]
        for transform in view.transforms:
            match transform:
                case Slice(dims):
                    entries = [
                        self.start(d.start) if d.drop else self.b.pallas.ds(self.start(d.start), d.size, d.stride)
                        for d in dims
                    ]
                    found = found.at[tuple(entries)]
                case Reshape(shape):
                    found = found.reshape(*shape)
                case _:
                    found = found.bitcast(builder_dtype(transform.dtype))
        return found

    def edge_load(self, buffer: str, shape: tuple[int, ...], rows: int, pid: Value) -> Value:
        b = self.b
        row = b.pallas.broadcasted_iota(i32, shape, 0) + pid * shape[0]
        return b.pallas.where(row < rows, self.refs[buffer][...], 0)

    # --- control flow ----------------------------------------------------------------------------------------------

    def test(self, test: Test) -> Value:
        value = self.scalar(test.scalar)
        if test.modulus is not None:
            value = self.b.pallas.rem(value, test.modulus)
        return getattr(self.b.pallas, test.predicate)(value, test.value)

    def loop(self, loop: For, known: list[Value]) -> Sequence[Value]:
        upper = self.scalar(loop.upper) if isinstance(loop.upper, Scalar) else loop.upper

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            self.counters.append(i)
            found = self.block(loop.block, [*known, *carried])
            self.counters.pop()
            return found

        return self.b.pallas.fori_loop(loop.lower, upper, body, [known[v] for v in loop.carry], unroll=loop.unroll)

    def while_loop(self, loop: While, known: list[Value]) -> Sequence[Value]:
        limit = self.scalar(loop.limit) if isinstance(loop.limit, Scalar) else loop.limit

        def body(i: Value, *carried: Value) -> Sequence[Value]:
            self.counters.append(i)
            found = self.block(loop.block, [*known, *carried])
            self.counters.pop()
            return [i + loop.step, *found]

        init = [self.b.lift(0), *(known[v] for v in loop.carry)]
        return self.b.pallas.while_loop(lambda i, *_: i < limit, body, init)[1:]

    def branch(self, branch: If, known: list[Value]) -> Sequence[Value]:
        b = self.b
        if branch.otherwise is None:
            with b.pallas.when(self.test(branch.test)):
                self.block(branch.then, known)
            return []
        made: list[list[Value]] = []

        def side(block: Block) -> tuple[Value, ...]:
            made.append(self.block(block, known))
            return tuple(made[-1])

        otherwise = branch.otherwise
        types = [
            b.vector_ty(t.shape, builder_dtype(t.dtype)) if t.shape else b.scalar_ty(builder_dtype(t.dtype))
            for t in branch.types
        ]
        return b.pallas.cond(self.test(branch.test), lambda: side(branch.then), lambda: side(otherwise), types)

    def copy(self, copy: Copy, semaphore: Any, known: list[Value]) -> None:
        made = self.b.pallas.async_copy(self.view(copy.source), self.view(copy.target), semaphore)
        if copy.starts:
            made.start()
        self.block(copy.meanwhile, known)
        for _ in range(copy.waits):
            made.wait()
