"""The code of a kernel's declaration: ``a = b.declare_args(…)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Items, Named, Node, Shape, String, Text, mapping
from mosaic_tpu.lift._kernel import Declared
from mosaic_tpu.lift._names import identifier
from mosaic_tpu.lift._types import Imported, dtype_code
from mosaic_tpu.lift._windows import IndexMap, WindowText, window_code
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def declare(w: Writer, module: ir.Module, found: Declared, shapes: Sequence[tuple[int, ...] | None] | None) -> None:
    """``a = b.declare_args(…)``, after the index maps that are functions."""
    kernel = module.kernel
    names = _argument_names(module, found)
    ids, prefetch = names[: found.ids], found.roles.count("scalar_prefetch")
    specs: list[Node] = []
    for name, value in zip(names, kernel.arguments, strict=True):
        w.code[value] = f"a.{name}"
    for name, value in zip(ids, kernel.arguments, strict=False):
        scalar = "Iter()" if value.type.text == "index" else None
        specs.append(Named(f"{name}=", Text(scalar) if scalar else Call("Scalar", dtype_code(value.type))))
    for number, (role, name) in enumerate(zip(found.roles, names[found.ids :], strict=True)):
        type_ = kernel.arguments[found.ids + number].type
        shape = None if shapes is None or number >= len(shapes) else shapes[number]
        inside = names[: found.ids + prefetch]
        window = number - prefetch
        specs.append(Named(f"{name}=", _spec(w, found, role, type_, window, shape, f"{name}_map", inside)))
    arguments = Call("dict", *specs) if specs else Text("{}")
    core = _core(kernel)
    grid = found.grid
    default = grid is not None and set(found.semantics) <= {"arbitrary"}
    plain = grid is None and not found.semantics
    w.line(
        "a = " if any(v.users for v in kernel.arguments) else "",
        Call(
            "b.declare_args",
            arguments,
            grid=None if grid is None else Items("(", [Text(str(g)) for g in grid], ")"),
            dimension_semantics=None if default or plain else _semantics_code(found.semantics),
            core_type=core,
            window_params=Text("False") if grid is not None and found.windows is None else None,
            unused_zero=None if found.unused_zero else Text("False"),
        ),
        op=kernel.operation,
    )
    if found.overridden:
        changes = {k: Text("None") if v is None else String(v) for k, v in found.overridden.items()}
        w.line("", Call("b.function_attributes", mapping(changes)), op=kernel.operation)


def _semantics_code(semantics: Sequence[str]) -> Node:
    return Items("(", [Imported(s) for s in semantics], ")")


def _core(kernel: ir.Function) -> Node | None:
    text = kernel.attributes.text("tpu.core_type")
    if text == "#tpu.core_type<tc>":
        return None
    return Text("None") if not text else String(text.removeprefix("#tpu.core_type<").removesuffix(">"))


_IDS: Final = ("i", "j", "k")
_UNNAMED: Final = {"scalar_prefetch": "prefetch", "input": "input", "output": "output", "scratch": "scratch"}


def _argument_names(module: ir.Module, found: Declared) -> list[str]:
    """Names from the locations, else after the role."""
    names: list[str] = []
    counts: dict[str, int] = {}
    roles = ["id"] * found.ids + found.roles
    for number, (role, given) in enumerate(zip(roles, module.names, strict=True)):
        if given == f"arg{number}":
            semaphore = module.kernel.arguments[number].type.is_semaphore
            kind = "sem" if semaphore else _UNNAMED.get(role, "i")
            which = counts.get(kind, 0)
            counts[kind] = which + 1
            plain = f"{kind}_{which}"
            name = _IDS[which] if role == "id" and which < len(_IDS) else plain
        else:
            name = identifier(given, "arg")
        while name in names:
            name += "_"
        names.append(name)
    return names


def _spec(
    w: Writer,
    found: Declared,
    role: str,
    type_: ir.Type,
    number: int,
    shape: tuple[int, ...] | None,
    map_name: str,
    inside: Sequence[str],
) -> Node:
    if role == "scratch" and type_.is_semaphore and type_.space == "semaphore_mem":
        kind = String("dma" if type_.element == "dma_semaphore" else "regular")
        return Call("SemArray", Shape(type_.shape), kind) if type_.shape else Call("Sem", kind)
    window, array = None, None if shape == type_.shape or role not in ("input", "output") else shape
    if number in found.maps and found.windows is not None:
        entry, mapped = found.windows[number], found.maps[number]
        array = _array_shape(found, entry, mapped, type_, shape)
        forced = mapped.is_zero and type_.space == "vmem" and array is None and entry.mode == "synchronous"
        mode = None if forced else entry.mode
        if not mapped.is_zero or mode is not None or entry.padding is not None:
            window = window_code(w, entry, mode, type_.shape, mapped, map_name, inside)
    return Call(
        "Ref",
        Shape(type_.shape),
        dtype_code(type_),
        *([] if type_.space == "vmem" else [String(type_.space)]),
        role=None if role == "input" else Text(f"Role.{role.upper()}"),
        window=window,
        array_shape=None if array is None else Shape(array),
    )


def _array_shape(
    found: Declared, entry: WindowText, mapped: IndexMap, type_: ir.Type, shape: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The array's shape, where the call tells another than follows from the window."""
    block = type_.shape
    if shape is not None and len(shape) != len(block):
        shape = None  # the call takes the array in another form
    if mapped.is_zero and type_.space == "vmem":
        # One block that is the whole array has one buffer; a larger array need not be known for it to have two.
        larger = (*block[:-1], 2 * block[-1]) if block else None
        if entry.mode != "synchronous":
            return larger if shape is None or shape == block else shape
    return None if shape is None or shape == _follows(found, entry, mapped, block) else shape


def _follows(found: Declared, entry: WindowText, mapped: IndexMap, block: tuple[int, ...]) -> tuple[int, ...] | None:
    """The array's shape as `declare_args` has it from the window; ``None`` where that is not told here."""
    if mapped.is_constant:
        return block
    if mapped.operations or entry.padding is not None or found.grid is None:
        return None
    sizes: list[int] = []
    for returned, size in zip(mapped.returned, block, strict=True):
        if isinstance(returned, ir.Value):
            if returned not in mapped.arguments[: mapped.ids]:
                return None
            last = max(0, (found.grid[mapped.arguments.index(returned)] or 1) - 1)
        else:
            last = int(returned)
        sizes.append((last + 1) * size)
    return tuple(sizes)
