"""What JAX, NumPy and their arrays call it, and what a kernel writes instead: for hints, from the registry."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from linecache import getlines
from opcode import opname
from types import FrameType, MappingProxyType
from typing import Final

from mosaic_tpu.builder._registry import OpSpec, registry

#: The name in a Pallas expression: `sum` of ``jnp.sum(x, axis)``, `astype` of ``x.astype(dtype)``.
_NAMED: Final = re.compile(r"(?<!b)(?<!k)\.(\w+)\(")
#: A function of a Pallas expression, with the module that it is of: ``jnp.roll``.
_FUNCTION: Final = re.compile(r"\b((?:jnp|lax|jax\.nn|pl|pltpu)\.\w+)\(")
#: What JAX, its arrays and its refs have by another name, and what is no function here.
ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # arrays and refs
        "T": "b.pallas.transpose(x)",
        "mT": "b.pallas.swapaxes(x, -1, -2)",
        "ndim": "x.rank",
        "size": "math.prod(x.shape)",
        "ravel": "b.pallas.reshape(x, (-1,))",
        "flatten": "b.pallas.reshape(x, (-1,))",
        "view": "b.pallas.bitcast(x, dtype)",
        "get": "ref[...]",
        "set": "ref[...] = x",
        # operators
        "subtract": "x - y",
        "multiply": "x * y",
        "divide": "x / y",
        "mod": "x % y",
        "pow": "x ** y",
        "float_power": "x ** y",
        "negative": "-x",
        "absolute": "abs(x)",
        "fabs": "abs(x)",
        "invert": "~x",
        "bitwise_invert": "~x",
        "bitwise_left_shift": "x << y",
        "bitwise_right_shift": "x >> y",
        "greater": "x > y",
        "greater_equal": "x >= y",
        "less": "x < y",
        "less_equal": "x <= y",
        "equal": "x.eq(y)",
        "not_equal": "x.ne(y)",
        # other names
        "amax": "b.pallas.max(x)",
        "amin": "b.pallas.min(x)",
        "concat": "b.pallas.concatenate(xs, 0)",
        "convert_element_type": "b.pallas.astype(x, dtype)",
        "identity": "b.pallas.eye(n)",
        "iota": "b.pallas.arange(n, dtype)",
        "lax.reciprocal": "b.pallas.jnp_reciprocal(x)",
        "logistic": "b.pallas.sigmoid(x)",
        "matrix_transpose": "b.pallas.swapaxes(x, -1, -2)",
        "permute_dims": "b.pallas.transpose(x, axes)",
        "rint": "b.pallas.round(x)",
        "swish": "b.pallas.silu(x)",
        # what needs no function
        "array": "a number as it is; arrays enter a kernel as refs",
        "asarray": "a number as it is; arrays enter a kernel as refs",
        "stop_gradient": "x",
        # what is written otherwise
        "scan": "b.pallas.fori_loop(0, n, body, init)",
        "map": "b.pallas.fori_loop(0, n, body, init)",
        "empty_like": "b.pallas.zeros_like(x)",
        "dynamic_slice": "ref[b.pallas.ds(start, size)]",
        "dynamic_slice_in_dim": "ref[b.pallas.ds(start, size)]",
        "dynamic_index_in_dim": "ref[i]",
        "dynamic_update_slice": "ref[b.pallas.ds(start, size)] = x",
        "dynamic_update_slice_in_dim": "ref[b.pallas.ds(start, size)] = x",
        "slice_in_dim": "x[8:16]",
        "index_in_dim": "x[3]",
    }
)
#: What Pallas has no lowering of for a TPU: a name like it would be another function.
NOWHERE: Final = frozenset(
    {
        "acosh",
        "arccosh",
        "arcsinh",
        "arctanh",
        "asinh",
        "atanh",
        "cbrt",
        "cosh",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "digamma",
        "erfc",
        "flip",
        "fliplr",
        "flipud",
        "gather",
        "lgamma",
        "prod",
        "rev",
        "scatter",
        "sinh",
    }
)
_TABLE: Final = "docs/cheat-sheet.md has what stands here for jnp, lax, pl and pltpu"


def hint_for(name: str, others: Iterable[str] = ()) -> str:
    """How a kernel writes what JAX, NumPy or an array has by this name.

    Args:
        name: ``"exp"``, ``"astype"``, ``"jnp.roll"``, which is another than ``"roll"``.
        others: names that may have been meant where it is none of these.

    Example:
        >>> hint_for("astype")
        'write b.pallas.astype(x, dtype)'
    """
    if name in ALIASES:
        return f"write {ALIASES[name]}"
    home, _, name = name.rpartition(".")
    known = _known()
    spec = known.get(f"{'jnp' if home == 'np' else home}.{name}") if home else None
    if spec is None and name in ALIASES:
        return f"write {ALIASES[name]}"
    spec = spec or known.get(name) or known.get(name.removeprefix("reduce_"))
    if spec is not None:
        return f"write {_call(spec)}"
    if name in NOWHERE:
        return f"Pallas has no {name} on a TPU either: write it with others"
    close = get_close_matches(name, [*others, *known], 1, 0.8)
    if not close:
        return _TABLE
    return f"did you mean {close[0] if close[0] in others else _call(known[close[0]])}? {_TABLE}"


@functools.cache
def _known() -> dict[str, OpSpec]:
    """Each function by its own name and by those that it stands for, with and without a module; idioms before ops."""
    found: dict[str, OpSpec] = {}
    specs = sorted(registry().values(), key=lambda spec: not spec.is_idiom)
    for spec in specs:
        found.setdefault(spec.function.__name__, spec)
    for spec in specs:
        for name in (*_NAMED.findall(spec.source), *_FUNCTION.findall(spec.source)):
            found.setdefault(name, spec)
    return found


def _call(spec: OpSpec) -> str:
    """``b.pallas.sum(x, …)``: what must be given, and whether more may be."""
    _, *parameters = inspect.signature(spec.function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    shown = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in needed if p.kind is not p.KEYWORD_ONLY]
    shown += [f"{p.name}=…" for p in needed if p.kind is p.KEYWORD_ONLY]
    return f"b.{spec.name}({', '.join([*shown, *(['…'] if len(needed) < len(parameters) else [])])})"


#: What Python says of a call with other arguments than the function takes.
_MISCALLED: Final = re.compile(r"([\w.]+)\(\) (takes|missing|got) (.*)")
_COUNTED: Final = re.compile(r"(?:from \d+ to )?(\d+) positional arguments? but (\d+) .*")


def miscalled(said: str) -> tuple[str, str, str] | None:
    """What to say of a function of a builder that was called with arguments which it does not take.

    Args:
        said: the text of Python's `TypeError`.

    Returns:
        The function, what was wrong, and its form; nothing where the call was another function's.
    """
    found = _MISCALLED.fullmatch(said)
    spec = found and next((s for s in registry().values() if s.function.__qualname__ == found[1]), None)
    if not found or not spec:
        return None
    counted = _COUNTED.fullmatch(found[3]) if found[2] == "takes" else None
    wrong = f"{found[2]} {found[3]}"
    if counted:  # Python counts the builder, too
        wrong = f"takes {int(counted[1]) - 1} arguments by position, not {int(counted[2]) - 1}"
    _, *parameters = inspect.signature(spec.function).parameters.values()
    form = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
    return spec.name, wrong, f"b.{spec.name}{form}"


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
