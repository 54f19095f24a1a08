"""Configs: what may be one, and the key under which everything built from one is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Mapping
from enum import Enum
from typing import Any, Final, cast

import jax
import numpy as np

from mosaic_tpu.kernel.errors import ConfigError, KernelDefinitionError

_FROZEN: Final = "make it a frozen dataclass of numbers, strings, tuples and dtypes"

_PLAIN: Final = frozenset({int, bool, str, bytes, type(None)})


def check_class(name: str, config: Any) -> None:
    """A config class must be one whose instances cannot change and are compared by value."""
    if not isinstance(config, type):
        raise KernelDefinitionError(f"config is {config!r}, not a class", op=name, hint=_FROZEN)
    hasher: Any = config.__hash__
    if _is_dataclass(config):
        wrong = None if _is_frozen(config) else "is a dataclass that can change"
    else:
        wrong = (
            "cannot be hashed" if hasher is None else "is compared by identity" if hasher is object.__hash__ else None
        )
    if wrong:
        raise KernelDefinitionError(f"{config.__name__} {wrong}", op=name, hint=_FROZEN)


def check_config(name: str, config: type, cfg: object) -> None:
    """A config must be an instance of the kernel's class."""
    if not isinstance(cfg, config):
        raise ConfigError(f"cfg is a {type(cfg).__name__}", op=name, hint=f"pass cfg={config.__name__}(…)")


def exact(name: str, value: Any, path: str = "cfg") -> Hashable:
    """A key that tells apart what ``==`` does not: 1, 1.0 and True, or 0.0 and -0.0, give other kernels.

    Raises:
        ConfigError: something in the value can change, is an array, or is a container of unknown kind.
    """
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return kind, value
    if _is_a(value, float):
        return kind, value.hex()
    if _is_a(value, np.generic):
        return kind, bytes(value.data)
    if _is_a(value, jax.Array):
        raise ConfigError(f"{path} is an array", op=name, hint="arrays are inputs of the call: give its size or shape")
    if _is_a(value, tuple):
        return kind, *[exact(name, v, f"{path}[{i}]") for i, v in enumerate(value)]
    if _is_dataclass(kind):
        if not _is_frozen(kind):
            raise _changeable(name, path, value)
        return kind, *[exact(name, getattr(value, f.name), f"{path}.{f.name}") for f in dataclasses.fields(kind)]
    try:
        hash(value)
    except TypeError:
        raise _changeable(name, path, value) from None
    if _is_a(value, Mapping):
        return kind, *[(exact(name, k, f"a key of {path}"), exact(name, v, f"{path}[{k!r}]")) for k, v in value.items()]
    if _is_a(value, frozenset):
        return kind, frozenset(exact(name, v, f"a member of {path}") for v in value)
    if _is_a(value, Collection) and not _is_a(value, str | bytes | type | Enum):
        raise ConfigError(f"{path} is a {kind.__name__}, whose members are not told apart", op=name, hint=_FROZEN)
    return kind, value


def _is_a(value: object, kind: Any) -> bool:
    return isinstance(value, kind)


def _is_dataclass(cls: Any) -> bool:
    return dataclasses.is_dataclass(cls)


def _is_frozen(cls: Any) -> bool:
    return cls.__dataclass_params__.frozen


def _changeable(name: str, path: str, value: object) -> ConfigError:
    wrong = f"{path} is a {type(value).__name__}, which can change"
    return ConfigError(wrong, op=name, hint=f"{_FROZEN}: a built kernel is kept and used again")
