"""A module as MLIR text."""

from __future__ import annotations

from mosaic_tpu.cli._input import Source


def module_text(source: Source, kernel: str | int | None = None, *, canonical: bool = False) -> str:
    """A module's text, as it is or after canonicalize and cse.

    Raises:
        ModuleFormatError: there is no Mosaic module in it.
    """
    from mosaic_tpu.builder import body_text

    return body_text(source.body(kernel), canonical=canonical)
