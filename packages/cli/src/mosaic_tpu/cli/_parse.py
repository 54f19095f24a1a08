"""JSON and TOML that others wrote: a name stands once, and nothing is deeper than the code that reads it can go."""

from __future__ import annotations

import json
import tomllib
from typing import Any, Final, cast

#: How deep lists and objects may stand in one another; what there is of ours needs ten.
_DEEPEST: Final = 100
_TOO_DEEP: Final = "it is nested too deeply"


def from_json(text: str | bytes) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: it is none, gives a name twice, or is nested too deeply.
    """
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_depth(found)
    return found


def from_toml(text: str) -> Any:
    """What a TOML text says; raises as `from_json` does."""
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_depth(found)
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it gives {name!r} twice")
        found[name] = value
    return found


def _check_depth(value: object, left: int = _DEEPEST) -> None:
    if left == 0:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict):
        for inner in cast("dict[str, Any]", value).values():
            _check_depth(inner, left - 1)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            _check_depth(inner, left - 1)
