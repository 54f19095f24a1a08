"""Windows and index maps: from ``window_params`` and ``transform_N`` to `Window` and lambdas."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Node, Shape, String, Text, tuple_text
from mosaic_tpu.lift._names import Namer
from mosaic_tpu.lift._numbers import scalar
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

#: Pallas makes no window for what is in these memories.
NO_WINDOW: Final = ("any", "hbm", "semaphore_mem")
_SYMBOL: Final = re.compile(r"transform_indices = @([\w$.-]+)")
_MODE: Final = re.compile(r"pipeline_mode = #tpu\.pipeline_mode<(\w+)>")
_REVISIT: Final = re.compile(r"revisit_mode = #tpu\.revisit_mode<(\w+)>")
_ELEMENT: Final = re.compile(r"window_kind = #tpu\.element_window<\[([-\d, ]*)\], ?\[([-\d, ]*)\]>")


@dataclass(frozen=True)
class WindowText:
    """What an entry of ``window_params`` says.

    Attributes:
        symbol: the transform's name; ``None`` for an empty entry.
        mode: of the pipeline.
        revisit: mode of revisits.
        padding: low and high, where indices count elements.
    """

    symbol: str | None
    mode: str | None = None
    revisit: str | None = None
    padding: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def window_text(text: str, block: tuple[int, ...]) -> WindowText | None:
    """An entry of ``window_params``; ``None`` if it says anything that `declare_args` would not write."""
    if text == "{}":
        return WindowText(None)
    symbol, mode, revisit, element = (p.search(text) for p in (_SYMBOL, _MODE, _REVISIT, _ELEMENT))
    if symbol is None:
        return None
    bounds = ", ".join(map(str, block))
    parts = [
        *([mode[0]] if mode else []),
        *([revisit[0]] if revisit else []),
        symbol[0],
        f"window_bounds = array<i64: {bounds}>" if block else "window_bounds = array<i64>",
        *([element[0]] if element else []),
    ]
    if text != "{" + ", ".join(parts) + "}":
        return None
    padding = None if element is None else (_ints(element[1]), _ints(element[2]))
    return WindowText(symbol[1], mode and mode[1], revisit and revisit[1], padding)


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class IndexMap:
    """A transform as a function: ops, then what it returns.

    Attributes:
        arguments: of the function: program ids, then scalar-prefetch refs.
        operations: those before the constants that `declare_args` makes of the ints that are returned.
        returned: ints as texts, and values.
        ids: how many program ids there are.
        unused_zero: whether it ends with a constant that nothing takes, as Pallas's do; canonical text has none.
    """

    arguments: tuple[ir.Value, ...]
    operations: list[ir.Operation]
    returned: list[str | ir.Value]
    ids: int
    unused_zero: bool

    @property
    def is_zero(self) -> bool:
        """Whether it is all zeros: the window is the whole array, or its first block."""
        return all(r == "0" for r in self.returned)

    @property
    def is_constant(self) -> bool:
        """Whether it returns ints alone."""
        return all(isinstance(r, str) for r in self.returned)


def index_map(function: ir.Function, types: Sequence[ir.Type], ids: int, rank: int) -> IndexMap | None:
    """A transform as `declare_args` would emit it: ops, constants of ints, maybe an unused one, the return."""
    operation = function.operation
    if set(operation.attributes.raw) != {"function_type", "sym_name"}:
        return None
    if [a.type for a in function.arguments] != list(types):
        return None
    *ops, last = function.body.operations
    if last.name != "func.return" or last.attributes.raw or len(last.operands) != rank:
        return None
    if any(o.type.text != "i32" for o in last.operands):
        return None
    unused_zero = bool(ops) and scalar(ops[-1]) == "0" and not ops[-1].result.users
    if unused_zero and ops.pop().result.type.text != "i32":
        return None
    returned: list[str | ir.Value] = []
    for value in reversed(last.operands):
        made = value.definition
        literal = scalar(made) if made is not None and ops and made is ops[-1] and len(value.users) == 1 else None
        if literal is not None:
            ops.pop()
        returned.append(value if literal is None else literal)
    return IndexMap(function.arguments, ops, returned[::-1], ids, unused_zero)


def window_code(
    w: Writer,
    entry: WindowText,
    mode: str | None,
    block: tuple[int, ...],
    found: IndexMap,
    name: str,
    ids: Sequence[str],
) -> Node:
    """``Window((128, 512), index_map=lambda i, j: (i, 0))``; an index map with ops is a function before it."""
    padding = entry.padding
    return Call(
        "Window",
        Shape(block),
        index_map=None if found.is_zero else _map_code(w, found, name, ids),
        pipeline_mode=None if mode is None else String(mode),
        revisit_mode=None if entry.revisit is None else String(entry.revisit),
        element_window=None if padding is None else Call("ElementWindow", *[Shape(p) for p in padding]),
    )


def _map_code(w: Writer, found: IndexMap, name: str, ids: Sequence[str]) -> Node:
    outer, w.names = w.names, Namer()
    try:
        taken = found.arguments[: found.ids]
        if any(a.users for a in found.arguments[found.ids :]):
            taken = found.arguments
        parameters = [w.name(a, ids[n] if n < len(ids) else "ref") for n, a in enumerate(taken)]
        if not found.operations:
            return Text(f"lambda {', '.join(parameters)}: {_returned(w, found)}".replace("lambda :", "lambda:"))
        w.line(f"def {name}({', '.join(parameters)}):")
        w.indent += 4
        w.block(found.operations)
        w.line(f"return {_returned(w, found)[1:-1]}" if len(found.returned) > 1 else f"return {_returned(w, found)}")
        w.indent -= 4
        w.line("")
        return Text(name)
    finally:
        w.names = outer


def _returned(w: Writer, found: IndexMap) -> str:
    texts = [r if isinstance(r, str) else w.use(r).text for r in found.returned]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


__all__ = ["NO_WINDOW", "IndexMap", "WindowText", "index_map", "tuple_text", "window_code", "window_text"]
