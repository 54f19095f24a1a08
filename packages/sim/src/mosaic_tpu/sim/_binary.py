"""StableHLO programs in binary forms: bytecode, the portable artifact, and the files that `jax.export` writes.

Such a file is a flatbuffer, a table of offsets and what they point at. Nothing but the artifact in it is read, for
which neither JAX nor flatbuffers is needed.
"""

from __future__ import annotations

import struct
from typing import Final

from mosaic_tpu.sim import _compat
from mosaic_tpu.sim.errors import ModuleFormatError

MAGIC: Final = b"ML\xefR"
#: Where the table of a `jax.export` file says the artifact's place: in its schema, which only grows.
_SLOT: Final = 30


def artifact_of(data: bytes) -> bytes | None:
    """The portable artifact in a file of `jax.export`; ``None`` if it is no such file.

    Raises:
        ModuleFormatError: there is an artifact in it, and not where it should be.
    """
    at = data.find(MAGIC)
    if at <= 0 or not _compat.is_portable(data[at:]):
        return None
    try:
        found = _vector(data)
    except struct.error:  # an offset points out of the file
        found = b""
    if not _compat.is_portable(found):
        raise ModuleFormatError(
            "a file of jax.export that is damaged", op="read", hint="write exported.serialize() to the file again"
        )
    return found


def _vector(data: bytes) -> bytes:
    (table,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, table)
    (offset,) = struct.unpack_from("<H", data, _checked(table - back) + _SLOT)
    (forward,) = struct.unpack_from("<I", data, table + offset)
    start = table + offset + forward
    (size,) = struct.unpack_from("<I", data, start)
    return data[start + 4 : start + 4 + size] if start + 4 + size <= len(data) else b""


def _checked(place: int) -> int:
    if place < 0:
        raise struct.error
    return place


def text_of(data: bytes) -> str:
    """The text of bytecode that was read elsewhere first.

    Raises:
        MLIRError, ValueError: it cannot be read.
    """
    context = _compat.program_context()
    with context, _compat.open_ir.Location.unknown():
        return _compat.debug_text(_compat.parsed(data, context))
