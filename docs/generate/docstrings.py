"""For griffe, which reads the packages: ``Example:`` in a docstring is a section of examples, not a remark."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_HEADING: Final = re.compile(r"^Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the heading before the docstring is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Each object with a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)
