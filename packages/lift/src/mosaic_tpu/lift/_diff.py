"""What differs between two modules, as source."""

from __future__ import annotations

import difflib
from typing import Any

from mosaic_tpu.lift._lift import Style, lift


def diff(a: Any, b: Any, *, style: Style = "ops", kernel: str | int | None = None) -> str:
    """The difference of two modules as a unified diff of their lifted sources; empty if those are the same.

    Names of values depend on what makes them and on what lives beside them, so that an op more or less changes the
    lines around it and not those after it.

    Args:
        a: a module, as `lift` takes it.
        b: another.
        style: of the sources, as `lift` takes it.
        kernel: which kernel, by its name or number, where these are programs with several.

    Raises:
        LiftError: one of them cannot be lifted.

    Example:
        >>> from mosaic_tpu.lift import diff
        >>> print(diff(text, text.replace("addf", "mulf")))
        --- a
        +++ b
        ...
        -    plus = input_0 + input_0
        -    b.vector_store(a.output_0, plus)
        +    times = input_0 * input_0
        +    b.vector_store(a.output_0, times)
    """
    texts = [lift(source, style=style, kernel=kernel).splitlines() for source in (a, b)]
    return "\n".join(difflib.unified_diff(*texts, fromfile="a", tofile="b", lineterm=""))
