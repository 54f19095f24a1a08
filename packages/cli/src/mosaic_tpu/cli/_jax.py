"""JAX, kept from looking for a TPU, which takes seconds: only `tune --measure` uses one."""

from __future__ import annotations

import os
from typing import Final

_NO_TPU: Final = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
#: Or XLA would tell of each client it makes.
_QUIET: Final = {"TF_CPP_MIN_LOG_LEVEL": "1"}
#: Which of them the user had not set.
_ours: Final[list[str]] = []


def without_tpu() -> None:
    """Before jaxlib is loaded, which reads them then; what the user has set stays."""
    for name, value in (_NO_TPU | _QUIET).items():
        if name not in os.environ:
            os.environ[name] = value
            _ours.append(name)


def with_tpu() -> None:
    """Let JAX look for a TPU all the same."""
    for name in _NO_TPU:
        if name in _ours:
            del os.environ[name]
            _ours.remove(name)


def users_environment() -> dict[str, str]:
    """As the user has it."""
    return {name: value for name, value in os.environ.items() if name not in _ours}
