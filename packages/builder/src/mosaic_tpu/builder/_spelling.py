"""What JAX, NumPy and their arrays call it, and what a kernel writes instead: for hints, from the registry."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable
from difflib import get_close_matches
from linecache import getlines
from opcode import opname
from types import FrameType
from typing import Final

from mosaic_tpu.builder._registry import OpSpec, registry

#: The name in a Pallas expression: `sum` of ``jnp.sum(x, axis)``, `astype` of ``x.astype(dtype)``.
_NAMED: Final = re.compile(r"(?<!b)(?<!k)\.(\w+)\(")
#: What arrays and refs have and is no function here.
_OTHERWISE: Final = {
    "T": "b.pallas.transpose(x)",
    "mT": "b.pallas.swapaxes(x, -1, -2)",
    "ndim": "x.rank",
    "size": "math.prod(x.shape)",
    "ravel": "b.pallas.reshape(x, (-1,))",
    "flatten": "b.pallas.reshape(x, (-1,))",
    "view": "b.pallas.bitcast(x, dtype)",
    "get": "ref[...]",
    "set": "ref[...] = x",
}
_TABLE: Final = "docs/cheat-sheet.md has what stands here for jnp, lax, pl and pltpu"


def hint_for(name: str, others: Iterable[str] = ()) -> str:
    """How a kernel writes what JAX, NumPy or an array has by this name.

    Args:
        name: ``"exp"``, ``"astype"``, ``"program_id"``.
        others: names that may have been meant where it is none of these.

    Example:
        >>> hint_for("astype")
        'write b.pallas.astype(x, dtype)'
    """
    if name in _OTHERWISE:
        return f"write {_OTHERWISE[name]}"
    known = _known()
    spec = known.get(name) or known.get(name.removeprefix("reduce_"))
    if spec is not None:
        return f"write {_call(spec)}"
    close = get_close_matches(name, [*others, *known], 1, 0.8)
    if not close:
        return _TABLE
    return f"did you mean {close[0] if close[0] in others else _call(known[close[0]])}? {_TABLE}"


@functools.cache
def _known() -> dict[str, OpSpec]:
    """Each function by its own name and by those that it stands for; idioms before ops."""
    found: dict[str, OpSpec] = {}
    specs = sorted(registry().values(), key=lambda spec: not spec.is_idiom)
    for spec in specs:
        found.setdefault(spec.function.__name__, spec)
    for spec in specs:
        for name in _NAMED.findall(spec.source):
            found.setdefault(name, spec)
    return found


def _call(spec: OpSpec) -> str:
    """``b.pallas.sum(x, …)``: what must be given, and whether more may be."""
    _, *parameters = inspect.signature(spec.function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    shown = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in needed if p.kind is not p.KEYWORD_ONLY]
    shown += [f"{p.name}=…" for p in needed if p.kind is p.KEYWORD_ONLY]
    return f"b.{spec.name}({', '.join([*shown, *(['…'] if len(needed) < len(parameters) else [])])})"


def foreign(frame: FrameType, instruction: int | None = None) -> tuple[str, str] | None:
    """The function of JAX or NumPy that the line of a frame is calling.

    Args:
        frame: of a kernel.
        instruction: which of the frame's instructions; the one it is at if not given.

    Returns:
        How it is written there and whose it is: ``("jnp.exp", "jax")``. Nothing where it is another's, or where the
        source is not at hand.
    """
    code = frame.f_code
    at = frame.f_lasti if instruction is None else instruction
    while opname[code.co_code[at]] == "CACHE":  # belongs to the instruction before
        at -= 2
    line, last, start, end = list(code.co_positions())[at // 2]
    if not opname[code.co_code[at]].startswith("CALL") or line is None or last is None:
        return None
    lines = [text.encode() for text in getlines(code.co_filename, frame.f_globals)[line - 1 : last]]
    if not lines:
        return None
    lines[-1] = lines[-1][:end]
    try:
        call = ast.parse(b"(" + b"".join(lines)[start:] + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    name, value = _function(call.func, frame) if isinstance(call, ast.Call) else ("", None)
    home = str(getattr(value, "__module__", None)).partition(".")[0]
    return (name, home) if home in ("jax", "numpy") else None


def _function(node: ast.expr, frame: FrameType) -> tuple[str, object]:
    """A name with dots, and what it is; nothing is run to find out."""
    if isinstance(node, ast.Name):
        return node.id, frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if not isinstance(node, ast.Attribute):
        return "", None
    name, owner = _function(node.value, frame)
    found = getattr(owner, node.attr, None) if inspect.ismodule(owner) else None
    return f"{name}.{node.attr}", found
