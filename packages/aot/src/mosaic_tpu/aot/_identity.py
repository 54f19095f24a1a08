"""What tells configs and programs apart, the same in every process, and what JSON has of them."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.aot._program import Program
from mosaic_tpu.sim import ir

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


def identity(value: Any) -> str:
    """What tells values apart, the same in every process: all fields of a dataclass, all bytes of an array."""
    if isinstance(value, str | bytes | bool | int | float | complex | None):
        return repr(value)
    if name := getattr(value, "__qualname__", None):  # a class or a function
        return f"{getattr(value, '__module__', '')}.{name}"
    kind = type(value).__qualname__
    if dataclasses.is_dataclass(value):
        named = ((f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value))
        return f"{kind}({', '.join(f'{name}={identity(held)}' for name, held in named)})"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return f"{kind}({', '.join(sorted(f'{identity(key)}: {identity(held)}' for key, held in items))})"
    if isinstance(value, list | tuple | set | frozenset):
        told = [identity(held) for held in cast("Iterable[Any]", value)]
        return f"{kind}({', '.join(sorted(told) if isinstance(value, set | frozenset) else told)})"
    if hasattr(value, "__array__"):
        return _array_identity(np.asarray(value))
    return f"{kind} {_ADDRESS.sub('', repr(value))}"


def _array_identity(array: np.ndarray[Any, Any]) -> str:
    held = identity(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(held).hexdigest()[:16]}"


def plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, np.generic):
        return plain(cast("Any", value).item())
    if isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping | set | frozenset) or hasattr(value, "__array__"):
        return identity(value)
    return _ADDRESS.sub("", str(value))


def differing(configs: Sequence[Any]) -> tuple[str, ...]:
    """Names of the fields that differ; none if they are not all of one dataclass."""
    if not _alike(configs):
        return ()
    names = [f.name for f in dataclasses.fields(configs[0])]
    return tuple(n for n in names if len({identity(getattr(c, n, None)) for c in configs}) > 1)


def described(configs: Sequence[Any]) -> list[dict[str, Any]]:
    """Each config by the fields that differ between them, as JSON has them."""
    if not _alike(configs):
        return [{"config": _ADDRESS.sub("", repr(c))} for c in configs]
    names = differing(configs)
    return [{n: plain(getattr(c, n, None)) for n in names} for c in configs]


def shared(configs: Sequence[Any]) -> dict[str, Any]:
    """The fields that all configs share; the first config if they are not all of one dataclass."""
    if not _alike(configs):
        return described(configs)[0]
    names = differing(configs)
    held = {f.name: getattr(configs[0], f.name, None) for f in dataclasses.fields(configs[0])}
    return {n: plain(value) for n, value in held.items() if n not in names}


def _alike(configs: Sequence[Any]) -> bool:
    return dataclasses.is_dataclass(configs[0]) and all(type(c) is type(configs[0]) for c in configs)


# --- what decides a tuning -----------------------------------------------------------------------------------------


def digest_of(*facts: Any) -> str:
    """What stands for all that decides a tuning: with another digest it is tuned anew."""
    return hashlib.sha256(identity(facts).encode()).hexdigest()[:16]


def program_digest(program: Program) -> str:
    """What stands for a program, wherever the lines of its kernels are."""
    text, known = program.text, hashlib.sha256()
    for call, module in zip(program.calls, program.modules, strict=True):
        for held in (call.body, call.debug_locations):
            text = text.replace(base64.b64encode(held).decode(), "") if held else text
        for line in _lines(module.operations[0]):
            known.update(line.encode())
    known.update(text.encode())
    return known.hexdigest()


def _lines(op: ir.Operation) -> Iterator[str]:
    """All there is of an op but its location."""
    types = [result.type.text for result in op.results]
    yield f"{op.results} = {op.name}{op.operands} {sorted(op.attributes.raw.items())} {types}\n"
    for block in op.regions:
        yield f"{block.arguments} {[a.type.text for a in block.arguments]} {{\n"
        for inner in block.operations:
            yield from _lines(inner)
        yield "}\n"
