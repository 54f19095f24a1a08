"""`pltpu.emit_pipeline`: a grid inside a kernel, whose blocks are copied while others are computed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PIPELINE_BUFFERS_OUTPUTS, IrBlock
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import DimensionSemantics, MemorySpace, PipelineMode
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, KindError, MemorySpaceError, WindowError
from mosaic_tpu.builder.pallas._calls import called
from mosaic_tpu.builder.pallas._loops import dynamic_loop, nowhere, static_loop
from mosaic_tpu.builder.pallas._staging import Literal, Staged, Staging
from mosaic_tpu.builder.pallas.control import ControlIdioms
from mosaic_tpu.builder.pallas.pipeline_buffers import Block, Buffers, BufferType, Indices, entries_of, read_block
from mosaic_tpu.builder.pallas.pipeline_schedule import (
    Grid,
    Scheduler,
    first_index,
    keep_moving,
    next_index,
    previous_index,
)
from mosaic_tpu.builder.pallas.refs import RefLike
from mosaic_tpu.builder.specs import Buffered, Window
from mosaic_tpu.builder.views import RefView

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

_OP: Final = "emit_pipeline"
_COUNTS: Final = ("copy_in", "wait_in", "copy_out", "wait_out")


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that runs when it is called, with the refs that its windows are over.

    Attributes:
        builder: whose ops these are.
        body: called with the current blocks, then the scratch refs.
        grid: ints and i32 values.
        windows: of the inputs, then of what is read and written, then of the outputs.
        kinds: what each of them is.
        core_axis: dimension of the kernel's grid whose programs share the steps.
        semantics: one for each dimension of the grid.
        trace_scopes: whether its phases are spans of the profile.
        no_pipelining: whether every copy is waited for at once.
    """

    builder: Builder
    body: Callable[..., object]
    grid: Grid
    windows: tuple[Window, ...]
    kinds: tuple[BufferType, ...]
    core_axis: int | None
    semantics: tuple[DimensionSemantics, ...]
    trace_scopes: bool
    no_pipelining: bool

    def __call__(self, *refs: RefLike, scratches: Sequence[RefLike] = ()) -> None:
        """Run the pipeline.

        Args:
            refs: one a window, in order: whole refs or views, in any memory space.
            scratches: more refs that the body gets after its blocks.

        Raises:
            ArityError: another number of refs than of windows.
            WindowError: a window does not fit its ref or the grid.
        """
        b = self.builder
        if len(refs) != len(self.windows):
            b.fail(
                ArityError,
                f"{len(refs)} refs for {len(self.windows)} windows",
                op=_OP,
                hint="inputs, what is read and written, outputs: one a window",
            )
        views = tuple(b.pallas._view(r, _OP) for r in refs)
        with b.pallas._one_line():
            _Run(self, views, tuple(scratches)).run()


class _Run:
    """One call of a pipeline."""

    def __init__(self, pipeline: Pipeline, refs: tuple[RefView, ...], scratches: tuple[RefLike, ...]) -> None:
        self.pipeline, self.refs, self.scratches = pipeline, refs, scratches
        self.b = pipeline.builder
        self.st = Staging(self.b, named=pipeline.trace_scopes)
        self.grid, self.offsets = _share(self.st, pipeline)

    def run(self) -> None:
        """Allocate, and run in that region."""
        st = self.st
        steps = st.product(self.grid)
        described = [self._describe(n) for n in range(len(self.refs))]
        self.stages = max([2, *(self._stages(n, d) for n, d in enumerate(described))])
        self._pin(described)
        with self.b.region(), st.block():
            buffers = [d.allocate(r) for d, r in zip(described, self.refs, strict=True)]
            if self.pipeline.no_pipelining:
                self._run_in_order(steps, buffers)
            else:
                st.when(st.compare("gt", steps, 0), lambda: self._run_overlapped(steps, buffers))

    def _pin(self, buffers: list[Buffers]) -> None:
        """Make the static indices of the given views constants here: they are operands of the region.

        They come in the order in which the region first uses the views.
        """
        ordered = self.pipeline.no_pipelining
        first_use: list[int] = []
        for buffer in buffers:
            match buffer:
                case Buffers(count=0):
                    use = 2
                case Buffers(trivial=True) if not ordered:
                    use = 0 if buffer.is_input else 5
                case Buffers(in_count=count) if buffer.is_input and not ordered:
                    use = 1 if count > 1 else 3
                case _:
                    use = 3 if buffer.is_input else 4
            first_use.append(use)
        pinned = list(self.refs)
        for number in sorted(range(len(pinned)), key=lambda n: first_use[n]):
            pinned[number] = self.b.pallas._pinned(pinned[number])
        self.refs = tuple(pinned)

    # --- buffers ------------------------------------------------------------------------------------------------------

    def _describe(self, number: int) -> Buffers:
        """The buffers of a ref, not allocated yet."""
        b, window, ref = self.b, self.pipeline.windows[number], self.refs[number]
        block = read_block(b, window, len(ref.shape))
        kind = self.pipeline.kinds[number]
        counts, lookahead = self._count(window, kind)
        # Only what Pallas allocates itself is looked at; a ref that is read and written the caller allocates.
        trivial = kind is not BufferType.INPUT_OUTPUT and self._is_trivial(block, ref)
        if block.dims is None:
            block = replace(block, dims=tuple(ref.shape))
        incoming, outgoing = counts or self._default_counts(kind, 1 if trivial else 2)
        source = ref.ref._info.space
        if block.space is MemorySpace.HBM and source not in (MemorySpace.ANY, MemorySpace.HBM):
            b.fail(MemorySpaceError, "blocks in hbm of a ref elsewhere", op=_OP, operands=[ref.ref], hint="vmem blocks")
        if source is block.space or block.space is MemorySpace.HBM:
            return Buffers(self.st, block, kind, 0, 0, 0, trivial)
        slots = incoming
        if PIPELINE_BUFFERS_OUTPUTS:
            slots = incoming + outgoing - (kind is BufferType.INPUT_OUTPUT)
        rank = len(self.grid) if lookahead else None
        return Buffers(self.st, block, kind, incoming, outgoing, slots, trivial, rank)

    def _default_counts(self, kind: BufferType, count: int) -> tuple[int, int]:
        """Slots in and out, of a number of buffers; before JAX 0.12 there was one number for both."""
        if not PIPELINE_BUFFERS_OUTPUTS:
            return count, count
        if kind is BufferType.INPUT_OUTPUT:
            return count, 1
        return (count, 0) if kind.is_input else (0, count)

    def _count(self, window: Window, kind: BufferType) -> tuple[tuple[int, int] | None, bool]:
        """Slots in and out, where the window says it, and whether it looks ahead."""
        b, mode = self.b, window.pipeline_mode
        if mode is None:
            return None, False
        if not isinstance(mode, Buffered):
            synchronous = b._member(PipelineMode, mode, _OP) is PipelineMode.SYNCHRONOUS
            mode = Buffered(1 if synchronous else 2)
        given = mode.buffer_count
        pair = isinstance(given, tuple)
        if isinstance(given, tuple):
            if kind is not BufferType.INPUT_OUTPUT or len(given) != 2 or not PIPELINE_BUFFERS_OUTPUTS:
                b.fail(
                    AttributeValueError,
                    f"{given} buffers",
                    op=_OP,
                    hint="a pair is for inout_specs, since JAX 0.12; elsewhere give one number",
                )
            incoming, outgoing = b._ints(given, _OP, "numbers of buffers")
        else:
            incoming, outgoing = self._default_counts(kind, b._int(given, _OP, "number of buffers"))
        if (kind.is_input and incoming < 1) or (kind.is_output and outgoing < 1):
            b.fail(AttributeValueError, f"{given} buffers", op=_OP, hint="1 or more")
        if kind.is_output and outgoing > 2 and not PIPELINE_BUFFERS_OUTPUTS:
            b.fail(AttributeValueError, f"{given} buffers of an output", op=_OP, hint="JAX 0.11 has 2 at most")
        lookahead = b._flag(mode.use_lookahead, _OP, "use_lookahead")
        if lookahead and (kind.is_output or pair):
            b.fail(AttributeValueError, "lookahead of an output", op=_OP, hint="inputs look ahead")
        return (incoming, outgoing), lookahead

    def _stages(self, number: int, buffers: Buffers) -> int:
        if PIPELINE_BUFFERS_OUTPUTS:
            return max(buffers.in_count, buffers.out_count)
        counts, _ = self._count(self.pipeline.windows[number], buffers.kind)
        return 2 if counts is None else counts[0]

    def _is_trivial(self, block: Block, ref: RefView) -> bool:
        """Whether every step has the whole ref."""
        if block.dims is None:
            return True
        if block.dims != ref.shape:
            return False
        moving = [n for n, g in enumerate(self.grid) if not isinstance(g, int) or g != 1]
        if block.index_map is None or not moving:
            return True
        i32 = self.b.types.scalar(dt.i32)
        with nowhere(self.b, [i32] * len(self.grid)) as (region, ids):
            returned = block.index_map(*ids)
            moved = [ids[n] for n in moving]
            used = any(_is_used(i) for i in moved) or any(e is i for e in entries_of(returned) for i in moved)
            return not used and not any(_reads(op.operation) for op in region.operations)

    # --- the schedule -------------------------------------------------------------------------------------------------

    def _scheduler(self, step: Staged, indices: Indices) -> Scheduler:
        return Scheduler(self.st, step, indices, self.grid, self.offsets, self.stages)

    def _each(self, buffers: list[Buffers], phase: Callable[[Buffers, RefView], Buffers]) -> list[Buffers]:
        return [phase(buffer, ref) for buffer, ref in zip(buffers, self.refs, strict=True)]

    def _run_overlapped(self, steps: Staged, allocated: list[Buffers]) -> None:
        st = self.st
        start: Indices = (first_index(self.st),) * len(self.grid)
        scheduler = self._scheduler(0, start)
        buffers = [buffer.start() for buffer in allocated]
        for buffer, ref in zip(buffers, self.refs, strict=True):
            if buffer.is_input and buffer.trivial and buffer.window is not None:
                buffer.copy_whole(ref, start, inwards=True)
        with self._grid(scheduler.indices):
            for ahead in range(self.stages - 1):
                buffers = self._each(buffers, lambda buffer, ref, n=ahead: scheduler.initialize(buffer, ref, n))
        buffers, after = self._loop(steps, buffers, start, self._step)
        last = previous_index(st, after, self.grid)
        scheduler = self._scheduler(st.sub(steps, 1), last)
        with self._grid(scheduler.indices):
            for lag in range(self.stages - 2, -1, -1) if PIPELINE_BUFFERS_OUTPUTS else (0,):
                buffers = self._each(buffers, lambda buffer, ref, n=lag: scheduler.finalize(buffer, ref, n))
        for buffer, ref in zip(buffers, self.refs, strict=True):
            if buffer.is_output and buffer.trivial and buffer.window is not None:
                buffer.copy_whole(ref, start, inwards=False)

    def _step(self, step: Value, indices: Indices, buffers: list[Buffers]) -> list[Buffers]:
        scheduler = self._scheduler(step, indices)
        with self._grid(scheduler.indices):
            bound = self._each(buffers, lambda buffer, ref: buffer.bind(ref, scheduler.indices))
            bound = self._each(bound, scheduler.copy_in)
            bound = self._each(bound, scheduler.wait_in)
            self._run_body(bound)
            bound = self._each(bound, scheduler.copy_out)
            bound = self._each(bound, scheduler.wait_out)
            return self._each(bound, scheduler.advance)

    def _run_in_order(self, steps: Staged, allocated: list[Buffers]) -> None:
        buffers = [buffer.start() for buffer in allocated]
        self._loop(steps, buffers, (first_index(self.st),) * len(self.grid), self._step_in_order)

    def _step_in_order(self, step: Value, indices: Indices, buffers: list[Buffers]) -> list[Buffers]:
        scheduler = self._scheduler(step, indices)
        with self._grid(scheduler.indices):
            bound = self._each(buffers, lambda buffer, ref: buffer.bind(ref, scheduler.indices))
            for buffer, ref in zip(bound, self.refs, strict=True):
                if buffer.is_input:
                    buffer.copy_whole(ref, indices, inwards=True)
            self._run_body(bound)
            for buffer, ref in zip(bound, self.refs, strict=True):
                if buffer.is_output:
                    buffer.copy_whole(ref, indices, inwards=False)
        return bound

    def _run_body(self, buffers: list[Buffers]) -> None:
        blocks = [buffer.current() for buffer in buffers]
        with self.st.scope("ep_run_kernel"):
            line, self.b._line = self.b._line, None
            try:
                self.st.lazily(lambda: called(_OP, self.pipeline.body, *blocks, *self.scratches))
            finally:
                self.b._line = line

    @contextmanager
    def _grid(self, indices: Indices) -> Generator[None]:
        """`pl.program_id` and `pl.num_programs` are of the pipeline's grid."""
        p = self.b.pallas
        outer, p._pipeline_grid = p._pipeline_grid, (indices, self.grid)
        try:
            yield
        finally:
            p._pipeline_grid = outer

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _loop(
        self,
        steps: Staged,
        buffers: list[Buffers],
        indices: Indices,
        run_step: Callable[[Value, Indices, list[Buffers]], list[Buffers]],
    ) -> tuple[list[Buffers], Indices]:
        """The steps in turn: what is carried are the counts of every ref's copies, and the indices."""
        b, st = self.b, self.st
        start = [*_counts(buffers), *indices]
        infos = [_info(b, n) for n in start]

        def body(step: Value, carried: list[Value]) -> list[Value]:
            with st.block():
                found, here = _with_counts(buffers, carried)
                here = keep_moving(st, here, self.grid)
                found = run_step(step, here, found)
                yields = [*_counts(found), *next_index(st, here, self.grid)]
            return [st.value(n) for n in yields]

        starts = [lambda n=n: st.value(n) for n in start]
        if isinstance(steps, Value):
            results = dynamic_loop(b, lambda: st.value(0), lambda: steps, starts, infos, body, st.sync)
        else:
            assert isinstance(steps, int)
            st.sync()
            results = static_loop(b, steps, starts, infos, body)
        return _with_counts(buffers, results)


def _info(b: Builder, number: Staged) -> TypeInfo:
    return b.types.scalar(dt.i32 if isinstance(number, int) else number.dtype)


def _counts(buffers: Sequence[Buffers]) -> list[Staged]:
    found: list[Staged] = []
    for buffer in buffers:
        found += [n for name in _COUNTS if (n := getattr(buffer, name)) is not None]
        found += buffer.next_fetch or ()
    return found


def _with_counts(buffers: Sequence[Buffers], values: Sequence[Value]) -> tuple[list[Buffers], Indices]:
    """The buffers with these counts, and what is left over: the indices."""
    left = iter(values)
    found: list[Buffers] = []
    for buffer in buffers:
        counts: dict[str, Any] = {n: next(left) for n in _COUNTS if getattr(buffer, n) is not None}
        if buffer.next_fetch is not None:
            counts["next_fetch"] = tuple(next(left) for _ in buffer.next_fetch)
        found.append(replace(buffer, **counts))
    return found, tuple(left)


def _is_used(value: Value) -> bool:
    return next(iter(value.ir.uses), None) is not None


def _reads(operation: Any) -> bool:
    """Whether an op reads a ref."""
    return operation.name in ("memref.load", "vector.load")


def _share(st: Staging, pipeline: Pipeline) -> tuple[Grid, Grid]:
    """This core's part of the grid, and where it begins."""
    b, grid, axis = pipeline.builder, pipeline.grid, pipeline.core_axis
    offsets: list[Staged] = [0] * len(grid)
    if axis is None:
        return grid, tuple(offsets)
    cores, core = b.pallas.num_programs(axis), b.pallas.program_id(axis)
    if isinstance(cores, Value):
        b.fail(WindowError, "the number of cores is known at run time only", op=_OP, hint="a static grid of cores")
    if cores == 1:
        return grid, tuple(offsets)
    along = [n for n, s in enumerate(pipeline.semantics) if s is DimensionSemantics.PARALLEL]
    if not along:
        b.fail(
            WindowError,
            "no dimension of the grid is parallel",
            op=_OP,
            hint='dimension_semantics=("parallel", …) says which one the cores share',
        )
    shared = list(grid)
    for n in along:
        size = grid[n]
        if isinstance(size, int) and size % cores == 0:
            shared[n], offsets[n] = size // cores, st.mul(core, size // cores)
            return tuple(shared), tuple(offsets)
    moving = [n for n in along if not isinstance(grid[n], int)]
    fixed = [size for n in along if isinstance(size := grid[n], int)]
    if moving:
        b.fail(WindowError, "cores share a dimension known at run time only", op=_OP, hint="share a static dimension")
    n = next(n for n in along if grid[n] == max(fixed))
    each, rest = divmod(max(fixed), cores)
    shared[n] = st.where(st.compare("lt", core, rest), each + 1, each)
    less = st.compare("lt", core, rest)
    first = st.mul(core, shared[n])
    offsets[n] = st.where(less, first, st.add(st.mul(core, each), rest))
    return tuple(shared), tuple(offsets)


class PipelineIdioms(ControlIdioms):
    """Pipelines inside a kernel."""

    #: Indices and sizes of the pipeline whose body is being built.
    _pipeline_grid: tuple[Indices, Grid] | None = None

    @idiom(
        "pltpu.emit_pipeline(body, grid=…, in_specs=…, out_specs=…)(*refs)",
        "tpu.region",
        "memref.alloca",
        "tpu.sem_alloc",
        "scf.for",
        "tpu.enqueue_dma",
        "tpu.wait_dma",
        group="pipelines",
        traits=("region", "dma"),
    )
    def emit_pipeline(
        self,
        body: Callable[..., object],
        *,
        grid: Sequence[Value | int],
        in_specs: Sequence[Window] = (),
        out_specs: Sequence[Window] = (),
        inout_specs: Sequence[Window] = (),
        core_axis: int | None = None,
        dimension_semantics: Sequence[DimensionSemantics | str] | None = None,
        trace_scopes: bool = True,
        no_pipelining: bool = False,
    ) -> Pipeline:
        """`pltpu.emit_pipeline`: call what it returns with the refs.

        Args:
            body: called once, with a view of the current block of every ref, in order, then the scratch refs.
                `program_id` and `num_programs` in it are of this grid.
            grid: positive ints and i32 values; the last dimension moves fastest.
            in_specs: a `Window` an input: sizes, ``None`` and `BoundedSlice` as block dimensions, ``Buffered(n)`` as
                pipeline mode, vmem, smem or hbm as memory space.
                A window that several refs share has its index map computed once for all, as a `pl.BlockSpec` has.
            out_specs: the same, an output; two buffers at most before JAX 0.12.
            inout_specs: the same, a ref that is read and written, between the inputs and the outputs; since JAX 0.12
                ``Buffered((in, out))`` too. In Pallas the caller allocates these, and then all others:
                ``allocations=[pltpu.BufferedRef.input_output(…), …]``, of a run_scoped around the pipeline.
            core_axis: the dimension of the kernel's grid whose programs share a parallel dimension of this one.
            dimension_semantics: ``parallel`` or ``arbitrary`` for each dimension; they matter with `core_axis` only.
            trace_scopes: whether the phases are spans of the profile.
            no_pipelining: copy and wait, block by block, to find errors.

        Blocks that do not divide the ref are rounded up to the tiles of a TPU v4 or later. Not here:
        buffers that outlive the pipeline, prefetched buffers, indirect blocks and SparseCore tilings.

        Raises:
            WindowError: a window or an index map does not fit its ref or the grid.
            AttributeValueError: a number of buffers that JAX does not have.
            ArityError: another number of refs than of windows, or of semantics than of dimensions.

        Example:
            >>> def add_one(block, result):
            ...     result[...] = block[...] + 1.0
            >>> rows = Window((2, 128), lambda i: (i, 0))
            >>> b.pallas.emit_pipeline(add_one, grid=(4,), in_specs=[rows], out_specs=[rows])(a.hbm, a.hbm)
        """
        b = self._b
        self._callable(_OP, body)
        for given in (grid, in_specs, inout_specs, out_specs):
            b._sequence(given, _OP)
        bounds = tuple(self._bound(g) for g in grid)
        semantics = self._pipeline_semantics(dimension_semantics, len(bounds))
        axis = None if core_axis is None else b._int(core_axis, _OP, "core axis")
        named, ordered = b._flag(trace_scopes, _OP, "trace_scopes"), b._flag(no_pipelining, _OP, "no_pipelining")
        windows = (*in_specs, *inout_specs, *out_specs)
        kinds = (
            *[BufferType.INPUT] * len(in_specs),
            *[BufferType.INPUT_OUTPUT] * len(inout_specs),
            *[BufferType.OUTPUT] * len(out_specs),
        )
        return Pipeline(b, body, bounds, windows, kinds, axis, semantics, named, ordered)

    def _bound(self, bound: Value | int) -> Staged:
        b = self._b
        if not isinstance(bound, Value):
            found = b._int(bound, _OP, "bound of the grid")
            if not 0 < found < 1 << 31:
                b.fail(WindowError, f"a grid of {found} steps", op=_OP, hint="bounds are positive")
            return found
        b._use(bound, _OP)
        if bound._info is not b.types.scalar(dt.i32):
            b.fail(
                KindError, "bounds of the grid are i32 scalars", op=_OP, operands=[bound], hint="b.index_cast(v, i32)"
            )
        return bound

    def _pipeline_semantics(
        self, given: Sequence[DimensionSemantics | str] | None, rank: int
    ) -> tuple[DimensionSemantics, ...]:
        b = self._b
        if given is None:
            return (DimensionSemantics.ARBITRARY,) * rank
        b._sequence(given, _OP)
        found = tuple(b._member(DimensionSemantics, s, _OP) for s in given)
        if len(found) != rank:
            b.fail(ArityError, f"{len(found)} semantics for a grid of rank {rank}", op=_OP, hint="give one a dimension")
        return found

    # --- program ids --------------------------------------------------------------------------------------------------

    @idiom("pl.program_id(axis)", group="control")
    def program_id(self, axis: int) -> Value:
        """`pl.program_id`: the declared id, or the index of the pipeline whose body this is.

        Args:
            axis: dimension of the grid.

        Raises:
            ArityError: the grid has no such dimension.

        Example:
            >>> b.pallas.program_id(0).dtype
            i32
        """
        b = self._b
        axis = b._int(axis, "program_id", "axis")
        if self._pipeline_grid is not None:
            ids: Sequence[Staged] = self._pipeline_grid[0]
        else:
            declared = b.signature.arguments if b.signature is not None else ()
            count = sum(a.role is None for a in declared)
            root = b._root
            block: IrBlock = None if root is None else root.block
            ids = [] if root is None else [Value(block.arguments[n], declared[n].info, root) for n in range(count)]
        self._check_axis("program_id", axis, len(ids))
        found = ids[axis]
        return found if isinstance(found, Value) else Staging(b).value(found)

    @idiom("pl.num_programs(axis)", group="control")
    def num_programs(self, axis: int) -> Value | int:
        """`pl.num_programs`: a Python int, or a value where the grid is known at run time only.

        Args:
            axis: dimension of the grid.

        Raises:
            ArityError: the grid has no such dimension.

        Example:
            >>> b.pallas.num_programs(0)
            4
        """
        b = self._b
        axis = b._int(axis, "num_programs", "axis")
        sizes: Sequence[Staged | None] = ()
        if self._pipeline_grid is not None:
            sizes = self._pipeline_grid[1]
        elif b.signature is not None:
            sizes = b.signature.grid or ()
        self._check_axis("num_programs", axis, len(sizes))
        found = sizes[axis]
        assert not isinstance(found, Literal)
        return b.iteration_bound(axis) if found is None else found

    def _check_axis(self, op: str, axis: int, rank: int) -> None:
        if not 0 <= axis < rank:
            self._b.fail(ArityError, f"axis {axis} of a grid of rank {rank}", op=op, hint="axes count from 0")
