"""Blocks that were found best for shapes of served models, from the tables beside this file.

``nox -s tune`` makes them, by the TPU compiler's estimates: nothing was measured on a TPU.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, Final, cast

import jax

#: Device kinds as JAX names them.
_GENERATIONS: Final = {
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}


def attached_generation() -> str | None:
    """The generation of the attached TPU, ``"v6e"``; ``None`` without one, or of one that has no tables."""
    device = cast("Any", jax).devices()[0]
    return _GENERATIONS.get(device.device_kind) if device.platform == "tpu" else None


def tuned(kernel: str, generation: str | None, **key: Any) -> dict[str, Any] | None:
    """The fields of a config that were found best.

    Args:
        kernel: a name of `mosaic_tpu.zoo.KERNELS`.
        generation: ``"v5e"``, ``"v6e"`` or ``"tpu7x"``; ``None`` finds nothing.
        **key: what the entry is for, all of it.

    Returns:
        ``None`` where nobody tuned that.

    Example:
        >>> sorted(tuned("matmul", "v6e", m=2048, n=2048, k=2048, x_dtype="bf16", y_dtype="bf16", out_dtype="bf16"))
        ['block_k', 'block_m', 'block_n']
    """
    for entry in _entries(kernel):
        if entry["target"] == generation and entry["key"] == key:
            return entry["best"]
    return None


@functools.cache
def _entries(kernel: str) -> list[dict[str, Any]]:
    file = resources.files(__name__) / f"{kernel}.json"
    if not file.is_file():
        return []
    return cast("list[dict[str, Any]]", json.loads(file.read_text(encoding="utf-8"))["entries"])


__all__ = ["attached_generation", "tuned"]
