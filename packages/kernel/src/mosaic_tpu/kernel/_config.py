"""Configs: what may be one, and the key under which everything built from one is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np

from mosaic_tpu.kernel.errors import ConfigError, KernelDefinitionError

_FROZEN = "make it a frozen dataclass of numbers, strings, tuples and dtypes"


def check_class(name: str, config: object) -> None:
    """A config class must be one whose instances cannot change and are compared by value."""
    if not isinstance(config, type):
        raise KernelDefinitionError(f"config is {config!r}, not a class", op=name, hint=_FROZEN)
    if dataclasses.is_dataclass(config):
        if not _is_frozen(config):
            raise KernelDefinitionError(
                f"{config.__name__} is a dataclass that can change", op=name, hint="@dataclass(frozen=True)"
            )
    elif config.__hash__ is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise KernelDefinitionError(f"{config.__name__} cannot be hashed", op=name, hint=_FROZEN)
    elif config.__hash__ is object.__hash__:
        raise KernelDefinitionError(f"{config.__name__} is compared by identity", op=name, hint=_FROZEN)


def check_config(name: str, config: type, cfg: object) -> None:
    """A config must be an instance of the kernel's class."""
    if not isinstance(cfg, config):
        raise ConfigError(f"cfg is a {type(cfg).__name__}", op=name, hint=f"pass cfg={config.__name__}(…)")


def exact(name: str, value: Any, path: str = "cfg") -> Hashable:
    """A key that tells apart what ``==`` does not: 1, 1.0 and True, or 0.0 and -0.0, give other kernels.

    Raises:
        ConfigError: something in the value can change, or is an array.
    """
    if isinstance(value, float):
        return type(value), value.hex()
    if isinstance(value, tuple):
        return type(value), *(exact(name, v, f"{path}[{i}]") for i, v in enumerate(value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if not _is_frozen(type(value)):
            raise _changeable(name, path, value)
        fields = dataclasses.fields(value)
        return type(value), *(exact(name, getattr(value, f.name), f"{path}.{f.name}") for f in fields)
    if isinstance(value, jax.Array):
        raise ConfigError(
            f"{path} is an array", op=name, hint="arrays are inputs of the call; a config holds what is known before it"
        )
    try:
        hash(value)
    except TypeError:
        raise _changeable(name, path, value) from None
    if isinstance(value, Mapping):
        items = value.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return type(value), *((k, exact(name, v, f"{path}[{k!r}]")) for k, v in items)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    return type(value), value


def _is_frozen(cls: Any) -> bool:
    return cls.__dataclass_params__.frozen


def _changeable(name: str, path: str, value: object) -> ConfigError:
    wrong = f"{path} is a {type(value).__name__}, which can change"
    return ConfigError(wrong, op=name, hint=f"{_FROZEN}: a built kernel is kept and used again")
