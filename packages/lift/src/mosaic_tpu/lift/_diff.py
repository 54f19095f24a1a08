"""What differs between two modules, as source."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from mosaic_tpu.lift._lift import Style, checked_style, lifted
from mosaic_tpu.lift._source import Given, given, wanted


def diff(a: Any, b: Any, *, style: Style = "ops", kernel: str | int | None = None) -> str:
    """The difference of two modules as a unified diff of their lifted sources; empty if their bytes are the same.

    Names of values depend on what makes them and on what lives beside them, so that an op more or less changes the
    lines around it and not those after it. Arguments are called in both what the first calls them, or else the second:
    names are not in the bytes.

    Args:
        a: a module, as `lift` takes it.
        b: another.
        style: of the sources, as `lift` takes it.
        kernel: which kernel, by its name or number, where these are programs with several.

    Raises:
        LiftError: one of them cannot be lifted.
        OptionError: there is no such style.

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
    style = checked_style(style, "diff")
    pair = given(a, kernel), given(b, kernel)
    if wanted(pair[0]) == wanted(pair[1]):
        return ""
    texts = [lifted(found, style).text.splitlines() for found in _alike(*pair)]
    return "\n".join(difflib.unified_diff(*texts, fromfile="a", tofile="b", lineterm=""))


def _alike(a: Given, b: Given) -> tuple[Given, Given]:
    """With the same names, and with what is known of the call of one of them only."""
    names = [[None if name == f"arg{n}" else name for n, name in enumerate(g.module.names)] for g in (a, b)]
    if len(names[0]) == len(names[1]):
        either = tuple(x or y or f"arg{n}" for n, (x, y) in enumerate(zip(*names, strict=True)))
        a, b = (replace(g, module=replace(g.module, names=either)) for g in (a, b))
    return _called(a, b), _called(b, a)


def _called(one: Given, other: Given) -> Given:
    outputs = other.outputs if one.outputs is None else one.outputs
    return replace(one, outputs=outputs, shapes=other.shapes if one.shapes is None else one.shapes)
