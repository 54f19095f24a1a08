"""Modules and kernels to try the command with, and comparing what it says with files."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, Final

from conformance.harness.command import Said, cli, masked

__all__ = ["DOUBLE", "RACE", "SMALL", "Pipe", "cli", "masked", "refused", "same_shape", "same_text"]

GOLDEN: Final = Path(__file__).parent / "golden"
#: A sound module with a race: what a DMA copies is used before it is waited for.
RACE: Final = """
module @double {
  func.func @double(%x: memref<8x128xf32, #tpu.memory_space<any>>, %y: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %tile: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %arrived: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 2 : i64,
                  tpu.core_type = #tpu.core_type<tc>} {
    %two = arith.constant dense<2.0> : vector<8x128xf32>
    %c0 = arith.constant 0 : index
    tpu.enqueue_dma source(%x : memref<8x128xf32, #tpu.memory_space<any>>)
        target(%tile : memref<8x128xf32, #tpu.memory_space<vmem>>)
        target_semaphore(%arrived : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
        loc("kernel.py":9:4)
    %0 = vector.load %tile[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        loc("kernel.py":10:15)
    %1 = arith.mulf %0, %two : vector<8x128xf32>
    tpu.vector_store %y[%c0, %c0], %1 {strides = array<i32>} :
        memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>,
    tpu.wait_dma2 semaphore(%arrived : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
        src(%x : memref<8x128xf32, #tpu.memory_space<any>>) dst(%tile : memref<8x128xf32, #tpu.memory_space<vmem>>)
    return
  }
}
"""
#: y = x + x, on blocks of an array.
DOUBLE: Final = """
module @double {
  func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %y: memref<8x128xf32, #tpu.memory_space<vmem>>)
      attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
                  tpu.core_type = #tpu.core_type<tc>} {
    %c0 = arith.constant 0 : index
    %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    %1 = arith.addf %0, %0 : vector<8x128xf32>
    tpu.vector_store %y[%c0, %c0], %1 {strides = array<i32>} :
        memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>,
    return
  }
}
"""
#: A small kernel of the zoo.
SMALL: Final = ("--set", "m=512", "--set", "n=512", "--set", "k=512")


class Pipe(io.BytesIO):
    """A pipe whose reader has gone."""

    def write(self, data: Any) -> int:
        if data:
            raise BrokenPipeError
        return 0

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_WRONLY)


#: Objects whose names are data, of ops or fields for example, and what their members are called; `[]` after a list's.
_OPEN: Final = dict.fromkeys(
    ("best", "config", "limits", "matmuls", "memory", "op_counts", "outcomes", "rows[]", "slots", "unwritten"), ""
) | {"presets": "config"}


def shape(*values: Any, name: str = "") -> Any:
    """The one form of JSON documents, or of what has a name in them: names, and kinds of values.

    `name?` may be null or left out; `*` stands for names that are data; kinds of one value are joined by `|`.
    """
    if name == "schema":
        return values[0]
    there = [value for value in values if value is not None]
    if all(isinstance(value, dict) for value in there) and there:
        if name in _OPEN:
            members = [member for value in there for member in value.values()]
            return dict([_member("*", [{"*": member} for member in members], _OPEN[name])] if members else [])
        return dict(_member(inner, there) for inner in dict.fromkeys(name for value in there for name in value))
    if all(isinstance(value, list) for value in there) and there:
        elements = [element for value in there for element in value]
        return [shape(*elements, name=f"{name}[]")] if elements else []
    return " | ".join(sorted({type(value).__name__ for value in there})) or "null"


def _member(name: str, objects: list[dict[str, Any]], called: str | None = None) -> tuple[str, Any]:
    found = [value.get(name) for value in objects]
    form = shape(*found, name=name if called is None else called)
    return f"{name}?" if None in found and form != "null" else name, form


def same_as(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it."""
    file = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"UPDATE_GOLDEN=1 writes {file}"


def same_text(name: str, said: Said) -> None:
    """Compare standard output with a golden file."""
    same_as(f"{name}.txt", masked(said.out))


def same_shape(name: str, *said: Said) -> None:
    """Compare the form that JSON answers have together with a golden file."""
    same_as(f"{name}.json", json.dumps(shape(*(one.json for one in said)), indent=1) + "\n")


def refused(said: Said, *words: str, code: int = 2) -> None:
    """A short message on standard error, with what to do; nothing on standard output."""
    assert said.code == code, said.err
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert "\n  hint: " in said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err
