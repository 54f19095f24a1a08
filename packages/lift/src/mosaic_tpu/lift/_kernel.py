"""The kernel's function as `declare_args` has it: arguments by role, grid, windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder import sanitize_name
from mosaic_tpu.lift._types import known
from mosaic_tpu.lift._windows import NO_WINDOW, IndexMap, WindowText, index_map, window_text
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    pass

_STORES: Final = ("vector.store", "tpu.vector_store", "tpu.strided_store", "memref.store", "tpu.store")
_ATTRIBUTES: Final = ("dimension_semantics", "iteration_bounds", "scalar_prefetch", "scratch_operands", "window_params")
_LARGEST_BOUND: Final = 1 << 31


@dataclass
class Declared:
    """A kernel that `declare_args` can declare.

    Attributes:
        ids: program ids.
        roles: of the other arguments, in order.
        grid: bounds; ``None`` for those that the call gives.
        semantics: one a dimension.
        windows: entries of ``window_params``; ``None`` where there is none.
        maps: the index maps of those.
        overridden: attributes that differ from what `declare_args` writes.
        covered: how many of the module's functions it emits.
    """

    ids: int
    roles: list[str]
    grid: tuple[int | None, ...] | None
    semantics: tuple[str, ...]
    windows: list[WindowText] | None
    maps: dict[int, IndexMap]
    overridden: dict[str, str | None]
    covered: int

    @property
    def unused_zero(self) -> bool:
        """Whether the index maps end with a constant that nothing takes."""
        return all(found.unused_zero for found in self.maps.values())


def declared(module: ir.Module, functions: Sequence[ir.Function], outputs: int | None) -> Declared | None:
    """How `declare_args` writes the first function; ``None`` if it cannot."""
    kernel = functions[0]
    attributes, types = kernel.attributes, [a.type for a in kernel.arguments]
    last = kernel.body.operations[-1]
    if sanitize_name(kernel.name) != kernel.name or not kernel.name or not all(map(known, types)):
        return None
    if last.name != "func.return" or last.operands or last.attributes.raw or kernel.body.owner is not kernel.operation:
        return None
    bounds = attributes.integers("iteration_bounds") if "iteration_bounds" in attributes else None
    prefetch, scratch = _count(kernel, "scalar_prefetch"), _count(kernel, "scratch_operands")
    ids = len(bounds or ()) if bounds else next((n for n, t in enumerate(types) if t.kind == "memref"), len(types))
    refs = types[ids:]
    if prefetch is None or scratch is None or prefetch + scratch > len(refs):
        return None
    if any(t.kind != "memref" or ir.DYNAMIC in t.shape for t in refs) or not _are_ids(types[:ids], bounds):
        return None
    operands = len(refs) - prefetch - scratch
    if outputs is None or not 0 <= outputs <= operands:
        outputs = _outputs(kernel, kernel.arguments[ids + prefetch : ids + prefetch + operands])
    roles = ["scalar_prefetch"] * prefetch + ["input"] * (operands - outputs) + ["output"] * outputs
    semantics = _semantics(kernel, bounds)
    if semantics is None or (bounds is not None and not bounds):
        return None
    grid = None if bounds is None else tuple(None if g == ir.DYNAMIC else g for g in bounds)
    found = Declared(ids, [*roles, *["scratch"] * scratch], grid, semantics, None, {}, {}, 1)
    read = _read_windows(found, module, functions, types, prefetch, operands) if "window_params" in attributes else True
    if not read:
        found.windows, found.maps, found.covered = None, {}, 1
    found.overridden = _overridden(kernel, found)
    if not read:
        found.overridden["window_params"] = attributes.text("window_params")
    return found


def _count(kernel: ir.Function, name: str) -> int | None:
    text = kernel.attributes.text(name, "0 : i64")
    number, _, element = text.partition(" : ")
    return int(number) if element == "i64" and number.isdigit() else None


def _are_ids(types: Sequence[ir.Type], bounds: tuple[int, ...] | None) -> bool:
    wanted = ("i32",) if bounds else ("i32", "index", "i1", "i8", "i16", "i64", "f32", "bf16")
    return all(t.kind == "scalar" and t.text in wanted for t in types)


def _semantics(kernel: ir.Function, bounds: tuple[int, ...] | None) -> tuple[str, ...] | None:
    prefix, end = "#tpu.dimension_semantics<", ">"
    found = kernel.attributes.array("dimension_semantics")
    if any(not text.startswith(prefix) for text in found) or (bounds is not None and len(found) != len(bounds)):
        return None
    return tuple(text.removeprefix(prefix).removesuffix(end) for text in found)


def _outputs(kernel: ir.Function, operands: Sequence[ir.Value]) -> int:
    """How many operands, from the last, the kernel writes."""
    written: set[ir.Value] = set()
    for op in kernel.operation.walk():
        if op.name == "tpu.enqueue_dma" and len(segments := op.segments()) > 2:
            written.update(ir.base_of(ref) for ref in segments[2])
        elif op.name in _STORES:
            written.update(ir.base_of(v) for v in op.operands[:2] if v.type.kind == "memref")
    count = 0
    for operand in reversed(operands):
        if operand not in written:
            break
        count += 1
    return count


def _read_windows(
    found: Declared,
    module: ir.Module,
    functions: Sequence[ir.Function],
    types: Sequence[ir.Type],
    prefetch: int,
    operands: int,
) -> bool:
    texts = functions[0].attributes.array("window_params")
    if found.grid is None or len(texts) != operands:
        return False
    first = found.ids + prefetch
    found.windows = []
    for number, (text, type_) in enumerate(zip(texts, types[first : first + operands], strict=True)):
        entry = window_text(text, type_.shape)
        if entry is None or (entry.symbol is None) != (type_.space in NO_WINDOW):
            return False
        found.windows.append(entry)
        if entry.symbol is None:
            continue
        if found.covered >= len(functions) or entry.symbol != f"transform_{number}":
            return False
        function = functions[found.covered]
        found.covered += 1
        mapped = index_map(function, types[:first], found.ids, len(type_.shape))
        if function.name != entry.symbol or mapped is None:
            return False
        if entry.revisit is not None and entry.mode is None:
            return False
        found.maps[number] = mapped
    return len({mapped.unused_zero for mapped in found.maps.values()}) < 2


def _overridden(kernel: ir.Function, found: Declared) -> dict[str, str | None]:
    """Attributes that `declare_args` writes otherwise, or not at all."""
    attributes = kernel.attributes
    changed: dict[str, str | None] = {}
    for name in ("dimension_semantics", "scalar_prefetch", "scratch_operands"):
        if name not in attributes:
            changed[name] = None
    for name, text in attributes.raw.items():
        if name in ("function_type", "sym_name", *_ATTRIBUTES, "tpu.core_type"):
            continue
        changed[name] = text
    if found.grid is not None and any(g is not None and not 0 <= g < _LARGEST_BOUND for g in found.grid):
        changed["iteration_bounds"] = attributes.text("iteration_bounds")
        found.grid = tuple(g if g is None or 0 <= g < _LARGEST_BOUND else 1 for g in found.grid)
    return changed
