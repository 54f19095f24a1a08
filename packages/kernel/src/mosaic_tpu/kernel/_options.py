"""How kernels are simulated where they run on a CPU: options for a block of code, and for the whole process."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TypedDict, Unpack

from mosaic_tpu.kernel import _compat
from mosaic_tpu.kernel.errors import SimulationOptionError

#: Options as a key of caches: sorted by name.
type Options = tuple[tuple[str, Any], ...]


class SimulationOptions(TypedDict, total=False):
    """Keyword arguments of `mosaic_tpu.sim.simulate`, which documents them, and one of this package.

    ``rendezvous_timeout`` is how many seconds a device waits for the others of a kernel that communicates, not counting
    the time in which any kernel of the process is being simulated.
    """

    engine: Literal["numpy", "xla"]
    seed: int
    dma: Literal["random", "eager", "wait"]
    checks: bool
    collect: bool
    compare_fills: bool
    shuffle: bool
    allow_unwritten: bool | tuple[str, ...]
    cores: int
    timeout: float | None
    max_steps: int | None
    rendezvous_timeout: float


OPTION_NAMES: Final = frozenset(SimulationOptions.__annotations__)

#: Part of JAX's cache keys: a jitted function is traced again for other options.
_in_this_block: Final = _compat.user_context(())

_process: SimulationOptions = {}


@contextmanager
def simulation(**options: Unpack[SimulationOptions]) -> Generator[None]:
    """Options for the simulation of all kernels that are called in this block, by this thread.

    They hold where a kernel is called or traced. They are part of the key of JAX's caches, so a jitted function called
    in two blocks is compiled for each, and never runs with the options of another. Blocks nest; the inner one wins.
    A TPU ignores them.

    Args:
        **options: keyword arguments of `mosaic_tpu.sim.simulate`, and ``rendezvous_timeout``.

    Raises:
        SimulationOptionError: there is no such option, or its value cannot be hashed.

    Example:
        >>> with simulation(seed=7, dma="wait"):
        ...     with simulation(checks=False):
        ...         current_options()
        (('checks', False), ('dma', 'wait'), ('seed', 7))
    """
    with _in_this_block(current_options("simulation", **options)):
        yield


def set_simulation_defaults(**options: Unpack[SimulationOptions]) -> None:
    """Options for the simulation of all kernels of this process, in place of the earlier ones.

    They are read when a kernel runs, so functions that are already compiled see them too. A `simulation` block wins.

    Args:
        **options: as those of `simulation`; none for the simulator's own.

    Raises:
        SimulationOptionError: there is no such option, or its value cannot be hashed.
    """
    global _process
    _check("set_simulation_defaults", options)
    _process = options


def current_options(op: str = "simulation", **options: Any) -> Options:
    """What the blocks around say, and what goes before it."""
    _check(op, options)
    return tuple(sorted({**dict(_in_this_block.value), **options}.items())) if options else _in_this_block.value


def effective(options: Options) -> dict[str, Any]:
    """The options to run with: the process's, then a call's own."""
    return {**_process, **dict(options)}


def _check(op: str, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name not in OPTION_NAMES:
            raise SimulationOptionError(f"there is no option {name!r}", op=op)
        try:
            hash(value)
        except TypeError:
            summary = f"{name} is a {type(value).__name__}, which cannot be hashed"
            hint = "options are part of JAX's cache keys: give a number, a string or a tuple"
            raise SimulationOptionError(summary, op=op, hint=hint) from None
    limit = options.get("rendezvous_timeout", 1)
    if not isinstance(limit, int | float) or not limit > 0:
        raise SimulationOptionError(f"rendezvous_timeout is {limit!r}", op=op, hint="seconds, more than 0")


__all__ = [
    "OPTION_NAMES",
    "Options",
    "SimulationOptions",
    "current_options",
    "effective",
    "set_simulation_defaults",
    "simulation",
]
