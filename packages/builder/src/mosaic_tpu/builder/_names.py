"""Names that a builder or a value of it does not have."""

from __future__ import annotations

from typing import NoReturn

from mosaic_tpu.builder._spelling import hint_for
from mosaic_tpu.builder.errors import UnknownNameError


def refuse_name(owner: object, what: str | None, name: object) -> NoReturn:
    """What `__getattr__` does with a name that ``owner`` has not.

    Raises:
        UnknownNameError: always, with what to write instead.
    """
    name = str(name)
    if name.startswith("_"):  # Python and others ask an object for what it can do
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
    hint = hint_for(name, [known for known in dir(type(owner)) if not known.startswith("_")])
    raise UnknownNameError(f"{owner if what is None else what} has no {name!r}", op=name, hint=hint)
