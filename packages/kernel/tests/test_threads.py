"""Threads may build, lower and call at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from conformance.harness import pallas

THREADS = 8
SECONDS = 60


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """``work(0)``, ``work(1)`` … started together; a deadlock fails after a minute."""
    barrier = threading.Barrier(THREADS)

    def start(number: int) -> Any:
        barrier.wait(SECONDS)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [f.result(SECONDS) for f in [pool.submit(start, n) for n in range(THREADS)]]


def test_the_same_config_has_the_same_bytes(scale: Any, cfg: Any) -> None:
    alone = scale.lower(cfg)
    for _ in range(5):
        scale.clear_cache()
        found = at_once(lambda _: scale.lower(cfg))
        assert {(f.body, f.debug_locations, f.backend_config) for f in found} == {
            (alone.body, alone.debug_locations, alone.backend_config)
        }


def test_other_configs_have_their_own_bytes(scale: Any) -> None:
    configs = [scale.config(rows=8 * (n + 1), factor=float(n)) for n in range(THREADS)]
    alone = [scale.lower(c).body for c in configs]
    assert len(set(alone)) == THREADS
    for _ in range(5):
        scale.clear_cache()
        assert at_once(lambda n: scale.lower(configs[n]).body) == alone


def test_text_may_be_printed_at_once(scale: Any, cfg: Any) -> None:
    assert len(set(at_once(lambda _: scale.emit(cfg)))) == 1


def test_programs_may_be_lowered_at_once(scale: Any, x: Any, tpu_text: Any) -> None:
    configs = [scale.config(factor=float(n % 4)) for n in range(THREADS)]
    bodies = at_once(lambda n: pallas.calls_in(tpu_text(lambda x: scale(x=x, cfg=configs[n]), x))[0].body)
    assert bodies == [scale.lower(c).body for c in configs]


def test_a_small_cache_may_overflow_at_once(scale: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(scale._built, "_size", 1)
    configs = [scale.config(factor=float(n)) for n in range(3)]
    alone = [scale.lower(c).body for c in configs]

    def work(number: int) -> bool:
        return all(scale.lower(configs[(number + i) % 3]).body == alone[(number + i) % 3] for i in range(12))

    assert all(at_once(work))
