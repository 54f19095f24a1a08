"""How kernels are simulated: for a block of code, for the process, and never as somebody else said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import jax
import pytest

from mosaic_tpu.kernel import SimulationOptionError, set_simulation_defaults, simulation


@pytest.fixture(autouse=True)
def the_simulator_s_own_defaults() -> Iterator[None]:
    yield
    set_simulation_defaults()


def seen(simulator: Any) -> list[dict[str, Any]]:
    return [options for *_, options in simulator.runs]


def test_options_hold_in_their_block(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    scale(x=x, cfg=cfg)
    with simulation(seed=1, dma="wait"):
        scale(x=x, cfg=cfg)
        with simulation(seed=2):
            scale(x=x, cfg=cfg)
        scale.simulate(x=x, cfg=cfg, seed=3)
    with pytest.raises(KeyError), simulation(seed=4):
        raise KeyError
    scale(x=x, cfg=cfg)
    assert seen(simulator) == [
        {},
        {"seed": 1, "dma": "wait"},
        {"seed": 2, "dma": "wait"},
        {"seed": 3, "dma": "wait"},
        {},
    ]


def test_a_jitted_function_does_not_keep_the_options_of_another_block(
    scale: Any, cfg: Any, x: Any, simulator: Any
) -> None:
    call = jax.jit(lambda x: scale(x=x, cfg=cfg))
    for seed in (1, 2, 1):
        with simulation(seed=seed):
            call(x).block_until_ready()
    call(x).block_until_ready()
    assert seen(simulator) == [{"seed": 1}, {"seed": 2}, {"seed": 1}, {}]
    assert call._cache_size() == 3
    assert len(simulator.read_modules) == 1


def test_a_traced_function_keeps_the_options_of_its_block(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    with simulation(seed=1):
        traced = jax.jit(lambda x: scale(x=x, cfg=cfg)).trace(x)
    traced.lower().compile()(x).block_until_ready()
    assert seen(simulator) == [{"seed": 1}]


def test_the_process_s_defaults_reach_what_is_compiled(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    call = jax.jit(lambda x: scale(x=x, cfg=cfg))
    call(x).block_until_ready()
    set_simulation_defaults(seed=1, checks=False)
    call(x).block_until_ready()
    with simulation(seed=2):
        call(x).block_until_ready()
    set_simulation_defaults(dma="eager")
    call(x).block_until_ready()
    assert seen(simulator) == [{}, {"seed": 1, "checks": False}, {"seed": 2, "checks": False}, {"dma": "eager"}]
    assert call._cache_size() == 2


def test_threads_have_blocks_of_their_own(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    inside, done = threading.Barrier(4), []

    def work(seed: int) -> None:
        with simulation(seed=seed):
            inside.wait(60)
            done.append((seed, scale.simulate(x=x, cfg=cfg)))
            jax.jit(lambda x: scale(x=x, cfg=cfg))(x).block_until_ready()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    scale(x=x, cfg=cfg)
    assert seen(simulator)[-1] == {}
    assert sorted(o["seed"] for o in seen(simulator)[:-1]) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("where", [simulation, set_simulation_defaults], ids=lambda f: f.__name__)
def test_other_options_are_refused(raises: Any, where: Any) -> None:
    def use(**options: Any) -> None:
        block = where(**options)
        if block is not None:
            block.__enter__()

    with raises(SimulationOptionError, where.__name__, "'sead'", hint="SimulationOptions"):
        use(sead=3)
    with raises(SimulationOptionError, where.__name__, "seed is a list"):
        use(seed=[3])
    with raises(SimulationOptionError, where.__name__, "rendezvous_timeout is 0", hint="seconds"):
        use(rendezvous_timeout=0)


def test_simulate_names_the_kernel_whose_options_are_wrong(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(SimulationOptionError, "scale_kernel", "seed is a list"):
        scale.simulate(x=x, cfg=cfg, seed=[3])


def test_a_tpu_does_not_see_them(scale: Any, cfg: Any, x: Any, tpu_text: Any) -> None:
    plain = tpu_text(lambda x: scale(x=x, cfg=cfg), x)
    with simulation(seed=3):
        assert tpu_text(lambda x: scale(x=x, cfg=cfg), x) == plain
