"""What a verb works on: a module's file, standard input, or a kernel of the zoo."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from mosaic_tpu.cli._errors import UsageError, unreadable
from mosaic_tpu.cli._kernels import Chosen, chosen, is_config, near
from mosaic_tpu.cli._parse import from_json
from mosaic_tpu.zoo import KERNELS

_NAMES: Final = "name a module's file, - for standard input, or KERNEL[:PRESET]"
_MAGIC: Final = b"ML\xefR"
#: A line of a text that MLIR was not told the name of.
_UNNAMED: Final = re.compile(r'(?:error: )?"-":(\d+):\d+: (?:error: )?')
_NAMELESS: Final = re.compile(r"(?<!\S)-:(?=\d+\b)")


@dataclass(frozen=True)
class Source:
    """Something that holds a Mosaic module.

    Attributes:
        name: for people.
        data: MLIR or StableHLO text, bytecode, or a lowered kernel.
        chosen: the zoo's kernel, if it is one.
    """

    name: str
    data: Any = field(repr=False)
    chosen: Chosen | None = None

    @cached_property
    def program(self) -> str | None:
        """The text, where this is a StableHLO program with kernels in it and not one module."""
        from mosaic_tpu.sim import ir

        return ir.program_text(self.data) if isinstance(self.data, str) else None

    def placed(self, value: Any) -> Any:
        """An answer, with this source's name where MLIR, which read its text, has ``-``."""
        if not isinstance(self.data, str):
            return value
        if isinstance(value, str):
            return _NAMELESS.sub(f"{self.name}:", value)
        if isinstance(value, dict):
            return {name: self.placed(v) for name, v in cast("dict[str, Any]", value).items()}
        return [self.placed(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value

    @contextmanager
    def named(self) -> Generator[None]:
        """While it is read and worked on: an error of a module's text or bytes says whose they are."""
        try:
            yield
        except Exception as error:
            if self.chosen is None and hasattr(error, "location"):
                self._place(error)
            raise

    def _place(self, error: Any) -> None:
        """Put this module's name where MLIR, which was not told it, has ``-``."""
        found = _UNNAMED.search(error.summary)
        if found is not None:
            error.summary = error.summary.replace(found[0], "", 1)
        line = f":{found[1]}" if found is not None and found[1] != "0" and isinstance(self.data, str) else ""
        error.location = self.placed(error.location or f"{self.name}{line}")

    def body(self, kernel: str | None = None) -> str | bytes:
        """Text or bytecode of one module, read once and found to be sound.

        Args:
            kernel: which kernel of a program, by its name or number.

        Raises:
            UsageError: a program holds several kernels, or not this one.
            ModuleFormatError: there is no Mosaic module in it.
        """
        if self.chosen is not None:
            return self.data.body
        with self.named():
            return self._body(kernel)

    def text(self, kernel: str | None = None, *, canonical: bool = False) -> str:
        """A module's text, as it is or after canonicalize and cse; raises as `body` does."""
        from mosaic_tpu.builder import body_text

        return body_text(self.body(kernel), canonical=canonical)

    def _body(self, kernel: str | None) -> str | bytes:
        from mosaic_tpu.sim import ir

        if self.program is not None:
            calls = ir.calls_of(self.program)
            named = [(call.kernel_name or f"kernel {n}", call.body) for n, call in enumerate(calls)]
            body = picked(named, kernel, self.name)
        elif kernel is None:
            body = self.data
        else:
            raise UsageError(f"{self.name} is one module and no program", "leave --kernel out")
        ir.read(body)  # in a process of its own, where it is bytecode: MLIR may crash on damaged bytes
        return body


def picked[T](kernels: Sequence[tuple[str, T]], which: str | None, where: str) -> T:
    """The kernel that is meant of those in a program; several that are the same are one.

    Args:
        kernels: name and content of each.
        which: a name or a number; not needed where there is one kernel.
        where: the program, for people.

    Raises:
        UsageError: none is meant, or several.
    """
    if which is not None and which.isdecimal():
        wanted = kernels[int(which) :][:1]
    else:
        wanted = [kernel for kernel in kernels if which in (None, kernel[0])]
    if len({content for _, content in wanted}) != 1:
        count = "several kernels" if wanted else "no kernel"
        what = f"{len(kernels)} kernels" if which is None else f"{count} {which!r}"
        listed = ", ".join(f"{n} {name}" for n, (name, _) in enumerate(kernels))
        raise UsageError(f"{where} holds {what}", f"--kernel takes a name or a number: {listed}")
    return wanted[0][1]


def once(names: Sequence[str]) -> None:
    """Names that are read each for itself.

    Raises:
        UsageError: standard input is among them twice.
    """
    if list(names).count("-") > 1:
        raise UsageError("standard input can be read once, and - stands twice", "name a file in place of one -")


def source(name: str, settings: Sequence[str] | None = None) -> Source:
    """What a name stands for.

    Raises:
        UsageError: there is no such file or kernel.
    """
    if name == "-":
        if sys.stdin.isatty():
            raise UsageError("standard input is a terminal", "pipe a module into the command, or name a file")
        return _module("standard input", sys.stdin.buffer.read(), settings)
    if not name:
        raise UsageError("the name of the source is empty", _NAMES)
    file = Path(name)
    data = _bytes_of(file) if _is_file(file) else None
    if data is not None and not _is_config(file, data):
        return _module(name, data, settings)
    kernel = name.partition(":")[0]
    if kernel not in KERNELS and _is_folder(file):
        raise unreadable(name, IsADirectoryError(), "")
    if not is_config(name) and kernel not in KERNELS:
        also = f", and the zoo has no kernel {kernel!r}" if kernel.isidentifier() else ""
        hint = near(kernel, KERNELS) if also else _NAMES
        raise UsageError(f"there is no file {name}{also}", hint)
    found = chosen(name, settings, data)
    return Source(found.name, found.info.kernel.lower(found.config), found)


def _module(name: str, data: bytes, settings: Sequence[str] | None) -> Source:
    """A module as it is: nothing of it can be set."""
    if settings:
        raise UsageError(f"--set changes a zoo kernel's config, and {name} is a module", "leave --set out")
    with Source(name, data).named():
        return Source(name, _decoded(data, name))


def _is_file(file: Path) -> bool:
    try:
        return file.exists() and not file.is_dir()
    except (OSError, ValueError):  # longer than a name may be, or with a zero in it
        return False


def _is_folder(file: Path) -> bool:
    try:
        return file.is_dir()
    except (OSError, ValueError):
        return False


def _bytes_of(file: Path) -> bytes:
    from mosaic_tpu.sim import ir

    try:
        return ir.contents_of(file, pipes=True)
    except OSError as error:
        raise unreadable(file, error, "give a file that can be read") from None
    except MemoryError:
        raise MemoryError(f"{file} does not fit into it") from None


def _is_config(file: Path, data: bytes) -> bool:
    """Whether a file is a kernel's config; a JSON file may be a custom call's."""
    return file.suffix == ".toml" or (file.suffix == ".json" and _call_in(data) is None)


def _decoded(given: bytes, name: str) -> str | bytes:
    """Bytecode as it is; the body in a custom call's backend config; all else as text, a program's in any form."""
    from mosaic_tpu.sim import ir

    if isinstance(data := ir.contents(given), str):
        return data
    if data.startswith(_MAGIC):
        return data
    if (body := _call_in(data)) is not None:
        return body
    try:
        return data.decode()
    except UnicodeDecodeError:
        from mosaic_tpu.sim.errors import ModuleFormatError

        raise ModuleFormatError(f"{name} is neither MLIR text nor bytecode", op="read") from None


def _call_in(data: bytes) -> bytes | None:
    """The body in a custom call's backend config."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        read = from_json(data)
        return base64.b64decode(read["custom_call_config"]["body"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        return None
