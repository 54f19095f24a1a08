"""What a refusal turns out to be."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic_tpu.aot.errors import CompileError


@dataclass(frozen=True)
class Cause:
    """A refusal, understood.

    Attributes:
        error: the class.
        summary: the reason in plain words.
        hint: what helps; empty for the class's own.
        op: the op it is about, where the text does not name it.
        suspect: the ops it may be about, as `locator` takes them, where the compiler does not say.
    """

    error: type[CompileError]
    summary: str
    hint: str = ""
    op: str | None = None
    suspect: str = ""
