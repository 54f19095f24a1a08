"""What ops do to memory and to each other: found before a function is generated."""

from __future__ import annotations

from mosaic_tpu.sim._module import Function, Module, Operation, Value
from mosaic_tpu.sim._registry import VIEWS, WAITS, WRITES
from mosaic_tpu.sim._types import DYNAMIC, Type


def _pure(op: Operation) -> bool:
    return bool(op.results) and op.name not in WRITES and not op.regions


def dead_ops(function: Function) -> set[int]:
    """Numbers of the ops whose results nothing uses: the compiler drops them, a load before a store for instance."""
    dead: set[int] = set()
    for op in reversed(list(function.operation.walk())):
        if _pure(op) and all(u.number in dead for r in op.results for u in r.users):
            dead.add(op.number)
    return dead


def deferred(op: Operation) -> bool:
    """Whether an op may be computed where its result is used: a product that is summed."""
    return op.name == "arith.mulf" and any(u.name == "vector.multi_reduction" for u in op.results[0].users)


def writes(op: Operation) -> bool:
    """Whether an op, or one inside it, writes memory."""
    return op.name in WRITES or any(writes(o) for region in op.regions for o in region.operations)


def base_of(value: Value) -> Value:
    """The argument or allocation that a memref is a view of."""
    while value.definition is not None and value.definition.name in VIEWS:
        value = value.definition.operands[0]
    return value


def root_of(value: Value) -> object:
    """The number of the argument or allocation that a memref is a view of."""
    return base_of(value).index


def guarded_roots(module: Module, function: Function) -> set[object]:
    """Memory that a DMA reads or writes: of a function that calls or is called, all that it names."""
    operations = list(function.operation.walk())
    if function.name in called(module) or any(op.name == "func.call" for op in operations):
        return {root_of(o) for op in operations for o in op.operands if o.type.kind == "memref"}
    found: set[object] = set()
    for op in operations:
        if op.name in ("tpu.enqueue_dma", "tpu.enqueue_indirect_dma"):
            found |= {root_of(o) for o in op.operands if o.type.kind == "memref" and not o.type.is_semaphore}
    return found


def callee(op: Operation) -> str:
    """The function that a ``func.call`` calls."""
    return op.attributes.text("callee").removeprefix("@").strip('"')


def called(module: Module) -> set[str]:
    """The functions that others call."""
    return {callee(op) for op in module.operations if op.name == "func.call"}


def waits(module: Module, function: Function) -> bool:
    """Whether a function may have to wait, itself or where it calls."""
    for op in function.operation.walk():
        if op.name == "func.call":
            if waits(module, module.functions[callee(op)]):
                return True
        elif op.name in WAITS:
            return True
    return False


def overhanging(function: Function) -> frozenset[object]:
    """Arguments in HBM whose slices have sizes of the run: they may reach into the padding of the last tile.

    `pltpu.emit_pipeline` rounds an array's last block up to whole tiles, which HBM holds in any case.
    """
    slices = [op for op in function.operation.walk() if op.name == "tpu.memref_slice"]
    roots = {root_of(op.operands[0]) for op in slices if DYNAMIC in op.result.type.shape}
    tiled = {a.index for a in function.arguments if a.type.space in ("any", "hbm") and len(a.type.shape) > 1}
    return frozenset(roots & tiled)


def whole_tiles(type_: Type) -> tuple[int, ...]:
    """The shape of an array with its last two dimensions rounded up to tiles."""
    *lead, rows, lanes = type_.shape
    sublanes = 8 * max(1, 32 // type_.bits)
    return (*lead, -(-rows // sublanes) * sublanes, -(-lanes // 128) * 128)
