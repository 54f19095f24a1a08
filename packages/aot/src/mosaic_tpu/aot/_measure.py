"""The clock of a TPU, where one is attached."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.aot._operands import only_kernel, scalar_values
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot.targets import generation_of

_CALLS: Final = 20
_ROUNDS: Final = 5


def tpu_generation() -> str | None:
    """The generation of the attached TPU; ``None`` where JAX's default device is none."""
    import jax

    device = cast("Any", jax).devices()[0]
    found = generation_of(device.device_kind) if device.platform == "tpu" else None
    return found.name if found else None


def measured(kernel: Any, config: Any, scalars: Any) -> float:
    """Seconds of a call: the median of rounds of calls that follow each other on the device."""
    import jax

    call, module = only_kernel(program_of(kernel.lower(config)))
    given = scalar_values(call, module, scalars)
    random = np.random.default_rng(0)
    arrays = [
        given[n] if n < len(given) else random.standard_normal(shape).astype(dtype)
        for n, (shape, dtype) in enumerate(call.inputs)
    ]
    on_device: Any = jax
    operands = {name: on_device.device_put(array) for name, array in zip(kernel.inputs, arrays, strict=True)}
    run = on_device.jit(functools.partial(kernel, cfg=config))
    return seconds_of(lambda: run(**operands), on_device.block_until_ready)


def seconds_of(call: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """Seconds of a call that returns before it is done."""
    wait(call())  # compiled, and the caches warm
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        result = None
        for _ in range(_CALLS):
            result = call()
        wait(result)
        rounds.append((time.perf_counter() - started) / _CALLS)
    import statistics

    return statistics.median(rounds)
