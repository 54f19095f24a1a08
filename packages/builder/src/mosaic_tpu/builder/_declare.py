"""From argument specs to ``func.func``: operand types, roles, ``window_params`` and ``transform_N`` functions.

The rules are those of Pallas's TPU lowering: ANY, HBM and semaphore operands get an empty window and no transform;
a VMEM window over the whole array is forced to be synchronous; each transform ends with a dead ``constant 0 : i32``.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Final, cast

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrBlock, ir
from mosaic_tpu.builder._core import Scope
from mosaic_tpu.builder._types import DYNAMIC, TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import (
    DimensionSemantics,
    MemorySpace,
    PipelineMode,
    RevisitMode,
    Role,
    SemaphoreKind,
)
from mosaic_tpu.builder.errors import ArgumentSpecError, MosaicError, WindowError
from mosaic_tpu.builder.specs import (
    ArgSpec,
    BoundedSlice,
    Buffered,
    ElementWindow,
    Iter,
    ProgramId,
    Ref,
    Scalar,
    Sem,
    SemArray,
    Window,
    Zero,
)
from mosaic_tpu.builder.views import squeezed

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

_NO_WINDOW: Final = (MemorySpace.ANY, MemorySpace.HBM, MemorySpace.SEMAPHORE_MEM)
_ROLE_ORDER: Final = {Role.SCALAR_PREFETCH: 0, Role.INPUT: 1, Role.OUTPUT: 2, Role.SCRATCH: 3}
_GRID_ROLE: Final = -1


@dataclass(frozen=True)
class Argument:
    """One declared argument: its spec, its type and where it stands."""

    name: str
    spec: ArgSpec
    info: TypeInfo
    role: Role | None

    @property
    def array_shape(self) -> tuple[int, ...]:
        """The shape of the array behind a ref, as declared; see `Signature.array_shape` for windows."""
        return self.spec.array_shape or self.spec.shape if isinstance(self.spec, Ref) else self.info.shape


@dataclass
class Signature:
    """Everything `declare_args` learned: the kernel's operands, results, grid and the shapes of their arrays."""

    arguments: tuple[Argument, ...]
    grid: tuple[int | None, ...] | None
    array_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def with_role(self, role: Role) -> tuple[Argument, ...]:
        """The arguments of one role, in order."""
        return tuple(a for a in self.arguments if a.role is role)


def describe(builder: Builder, args: Mapping[str, ArgSpec]) -> tuple[Argument, ...]:
    """Check the specs and give each its type; they must come in Pallas's order."""
    if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        builder.fail(
            ArgumentSpecError, f"{args!r} is not a mapping", op="declare_args", hint="dict(x=Ref(…), y=Ref(…))"
        )
    found: list[Argument] = []
    previous, previous_name = _GRID_ROLE, ""
    for name, spec in args.items():
        if not isinstance(name, str) or not name.isidentifier():  # pyright: ignore[reportUnnecessaryIsInstance]
            builder.fail(
                ArgumentSpecError, f"{name!r} is not a Python name", op="declare_args", hint="rename the argument"
            )
        argument = _describe(builder, name, spec)
        order = _GRID_ROLE if argument.role is None else _ROLE_ORDER[argument.role]
        if order < previous:
            builder.fail(
                ArgumentSpecError,
                f"{name!r} stands after {previous_name!r}",
                op="declare_args",
                hint="order: program ids, scalar_prefetch, inputs, outputs, scratch and semaphores",
            )
        previous, previous_name = order, name
        found.append(argument)
    return tuple(found)


def _describe(builder: Builder, name: str, spec: ArgSpec) -> Argument:
    types = builder.types
    match spec:
        case Scalar(dtype):
            return Argument(name, spec, types.scalar(builder._data_type(dtype, "declare_args")), None)
        case Iter():
            return Argument(name, spec, types.index, None)
        case Ref():
            return _describe_ref(builder, name, spec)
        case Sem(kind):
            info = types.ref((), _semaphore(builder, kind), MemorySpace.SEMAPHORE_MEM)
            return Argument(name, spec, info, Role.SCRATCH)
        case SemArray(shape, kind):
            sizes = _sizes(builder, name, shape)
            info = types.ref(sizes, _semaphore(builder, kind), MemorySpace.SEMAPHORE_MEM)
            return Argument(name, spec, info, Role.SCRATCH)
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            builder.fail(
                ArgumentSpecError,
                f"{name!r} is a {type(spec).__name__}",
                op="declare_args",
                hint="use Scalar, Iter, Ref, Sem or SemArray",
            )


def _semaphore(builder: Builder, kind: SemaphoreKind | str) -> dt.DType:
    member = builder._member(SemaphoreKind, kind, "declare_args")
    return dt.dma_semaphore if member is SemaphoreKind.DMA else dt.semaphore


def _sizes(builder: Builder, name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        return builder._shape(shape, "declare_args")
    except MosaicError as error:
        builder.fail(
            ArgumentSpecError,
            f"{name!r}: {error.summary}",
            op="declare_args",
            hint="sizes are positive ints; derive them from the config",
        )


def _describe_ref(builder: Builder, name: str, spec: Ref) -> Argument:
    shape = _sizes(builder, name, spec.shape)
    space = builder._member(MemorySpace, spec.memory_space, "declare_args")
    role = builder._member(Role, spec.role, "declare_args")
    if spec.array_shape is not None:
        _sizes(builder, name, spec.array_shape)
    if spec.window is not None:
        if not isinstance(spec.window, Window):  # pyright: ignore[reportUnnecessaryIsInstance]
            builder.fail(
                WindowError,
                f"the window of {name!r} is {spec.window!r}",
                op="declare_args",
                hint="Window(block_shape, index_map)",
            )
        if role in (Role.SCALAR_PREFETCH, Role.SCRATCH):
            builder.fail(
                WindowError,
                f"{name!r} is {role.value} and cannot have a window",
                op="declare_args",
                hint="windows belong to inputs and outputs",
            )
        shape = _check_block(builder, name, spec.window, shape)
    dtype = builder._dtype(spec.dtype, "declare_args")
    if dtype is dt.index:
        builder.fail(ArgumentSpecError, f"{name!r} holds index values", op="declare_args", hint="use i32 elements")
    return Argument(name, spec, builder.types.ref(shape, dtype, space), role)


def _check_block(builder: Builder, name: str, window: Window, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the block in memory: a squeezed dimension has size 1 there."""
    if window.memory_space is not None:
        builder.fail(
            WindowError,
            f"the window of {name!r} names a memory space",
            op="declare_args",
            hint="Ref(…, memory_space=…) says it; a window's is for b.pallas.emit_pipeline",
        )
    block = window.block_shape
    if block is None:
        return shape
    builder._sequence(block, "declare_args")
    if any(isinstance(d, BoundedSlice) for d in block):
        builder.fail(
            WindowError,
            f"{name!r} has a BoundedSlice",
            op="declare_args",
            hint="only b.pallas.emit_pipeline copies parts of blocks",
        )
    seen = _sizes(builder, name, [d for d in block if d is not None])  # pyright: ignore[reportArgumentType]
    if seen != shape:
        builder.fail(
            WindowError,
            f"{name!r} is a ref of shape {shape} with blocks of {tuple(block)}",
            op="declare_args",
            hint="Ref.shape is the block the kernel sees; give the whole array's shape as array_shape=",
        )
    return tuple(1 if d is None else d for d in block)  # pyright: ignore[reportReturnType]


def seen(argument: Argument, value: Value) -> Value:
    """What the kernel gets: of a block with squeezed dimensions, a view without them."""
    window = argument.spec.window if isinstance(argument.spec, Ref) else None
    block = window.block_shape if window is not None else None
    if block is None or None not in block:
        return value
    return cast("Value", squeezed(value, [d is None for d in block]))


def function_attributes(
    builder: Builder,
    signature: Signature,
    semantics: Sequence[DimensionSemantics],
    transforms: Sequence[ir.Attribute] | None,
) -> dict[str, ir.Attribute]:
    """The Pallas attributes of the kernel's function."""
    types = builder.types
    attributes: dict[str, ir.Attribute] = {
        "dimension_semantics": ir.ArrayAttr.get([types.parse(s.mlir) for s in semantics], types.context),
        "scalar_prefetch": types.integer(len(signature.with_role(Role.SCALAR_PREFETCH)), 64),
        "scratch_operands": types.integer(len(signature.with_role(Role.SCRATCH)), 64),
    }
    if signature.grid is not None:
        attributes["iteration_bounds"] = types.dense([DYNAMIC if g is None else g for g in signature.grid], 64)
    if transforms is not None:
        attributes["window_params"] = ir.ArrayAttr.get(list(transforms), types.context)
    return attributes


def emit_windows(builder: Builder, signature: Signature, module: ir.Block, unused_zero: bool) -> list[ir.Attribute]:
    """One window dictionary an input and output, and the ``transform_N`` functions they name."""
    windows: list[ir.Attribute] = []
    operands = (*signature.with_role(Role.INPUT), *signature.with_role(Role.OUTPUT))
    for number, argument in enumerate(operands):
        if argument.info.space in _NO_WINDOW:
            _check_no_window(builder, argument)
            signature.array_shapes[argument.name] = argument.array_shape
            windows.append(ir.DictAttr.get({}, builder.types.context))
            continue
        windows.append(_emit_window(builder, signature, argument, f"transform_{number}", module, unused_zero))
    return windows


def _check_no_window(builder: Builder, argument: Argument) -> None:
    assert isinstance(argument.spec, Ref)
    if argument.spec.window is not None and not _is_trivial_map(argument.spec.window):
        space = MemorySpace.of(argument.info.space).value
        builder.fail(
            WindowError,
            f"{argument.name!r} is in {space} and cannot be windowed",
            op="declare_args",
            hint="drop the window and copy with enqueue_dma, or use vmem",
        )


def _is_trivial_map(window: Window) -> bool:
    if window.transform_returns is not None:
        return all(isinstance(r, Zero) for r in window.transform_returns)
    return window.index_map is None


def _index_map(builder: Builder, argument: Argument, grid_rank: int) -> Callable[..., Sequence[Any]]:
    """The index map as a callable over program ids and prefetch refs."""
    assert isinstance(argument.spec, Ref)
    window = argument.spec.window or Window()
    rank = len(argument.info.shape)
    if window.transform_returns is not None:
        if window.index_map is not None:
            builder.fail(
                WindowError,
                f"{argument.name!r} has an index_map and transform_returns",
                op="declare_args",
                hint="give one of the two",
            )
        returns = window.transform_returns
        builder._sequence(returns, "declare_args")
        for r in returns:
            if not isinstance(r, ProgramId | Zero):  # pyright: ignore[reportUnnecessaryIsInstance]
                builder.fail(
                    WindowError,
                    f"{argument.name!r} returns {r!r}",
                    op="declare_args",
                    hint="transform_returns holds program_id(axis) and zero",
                )
            if isinstance(r, ProgramId) and (type(r.axis) is not int or not 0 <= r.axis < grid_rank):
                builder.fail(
                    WindowError,
                    f"{argument.name!r} names program id {r.axis!r} of a grid of rank {grid_rank}",
                    op="declare_args",
                    hint="program ids count the grid's dimensions from 0",
                )
        return lambda *ids: tuple(ids[r.axis] if isinstance(r, ProgramId) else 0 for r in returns)
    if window.index_map is None:
        return lambda *ids: (0,) * rank
    if not callable(window.index_map):
        builder.fail(
            WindowError,
            f"the index map of {argument.name!r} is {window.index_map!r}",
            op="declare_args",
            hint="a function of the program ids",
        )
    return _trim(window.index_map, grid_rank)


def _trim(index_map: Callable[..., Sequence[Any]], grid_rank: int) -> Callable[..., Sequence[Any]]:
    """Call without the prefetch refs when the index map takes program ids only."""
    try:
        parameters = inspect.signature(index_map).parameters.values()
    except ValueError:  # a builtin without a signature
        return index_map
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return index_map
    count = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    return (lambda *args: index_map(*args[:grid_rank])) if count == grid_rank else index_map


def _emit_window(
    builder: Builder, signature: Signature, argument: Argument, symbol: str, module: ir.Block, unused_zero: bool
) -> ir.Attribute:
    assert isinstance(argument.spec, Ref) and signature.grid is not None
    types, window, block = builder.types, argument.spec.window or Window(), argument.info.shape
    index_map = _index_map(builder, argument, len(signature.grid))
    indices = _emit_transform(builder, signature, argument, index_map, symbol, module, unused_zero)
    constant_zero = all(isinstance(i, int) and i == 0 for i in indices)
    shape = _array_shape(builder, signature, argument, index_map, indices)
    signature.array_shapes[argument.name] = shape
    params: dict[str, ir.Attribute] = {
        "window_bounds": types.dense(block, 64),
        "transform_indices": ir.FlatSymbolRefAttr.get(symbol, types.context),
    }
    if window.element_window is not None:
        element = window.element_window
        if not isinstance(element, ElementWindow):  # pyright: ignore[reportUnnecessaryIsInstance]
            builder.fail(
                WindowError,
                f"the element window of {argument.name!r} is {element!r}",
                op="declare_args",
                hint="ElementWindow(pad_low, pad_high)",
            )
        low = list(builder._ints(element.pad_low, "declare_args", "paddings"))
        high = list(builder._ints(element.pad_high, "declare_args", "paddings"))
        if not len(low) == len(high) == len(block) or any(p < 0 for p in (*low, *high)):
            builder.fail(
                WindowError,
                f"{argument.name!r} has paddings {low} and {high}",
                op="declare_args",
                hint=f"give {len(block)} a side, 0 or more",
            )
        params["window_kind"] = types.parse(f"#tpu.element_window<{low},{high}>")
    mode = None
    if window.pipeline_mode is not None:
        mode = _pipeline_mode(builder, argument, window.pipeline_mode)
    trivial = constant_zero and shape == block
    if trivial and argument.info.space is MemorySpace.VMEM:
        mode = PipelineMode.SYNCHRONOUS
    if mode is not None:
        params["pipeline_mode"] = types.parse(f"#tpu.pipeline_mode<{mode.value}>")
    if window.revisit_mode is not None:
        revisit = builder._member(RevisitMode, window.revisit_mode, "declare_args")
        if mode is None:
            builder.fail(
                WindowError,
                f"{argument.name!r} has a revisit mode but no pipeline mode",
                op="declare_args",
                hint="give pipeline_mode too",
            )
        if revisit is RevisitMode.ANY and mode is PipelineMode.DOUBLE_BUFFERED:
            builder.fail(
                WindowError,
                f"{argument.name!r}: revisit mode any needs one buffer",
                op="declare_args",
                hint='use pipeline_mode="synchronous"',
            )
        params["revisit_mode"] = types.parse(f"#tpu.revisit_mode<{revisit.value}>")
    return ir.DictAttr.get(params, types.context)


def _pipeline_mode(builder: Builder, argument: Argument, mode: PipelineMode | Buffered | str) -> PipelineMode:
    if not isinstance(mode, Buffered):
        return builder._member(PipelineMode, mode, "declare_args")
    known = {1: PipelineMode.SYNCHRONOUS, 2: PipelineMode.DOUBLE_BUFFERED}
    found = None if isinstance(mode.buffer_count, tuple) or mode.use_lookahead else known.get(mode.buffer_count)
    if found is None:
        builder.fail(
            WindowError,
            f"{argument.name!r} has {mode.buffer_count!r} buffers{' with lookahead' if mode.use_lookahead else ''}",
            op="declare_args",
            hint="1 or 2 buffers; b.pallas.emit_pipeline has more, and lookahead",
        )
    return found


def _emit_transform(
    builder: Builder,
    signature: Signature,
    argument: Argument,
    index_map: Callable[..., Sequence[Any]],
    symbol: str,
    module: ir.Block,
    unused_zero: bool,
) -> Sequence[Any]:
    """Emit ``transform_N`` and return what the index map returned, ints and values."""
    types = builder.types
    grid = tuple(a for a in signature.arguments if a.role is None)
    inputs = (*grid, *signature.with_role(Role.SCALAR_PREFETCH))
    i32 = types.scalar(dt.i32)
    rank = len(argument.info.shape)
    with builder.function(symbol, [a.info for a in inputs], [i32] * rank, {}, module) as (scope, values):
        try:
            returned = index_map(*values)
        except MosaicError:
            raise
        except Exception as error:
            builder.fail(
                WindowError,
                f"the index map of {argument.name!r} raised {type(error).__name__}: {error}",
                op="declare_args",
                hint="it is called with the program ids and the prefetch refs",
            )
        if not isinstance(returned, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            returned = (returned,)
        if len(returned) != rank:
            builder.fail(
                WindowError,
                f"the index map of {argument.name!r} returned {len(returned)} indices for rank {rank}",
                op="declare_args",
                hint="return one index a dimension",
            )
        results = [_index_result(builder, argument, r, i32) for r in returned]
        if unused_zero:
            builder._constant(0, i32)
        builder._emit_void("func.return", [r._ir for r in results])
        del scope
    return returned


def _index_result(builder: Builder, argument: Argument, value: Any, i32: TypeInfo) -> Value:
    if isinstance(value, Value):
        builder._use(value, "index_map")
        if value._info.ir is not i32.ir:
            builder.fail(
                WindowError,
                f"the index map of {argument.name!r} returned {value._info}",
                op="declare_args",
                hint="indices are ints or i32 scalars",
            )
        return value
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        builder.fail(
            WindowError,
            f"the index map of {argument.name!r} returned {value!r}",
            op="declare_args",
            hint="indices are ints or i32 scalars",
        )
    return builder._constant(number, i32)


def _array_shape(
    builder: Builder,
    signature: Signature,
    argument: Argument,
    index_map: Callable[..., Sequence[Any]],
    indices: Sequence[Any],
) -> tuple[int, ...]:
    """The array's shape: given, or the smallest that the blocks of the grid's corners cover."""
    assert isinstance(argument.spec, Ref) and signature.grid is not None
    spec, block = argument.spec, argument.info.shape
    if spec.array_shape is not None:
        shape = tuple(spec.array_shape)
        if len(shape) != len(block):
            builder.fail(
                WindowError,
                f"{argument.name!r} has blocks of rank {len(block)} and array_shape {shape}",
                op="declare_args",
                hint="the array and its blocks have one rank",
            )
        return shape
    if all(isinstance(i, int) for i in indices) or spec.window is None:
        return block
    scale = (1,) * len(block) if spec.window.element_window is not None else block
    corners = product(*({0} if g is None else {0, max(0, g - 1)} for g in signature.grid))
    try:
        blocks = [tuple(int(i) for i in index_map(*corner)) for corner in corners]
    except Exception:  # an index map may do anything; it is asked for the shape only as a convenience
        return block
    last = [max(b[d] for b in blocks) for d in range(len(block))]
    return tuple(n * s + b for n, s, b in zip(last, scale, block, strict=True))


def open_scope(builder: Builder, block: IrBlock, infos: Sequence[TypeInfo]) -> tuple[Scope, list[Value]]:
    """A scope over a function's entry block and its arguments as values."""
    scope = Scope(builder, block, None)
    return scope, [Value(a, i, scope) for a, i in zip(block.arguments, infos, strict=True)]
