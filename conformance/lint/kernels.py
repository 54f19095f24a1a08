"""The kernels of the zoo, by preset, and those of the jax wheel, as programs for lint and the compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from conformance.cases.kernels import CASES
from conformance.harness import pallas
from conformance.numerics import matmul, wheel_attention
from conformance.numerics.case import NumericsCase
from mosaic_tpu import zoo

#: How many configs of a kernel are compiled: the first ones, which differ most.
_CONFIGS: Final = 4
#: Of the ragged paged attention: accepted, and refused for heads wider than 128.
_RAGGED: Final = ("bf16", "bf16-256")


def programs() -> Iterator[tuple[str, Callable[[], str]]]:
    """Each kernel's name, and how its program is made."""
    for info in zoo.KERNELS.values():
        for name, config in info.presets.items():
            yield f"zoo: {info.name}, {name}", lambda info=info, config=config: info.kernel.lower(config).stablehlo
    counts: dict[str, int] = {}
    for case in (*matmul.CASES, *wheel_attention.CASES):
        counts[case.kernel] = counts.get(case.kernel, 0) + 1
        if case.kernel.startswith("jax:") and counts[case.kernel] <= _CONFIGS:
            yield f"{case.kernel}, {case.config}", functools.partial(_lowered, case)
    for one in CASES:
        if one.kernel == "ragged_paged_attention" and one.config in _RAGGED:
            make = functools.partial(pallas.lower_to_stablehlo, one.theirs, *one.args)
            yield f"jax: {one.kernel}, {one.config}", make


def _lowered(case: NumericsCase) -> str:
    return case.program(list(case.inputs(np.random.default_rng(0))))
