"""The clock of a TPU, where one is attached."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.aot._operands import only_kernel, scalar_values
from mosaic_tpu.aot._program import program_of

#: Device kinds as JAX names them.
_KINDS: Final = {
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}
_CALLS: Final = 20
_ROUNDS: Final = 5


def tpu_generation() -> str | None:
    """The generation of the attached TPU; ``None`` where JAX's default device is none."""
    import jax

    device = cast("Any", jax).devices()[0]
    return _KINDS.get(device.device_kind) if device.platform == "tpu" else None


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
    operands = dict(zip(kernel.inputs, map(cast("Any", jax).device_put, arrays), strict=True))
    run = cast("Any", jax).jit(lambda **kw: kernel(cfg=config, **kw))
    return seconds_of(lambda: run(**operands), cast("Any", jax).block_until_ready)


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
    return statistics.median(rounds)
