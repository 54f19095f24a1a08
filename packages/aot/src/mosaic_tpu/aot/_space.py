"""`space`: the configs to try."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from mosaic_tpu.aot._candidate import first_line
from mosaic_tpu.aot.errors import OptionError


def space(base: Any, **choices: Iterable[Any]) -> list[Any]:
    """Every config that differs from `base` in these fields, but those its class refuses.

    Args:
        base: a frozen dataclass.
        **choices: for each field, the values to try.

    Raises:
        OptionError: `base` is no dataclass or has no such field, there are no values for one, or the class refuses
            every config.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Config:
        ...     rows: int = 512
        ...     block: int = 128
        ...     def __post_init__(self):
        ...         if self.rows % self.block:
        ...             raise ValueError(f"{self.block} does not divide {self.rows}")
        >>> [c.block for c in space(Config(), block=(64, 96, 128))]
        [64, 128]
    """
    if not dataclasses.is_dataclass(base) or isinstance(base, type):
        raise OptionError(f"base is a {type(base).__name__}", op="space", hint="a config: a frozen dataclass")
    fields = [f.name for f in dataclasses.fields(base)]
    unknown = [name for name in choices if name not in fields]
    if unknown:
        raise OptionError(f"the config has no field {unknown[0]!r}", op="space", hint=f"one of {', '.join(fields)}")
    tried = [_choices(name, values) for name, values in choices.items()]
    configs: list[Any] = []
    said: list[str] = []
    for values in itertools.product(*tried):
        try:
            configs.append(dataclasses.replace(base, **dict(zip(choices, values, strict=True))))
        except Exception as error:  # the class's own checks, of whatever class
            said.append(first_line(error))
    if not configs:
        raise OptionError("every config is refused", op="space", hint=f"the first: {said[0]}")
    return configs


def _choices(name: str, values: Iterable[Any]) -> list[Any]:
    hint = f"values to try: {name}=(128, 256)"
    if not isinstance(values, Iterable) or isinstance(values, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"{name} is {values!r}", op="space", hint=hint)
    if not (tried := list(values)):
        raise OptionError(f"{name} has no value", op="space", hint=hint)
    return tried
