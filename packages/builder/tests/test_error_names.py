"""An idiom that is made of others speaks of itself in its errors, not of what it is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mosaic_tpu import builder
from mosaic_tpu.builder import Builder, OpSpec, registry
from mosaic_tpu.builder.errors import MosaicError

from .conftest import declare

IDIOMS = {name: spec for name, spec in registry().items() if spec.is_idiom}
#: What stands in the examples for an operand, and what is put in its place.
_GIVEN = re.compile(
    r"(?<![\w.])(a\.x\[\.\.\.\]|a\.ints\[\.\.\.\]|a\.half\[\.\.\.\]|a\.cube\[\.\.\.\]|a\.i)(?![\w.\[(])"
)
_WRONG = (
    "a.x",
    "a.x[0]",
    "b.zeros((7, 128), f32)",
    "b.zeros((8, 128), f8e5m2)",
    "b.zeros((8, 128), i1)",
    "b.zeros((8, 128), u8)",
    "b.c_index(1)",
)
_MORE = (", axis=9", ", axis=(0, 0)", ", keepdims=3", ", dtype='f99'")


def _calls(spec: OpSpec) -> Iterator[str]:
    """The calls of an idiom in its example."""
    for line in re.findall(r"^ *>>> (.*)$", inspect.getdoc(spec.function) or "", re.MULTILINE):
        for start in re.finditer(re.escape(f"b.{spec.name}("), line):
            depth = 0
            for end in range(start.end() - 1, len(line)):
                depth += (line[end] in "([{") - (line[end] in ")]}")
                if not depth:
                    yield line[start.start() : end + 1]
                    break


def _wrong(call: str, name: str) -> Iterator[str]:
    """The call with one operand that may not fit, or one argument more."""
    for found in _GIVEN.finditer(call):
        if re.match(r" *[<>*+-]", call[found.end() :]) or call[: found.start()].endswith("-"):
            continue  # an operator's operand: the error is that operator's
        yield from (call[: found.start()] + wrong + call[found.end() :] for wrong in _WRONG)
    yield from (f"{call[:-1]}{more})" for more in _MORE if not call.endswith("()") and more.split("=")[0] not in call)


@pytest.mark.parametrize("name", IDIOMS)
def test_an_error_names_the_idiom(name: str) -> None:
    idioms = {known.removeprefix("pallas.") for known in IDIOMS} | {"to", "lift", "arith.constant"}
    for call in _calls(IDIOMS[name]):
        for wrong in _wrong(call, name):
            b = Builder("kernel")
            names: dict[str, Any] = {**vars(builder), "b": b, "a": declare(b)}
            try:
                eval(wrong, names)
            except MosaicError as error:
                assert error.op == name.removeprefix("pallas.") or error.op not in idioms, f"{wrong}\n{error}"
            except TypeError as error:
                assert "argument" in str(error), wrong
            except NameError:  # of an earlier line of the example
                break
