"""JAX, ``operator`` and limits of dtypes without their types, which pyright knows in part only."""

from __future__ import annotations

import operator
from typing import Any, Final

import jax as _jax
import jax.numpy as _numpy
import ml_dtypes as _ml_dtypes

jax: Final[Any] = _jax
jnp: Final[Any] = _numpy
lax: Final[Any] = jax.lax
operators: Final[Any] = operator
finfo: Final[Any] = _ml_dtypes.finfo
iinfo: Final[Any] = _ml_dtypes.iinfo
