"""What is wrong with a dump."""

from __future__ import annotations

from typing import ClassVar

from mosaic_tpu.aot.errors import AotError


class DumpError(AotError, ValueError):
    """A dump of the compiler is missing, damaged, or of a form that is not known here."""

    default_hint: ClassVar[str] = "compile the kernel again with schedule=True; another libtpu may write other dumps"
