"""What the search looks through: names whole, as they are typed, and the parts of each beside it, unseen.

A name such as `pl.when` or `BlockSpec` is one word to the search, so that it is found before all that begins with `pl`.
Words are found from their beginning; so that `dma` finds `b.enqueue_dma`, what follows each dot, underscore and hump of
a name stands behind it in the index, in an element that is never shown.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_PART: Final = re.compile(r"(?<=[._])(?=[A-Za-z])|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: Tags and entities, which are no text.
_MARKUP: Final = re.compile(r"(<[^>]*>|&#?\w+;)")


def parts(name: str) -> list[str]:
    """The ends of a name from each part on, the longest first: those of ``b.enqueue_dma`` are enqueue_dma and dma."""
    return [end for found in _PART.finditer(name) if len(end := name[found.start() :]) > 1]


def with_parts(html: str) -> str:
    """A text of the index with the parts of names behind them, where they are not words of the text already."""
    known = {name.lower() for text in _MARKUP.split(html)[::2] for name in _NAME.findall(text)}

    def beside(found: re.Match[str]) -> str:
        new = [part for part in parts(found[0]) if part.lower() not in known]
        known.update(part.lower() for part in new)
        return found[0] + (f"<i hidden> {' '.join(new)} </i>" if new else "")

    pieces = _MARKUP.split(html)
    pieces[::2] = [_NAME.sub(beside, text) for text in pieces[::2]]
    return "".join(pieces)


def write(site: Path) -> None:
    """Add the parts to the index of a built site."""
    file = site / "search" / "search_index.json"
    index: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for entry in index["docs"]:
        for field in ("title", "text"):
            entry[field] = with_parts(entry[field])
    file.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
