"""The levels of sameness of two kernels, and what differs where they are not the same.

=============  =====================================================================================================
identical      the body equal byte for byte, and the whole custom-call line equal but for ``debug_locations``
stripped       the same after ``strip-debuginfo`` on both sides; only where locations stay inside the body
canonical      the line as above, and equal text after ``canonicalize,cse``
different      none of these
=============  =====================================================================================================

The bodies are compared as they are. Of the line, the content of ``debug_locations`` is left out, and its operands are
compared as what they are made of (`conformance.harness.pallas.PallasCall`), not by the names their values happen to
have. Only jaxlib is needed: the bytes are read as the TPU compiler would, in a fresh context.
"""

from __future__ import annotations

import base64
import contextlib
import difflib
import enum
import functools
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from jaxlib.mlir import ir

# The registry JAX itself lowers with: without it, foreign dialects print in the generic form. If it moves, any
# registry that holds arith, cf, func, math, memref, scf and vector will do.
from jaxlib.mlir._mlir_libs import _jax_mlir_ext as registry
from jaxlib.mlir.passmanager import PassManager
from jaxlib.mosaic.python import tpu

VERSION_ATTRIBUTE: Final = "stable_mosaic.version"
DESERIALIZE: Final = "mosaic-serde{serialize=false}"
SHOWN_LINES: Final = 60


class Level(enum.StrEnum):
    """How much two kernels have in common, the most first."""

    IDENTICAL = "identical"
    STRIPPED = "stripped"
    CANONICAL = "canonical"
    DIFFERENT = "different"

    def reaches(self, required: Level) -> bool:
        """Whether this level is `required` or better."""
        order = list(Level)
        return order.index(self) <= order.index(required)


class Ours(Protocol):
    """What we emitted."""

    @property
    def body(self) -> bytes: ...

    @property
    def custom_call_line(self) -> str: ...


class Theirs(Ours, Protocol):
    """What Pallas emitted: `conformance.harness.pallas.PallasCall`."""

    @property
    def debug_locations(self) -> bytes | None: ...


@dataclass(frozen=True)
class Result:
    """The best level two kernels reach, and why they reach no better one."""

    level: Level
    detail: str


def compare(ours: Ours, theirs: Theirs) -> Result:
    """The best level that `ours` and Pallas's call reach, with a readable difference where it is not identical."""
    if ours.body == theirs.body and _same_line(ours, theirs):
        return Result(Level.IDENTICAL, "")
    line = _line_difference(ours.custom_call_line, theirs.custom_call_line)
    if ours.body == theirs.body:
        why = line or "a line holds another body than the one beside it"
        return Result(Level.DIFFERENT, f"the bodies are identical, the custom-call lines are not:\n{why}")
    detail = "\n".join(filter(None, (line, _body_difference(ours.body, theirs.body))))
    if not line and theirs.debug_locations is None and stripped(ours.body) == stripped(theirs.body):
        return Result(Level.STRIPPED, "only the locations inside the body differ")
    if not line and canonical(ours.body) == canonical(theirs.body):
        return Result(Level.CANONICAL, detail)
    return Result(Level.DIFFERENT, detail)


def required_level(theirs: Theirs) -> Level:
    """The level to hold a kernel to: identical, or stripped where the body holds the locations of Pallas's sources."""
    return Level.STRIPPED if theirs.debug_locations is None else Level.IDENTICAL


def ir_version(body: bytes) -> int:
    """The version of Mosaic's stable form that `body` is written in."""
    with _parsed(body) as module:
        return ir.IntegerAttr(module.operation.attributes[VERSION_ATTRIBUTE]).value


def to_text(body: bytes) -> str:
    """The module in `body`, deserialized and pretty-printed, without locations; not canonicalized."""
    with _parsed(body, DESERIALIZE) as module:
        return str(module)


@functools.lru_cache(maxsize=64)
def canonical(body: bytes) -> str:
    """The module in `body`, deserialized, after ``canonicalize,cse``. Hides dead loads and shared constants."""
    with _parsed(body, f"{DESERIALIZE},canonicalize,cse") as module:
        return str(module)


def stripped(body: bytes) -> bytes:
    """`body` without its locations, otherwise as it was."""
    with _parsed(body, "strip-debuginfo") as module:
        return _bytecode(module)


def reserialized(body: bytes) -> bytes:
    """`body` read to the end and written again, at the same version, as Pallas writes it."""
    version = ir_version(body)
    with _parsed(body, f"{DESERIALIZE},mosaic-serde{{serialize=true target-version={version}}}") as module:
        return _bytecode(module)


@functools.cache
def context() -> ir.Context:
    """The context that reads every body: all of JAX's dialects, tpu, and the unregistered stable form."""
    dialects = ir.DialectRegistry()
    registry.register_dialects(dialects)
    found = ir.Context()
    found.append_dialect_registry(dialects)
    found.load_all_available_dialects()
    tpu.register_dialect(found)
    found.allow_unregistered_dialects = True
    return found


@contextlib.contextmanager
def _parsed(body: bytes, passes: str = "") -> Iterator[ir.Module]:
    """The module in `body` after `passes`, with the context entered around it."""
    with context():
        module = ir.Module.parse(body)
        if passes:
            PassManager.parse(f"builtin.module({passes})").run(module.operation)
        yield module


def _bytecode(module: ir.Module) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer, desired_version=0)
    return buffer.getvalue()


def without_locations(line: str) -> str:
    """The custom-call line with the content of ``debug_locations`` blanked, and nothing else."""
    return _blanked(line, "debug_locations")


def _blanked(line: str, key: str) -> str:
    """`line` with the base64 string of `key` in the escaped JSON of ``backend_config`` emptied."""
    return re.sub(rf"(\\22{key}\\22: \\22)[A-Za-z0-9+/=]*(?=\\22)", r"\1", line)


def _same_line(ours: Ours, theirs: Theirs) -> bool:
    return without_locations(ours.custom_call_line) == without_locations(theirs.custom_call_line)


def _line_difference(ours: str, theirs: str) -> str:
    """What differs in the lines, body and locations apart; empty if nothing does."""
    a, b = (_blanked(without_locations(line), "body") for line in (ours, theirs))
    if a == b:
        return ""
    pieces = difflib.unified_diff(_pieces(b), _pieces(a), "custom call of Pallas", "custom call of ours", "", "", 0, "")
    return "\n".join(pieces)


def _pieces(line: str) -> list[str]:
    """The line cut at the commas between attributes, one piece a row."""
    return re.split(r"(?<=,) (?=[\w.]+ = |\\22\w+\\22: )", line)


def _body_difference(ours: bytes, theirs: bytes) -> str:
    versions = ir_version(theirs), ir_version(ours)
    if versions[0] != versions[1]:
        return f"IR version: Pallas writes {versions[0]}, ours is {versions[1]}"
    a, b = to_text(theirs), to_text(ours)
    if a != b:
        return text_difference(a, b)
    at = next((i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y), min(len(ours), len(theirs)))
    return (
        f"the pretty-printed modules are equal, the bytes differ first at offset {at} "
        f"(Pallas {len(theirs)} bytes, ours {len(ours)}): locations, or an attribute or property that is not printed"
    )


def text_difference(theirs: str, ours: str, shown: int = SHOWN_LINES) -> str:
    """A unified diff of two printed modules, cut after `shown` lines.

    Lines are aligned without regard to the numbers of values, which one more op shifts to the end of the module; they
    are shown as printed. Where all differences are in the numbers, that is, in which value is used, they count.
    """
    a, b = theirs.splitlines(), ours.splitlines()
    first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rows = list(_hunks(a, b, _unnamed)) or list(_hunks(a, b, str))
    more = [f"… {len(rows) - shown} more lines"] if len(rows) > shown else []
    head = [f"the modules differ first at line {first + 1} (Pallas has {len(a)} lines, ours {len(b)})"]
    return "\n".join([*head, "--- Pallas", "+++ ours", *rows[:shown], *more])


def _unnamed(line: str) -> str:
    """`line` without the names of values, arguments apart."""
    return re.sub(r"%(?!arg\d)[\w-]+", "%", line)


def _hunks(a: list[str], b: list[str], key: Callable[[str], str]) -> Iterator[str]:
    keys_a, keys_b = [key(line) for line in a], [key(line) for line in b]
    for group in difflib.SequenceMatcher(None, keys_a, keys_b).get_grouped_opcodes(2):
        (_, a0, _, b0, _), (_, _, a1, _, b1) = group[0], group[-1]
        yield f"@@ -{a0 + 1},{a1 - a0} +{b0 + 1},{b1 - b0} @@"
        for tag, i0, i1, j0, j1 in group:
            if tag == "equal":
                yield from (" " + line for line in a[i0:i1])
            else:
                yield from ("-" + line for line in a[i0:i1])
                yield from ("+" + line for line in b[j0:j1])


def body_of(backend_config: dict[str, object]) -> bytes:
    """The bytes of the kernel in a parsed ``backend_config``."""
    config = backend_config["custom_call_config"]
    assert isinstance(config, dict)
    return base64.b64decode(config["body"])
