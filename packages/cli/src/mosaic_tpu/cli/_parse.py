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
        return _shallow(json.loads(text, object_pairs_hook=_each_once))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def from_toml(text: str) -> Any:
    """What a TOML text says; raises as `from_json` does."""
    try:
        return _shallow(tomllib.loads(text))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it gives {name!r} twice")
        found[name] = value
    return found


def _shallow(value: Any, left: int = _DEEPEST) -> Any:
    """The value, which is not nested too deeply."""
    if left == 0:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, dict | list):
        several = cast("dict[str, Any] | list[Any]", value)
        for inner in several.values() if isinstance(several, dict) else several:
            _shallow(inner, left - 1)
    return value
