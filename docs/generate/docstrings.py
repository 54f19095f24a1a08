"""For griffe, which reads the packages: ``Example:`` is a section of examples, and private fields are not shown."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_HEADING: Final = re.compile(r"^Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the heading before the docstring is parsed, and drops private fields."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Each object with a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub("Examples:", obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """A class whose members are read: griffe makes the signature of a dataclass of its fields later."""
        for name in [n for n, member in cls.members.items() if n.startswith("_") and member.is_attribute]:
            del cls.members[name]
