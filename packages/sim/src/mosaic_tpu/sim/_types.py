"""MLIR types and attributes as plain Python data, read from their text."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from mosaic_tpu.sim.errors import ModuleFormatError, UnsupportedOpError

#: What holds an element of each MLIR type. Sub-byte elements take a byte each.
NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "i1": np.dtype(np.bool_),
    "i2": np.dtype(ml_dtypes.int2),
    "i4": np.dtype(ml_dtypes.int4),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
}
SEMAPHORES: Final = {"!tpu.semaphore": "semaphore", "!tpu.dma_semaphore": "dma_semaphore"}
#: MLIR's mark of a size that is not in the type.
DYNAMIC: Final = -(1 << 63)


@functools.cache
def bits_of(element: str) -> int:
    """Width of an element in the TPU's memory."""
    if element == "index":
        return 32
    digits = re.match(r"b?[fi](\d+)", element)
    if digits is None:
        raise UnsupportedOpError(f"the element type {element} is unknown", hint="this simulator knows Mosaic's types")
    return int(digits[1])


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar, vector or memref.

    Attributes:
        kind: ``"scalar"``, ``"vector"``, ``"memref"`` or ``"other"``.
        shape: sizes; empty for scalars.
        element: MLIR's name of the element type; ``"semaphore"`` and ``"dma_semaphore"`` for those.
        space: memory space of a memref, ``"vmem"`` …; ``""`` where the type has none.
        text: as MLIR prints it.
    """

    kind: str
    shape: tuple[int, ...]
    element: str
    space: str
    text: str

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements.

        Raises:
            UnsupportedOpError: there is none.
        """
        found = NUMPY.get(self.element)
        if found is None:
            raise UnsupportedOpError(
                f"the element type {self.element} has no NumPy dtype", hint="this simulator knows Mosaic's types"
            )
        return found

    @property
    def bits(self) -> int:
        """Width of one element on the TPU."""
        return bits_of(self.element)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers."""
        return "f" in self.element and "semaphore" not in self.element

    @property
    def is_semaphore(self) -> bool:
        """Whether this is semaphore memory."""
        return self.element in ("semaphore", "dma_semaphore")

    def __str__(self) -> str:
        return self.text


@functools.lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """One type from MLIR's text."""
    text = text.strip()
    if text.startswith("vector<"):
        shape, element = _shaped(text[7:-1])
        return Type("vector", shape, element, "", text)
    if text.startswith("memref<"):
        first, *rest = split(text[7:-1])
        shape, element = _shaped(first)
        space = next((found[1] for part in rest if (found := re.search(r"memory_space<(\w+)", part))), "")
        return Type("memref", shape, SEMAPHORES.get(element, element), space, text)
    if text in SEMAPHORES:
        return Type("scalar", (), SEMAPHORES[text], "", text)
    return Type("scalar" if text in NUMPY else "other", (), text, "", text)


def _shaped(text: str) -> tuple[tuple[int, ...], str]:
    sizes: list[int] = []
    while (found := re.match(r"(\d+|\?)x", text)) is not None:
        sizes.append(DYNAMIC if found[1] == "?" else int(found[1]))
        text = text[found.end() :]
    return tuple(sizes), text


_OPEN: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|>=|[()\[\]{}<>,]')


def split(text: str, separator: str = ",") -> list[str]:
    """Split at separators that stand outside brackets and strings."""
    parts: list[str] = []
    depth = start = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in _OPEN:
            depth += 1
        elif mark in ")]}>":
            depth -= 1
        elif mark == separator and depth == 0:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def matching(text: str, start: int) -> int:
    """Position after the bracket that closes the one at ``start``."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in _OPEN:
            depth += 1
        elif mark in ")]}>":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ModuleFormatError(f"unbalanced brackets in {text[start : start + 40]!r}")


@functools.lru_cache(maxsize=4096)
def parse_signature(text: str) -> tuple[tuple[Type, ...], tuple[Type, ...]]:
    """``(i32, index) -> vector<8xf32>`` as types of operands and results."""
    end = matching(text, 0)
    results = text[end:].strip().removeprefix("->").strip()
    if results.startswith("("):
        results = results[1:-1]
    return tuple(map(parse_type, split(text[1 : end - 1]))), tuple(map(parse_type, split(results)))


class Attributes:
    """The attributes of an op: their MLIR text, and what it says when asked with a type in mind."""

    __slots__ = ("raw",)

    def __init__(self, raw: dict[str, str]) -> None:
        self.raw = raw

    def __contains__(self, name: str) -> bool:
        return name in self.raw

    def text(self, name: str, default: str = "") -> str:
        """The attribute as MLIR prints it."""
        return self.raw.get(name, default)

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute."""
        found = self.raw.get(name)
        if found is None:
            if default is None:
                raise ModuleFormatError(f"the attribute {name} is missing")
            return default
        number = found.partition(":")[0].strip()
        if not re.fullmatch(r"-?\d+", number):
            raise ModuleFormatError(f"the attribute {name} is {found}, no integer")
        return int(number)

    def boolean(self, name: str, default: bool = False) -> bool:
        """A boolean or unit attribute."""
        found = self.raw.get(name)
        return default if found is None else found not in ("false", "0 : i1")

    def string(self, name: str, default: str = "") -> str:
        """A string attribute without its quotes."""
        found = self.raw.get(name)
        return default if found is None else unquote(found)

    def integers(self, name: str) -> tuple[int, ...]:
        """An array of integers, dense or not."""
        return integers(self.raw.get(name, ""))

    def array(self, name: str) -> list[str]:
        """The elements of an array attribute, as texts."""
        return split(self.raw.get(name, "[]").strip()[1:-1])

    def keyword(self, name: str, default: str = "") -> str:
        """The word inside ``#dialect.kind<word>``."""
        found = re.search(r"<\s*(?:kind = )?([\w.]+)\s*>", self.raw.get(name, ""))
        return default if found is None else found[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __repr__(self) -> str:
        return f"Attributes({self.raw})"


def integers(text: str) -> tuple[int, ...]:
    """The numbers of ``array<i64: 1, 2>``, ``[1, 2]`` or ``dense<…>``, without their types."""
    body = re.sub(r"array<\w+:?|dense<|: *(?:[if]\d+|index|vector<[^>]*>|tensor<[^>]*>)", " ", text)
    return tuple(1 if n == "true" else 0 if n == "false" else int(n) for n in re.findall(r"-?\d+|true|false", body))


def unquote(text: str) -> str:
    r"""A string attribute's content; MLIR writes what is not printable as ``\0A``."""
    body = text.strip()
    return unescaped(body).decode(errors="replace") if body.startswith('"') else body


def unescaped(quoted: str) -> bytes:
    """The bytes of a string between its quotes."""
    body = quoted[1 : quoted.rindex('"')].encode()
    return re.sub(rb"\\([0-9A-Fa-f]{2}|.)", lambda m: bytes([int(m[1], 16)]) if len(m[1]) == 2 else m[1], body)


@functools.lru_cache(maxsize=4096)
def parse_attributes(text: str) -> Attributes:
    """``predicate = 4 : i64, nsw`` as a dictionary of texts."""
    raw: dict[str, str] = {}
    for part in split(text):
        name, equals, value = part.partition(" = ")
        raw[name.strip().strip('"')] = value.strip() if equals else "unit"
    return Attributes(raw)


def parse_constant(text: str) -> Any:
    """An ``arith.constant``'s value: a Python number, NumPy scalar or array of the type it says."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    value, type_text = _value_and_type(text)
    found = parse_type(type_text)
    if value.startswith("dense<"):
        return _dense(value[6:-1].strip(), found)
    return scalar(value, found)


def _value_and_type(text: str) -> tuple[str, str]:
    depth_end = matching(text, 5) if text.startswith("dense<") else text.index(":")
    value, rest = text[:depth_end], text[depth_end:]
    return value.strip(), rest.partition(":")[2].strip()


def scalar(text: str, of: Type) -> Any:
    """One number of a type: a Python int or bool, or a NumPy scalar for floats."""
    if of.is_float:
        if text.startswith(("0x", "0X")):
            width = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[max(8, of.bits)]
            return np.array(int(text, 16), width).view(of.dtype)[()]
        return of.dtype.type(float(text))
    if of.element == "i1":
        return text in ("true", "1", "-1")
    return wrap(int(text, 0), 64 if of.element == "index" else of.bits)


def wrap(value: int, bits: int) -> int:
    """The two's complement number of ``bits`` bits."""
    half = 1 << (bits - 1)
    return ((value + half) & ((1 << bits) - 1)) - half


def _dense(text: str, of: Type) -> Any:
    if text.startswith('"0x'):
        data = bytes.fromhex(text[3:-1])
        if of.element == "i1":
            flat = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: of.size].astype(bool)
        else:
            flat = np.frombuffer(data, of.dtype)
        return np.broadcast_to(flat if flat.size == 1 else flat.reshape(of.shape), of.shape)
    if not text.startswith("["):
        return of.dtype.type(scalar(text, of))
    flat = [scalar(part, of) for part in re.findall(r"[^\s,\[\]]+", text)]
    return np.array(flat, of.dtype).reshape(of.shape)
