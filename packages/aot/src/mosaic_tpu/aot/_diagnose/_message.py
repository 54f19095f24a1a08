"""The compiler's text, taken apart: code, reason, op, types, the kernel's line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

#: What stands before or inside a reason and tells the user nothing.
_NOISE: Final = (
    r"^(?:[A-Z][A-Z_]{3,}: )+",  # status codes: "INTERNAL: "
    r"^Mosaic failed to compile TPU kernel(?: with MLIR module name `[^`]*`)?(?: HLO name `[^`]*`)?: ?",
    r"^(?:[\w.]+\.)?\w+(?:Error|Exception): ",
    r"^Pallas encountered an internal verification error\..*?Error details: ",
    r"^Compilation failure: ",
    r"^XLA:TPU compile permanent error\. ",
    r"^Failed to (?:deserialize|parse) the Mosaic module: ",
    r"^(?:-:\d+:\d+: )?error: ",
    r"^[a-z]+(?:-[a-z]+)+: ",  # the compiler's pass: "infer-vector-layout: "
    r"^E\d{4}: \w+: ?",
    r"^Not [Ii]mplemented: ",
    r"\s*\([\w./-]+\.(?:cc|h):\d+\)",  # the compiler's own files
    r"\s*[\w./-]+\.(?:cc|h):\d+\]?",
)
_BEFORE_AN_OP: Final = r"^(?:at location:|The MLIR operation involved|See https?:|Please report|=== |NOTE:|\*\*\*)"
_FRAME: Final = re.compile(r'(?:"((?:[^"\\]|\\.)*)"\()?"((?:[^"\\]|\\.)+)":(\d+):\d+')
_PYTHON_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line (\d+)(?:, in (\S+))?', re.MULTILINE)
#: Files between the kernel and the compiler: JAX's and ours. The zoo's kernels are kernels.
_LIBRARY: Final = re.compile(
    r"[/\\]jax[/\\](?:_src|experimental|interpreters)[/\\]|[/\\]mosaic_tpu[/\\](?:builder|kernel|sim|aot|lift|cli)[/\\]"
)
_OPENING, _CLOSING = "([{<", ")]}>"


@dataclass(frozen=True)
class Message:
    """A refusal's text, taken apart.

    Attributes:
        raw: all of it.
        reason: the first thing said, in one line and without noise.
        op: name of the op it is about, if it says one.
        op_text: that op as the compiler prints it; empty if it does not.
        operands: types of that op's operands, without the compiler's layouts.
        results: types of its results.
        location: ``"file.py:12"``, the innermost line that is the kernel's, if it says one.
    """

    raw: str
    reason: str
    op: str | None
    op_text: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    location: str | None


def read_message(raw: str) -> Message:
    """Take a refusal apart."""
    op_text = _op_text(raw)
    operands, results = signature(op_text)
    return Message(raw, plain_reason(raw), _op(raw), op_text, operands, results, location(raw))


# --- the reason ---------------------------------------------------------------------------------------------------


def plain_reason(raw: str) -> str:
    """The first thing said, in one line."""
    for line in raw.splitlines():
        if re.match(_BEFORE_AN_OP, line.strip()):
            continue
        if cleaned := _cleaned(line):
            return cleaned
    return ""


def _cleaned(line: str) -> str:
    before = None
    while before != line:
        before, line = line, line.strip()
        for noise in _NOISE:
            line = re.sub(noise, "", line)
    return line


# --- the op -------------------------------------------------------------------------------------------------------


def _op_text(raw: str) -> str:
    found = re.search(
        r"(?:The MLIR operation involved:\s*\n|see current operation:)\s*((?:%\S+ = )?\"[\w.]+\"\(.*)", raw
    )
    return found[1].strip() if found else ""


def _op(raw: str) -> str | None:
    text = _op_text(raw)
    if text:
        return op_name(text)
    for pattern in (
        r"failed to legalize operation '([\w.]+)'",
        r"Unsupported operation: (\w+\.\w+)",
        r"'(\w+\.\w+)' op ",
        r"custom op '(\w+(?:\.\w+)?)' is unknown",
        r"Unimplemented primitive in Pallas TPU lowering[^:]*: (\w+)",
    ):
        if found := re.search(pattern, raw):
            return found[1]
    return None


def op_name(text: str) -> str:
    """The name in an op's text, or the text itself where it is a bare name."""
    found = re.match(r'(?:%\S+ = )?"?([\w.]+)', text)
    return found[1] if found else text


def signature(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Types of operands and results in an op's text, without the layouts that the compiler adds to refs."""
    start = text.rfind(" : (")
    if start < 0:
        return (), ()
    left, arrow, right = text[start + 3 :].rpartition(" -> ")
    if not arrow:
        return (), ()
    return _types(left), _types(right)


def _types(text: str) -> tuple[str, ...]:
    text = text.strip()
    if text.startswith("("):
        text = text[1:-1]
    return tuple(plain_type(part) for part in _split(text))


def plain_type(text: str) -> str:
    """A type without layouts: ``memref<8x128xf32, vmem>``."""
    if not text.startswith("memref<"):
        return text
    first, *rest = _split(text[7:-1])
    space = next((found[1] for part in rest if (found := re.search(r"memory_space<(\w+)", part))), "")
    return f"memref<{', '.join(filter(None, (first, space)))}>"


def _split(text: str) -> Iterator[str]:
    """The parts between commas that stand outside brackets."""
    depth = start = 0
    for place, sign in enumerate(text):
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if sign == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if last := text[start:].strip():
        yield last


# --- the line -----------------------------------------------------------------------------------------------------


def location(raw: str) -> str | None:
    """The kernel's line: of the first location that has one, the innermost frame that is no library's."""
    for line in raw.splitlines():
        if "loc(" in line or " at " in line or line.startswith("at "):
            frames = [(f"{found[2]}:{found[3]}", found[2], found[1]) for found in _FRAME.finditer(line)]
            if frames:
                return _kernels(frames)
    # Python's tracebacks, which Pallas makes of a location: the innermost frame is the last.
    frames = [(f"{found[1]}:{found[2]}", found[1], found[3]) for found in _PYTHON_FRAME.finditer(raw)]
    return _kernels(frames[::-1]) if frames else None


def _kernels(frames: list[tuple[str, str, str]]) -> str:
    """The line among frames, innermost first."""
    own = [frame for frame in frames if not _LIBRARY.search(frame[1])] or frames
    # JAX traces a helper once for all its calls: of one function's frames the outer one is this call's.
    here = takewhile(lambda frame: frame[1:] == own[0][1:], own)
    return list(here)[-1][0]
