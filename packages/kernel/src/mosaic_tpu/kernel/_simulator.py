"""A kernel's call as the simulator runs it.

A `Simulation` is prepared where the call is traced or lowered. Running it touches neither JAX nor the kernel, so any
thread may do it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.kernel import _compat
from mosaic_tpu.kernel._build import where
from mosaic_tpu.kernel._options import Options, effective
from mosaic_tpu.kernel._packages import simulator
from mosaic_tpu.kernel.backend_config import check_collective_id

if TYPE_CHECKING:
    from mosaic_tpu.kernel._primitive import Call
    from mosaic_tpu.sim import Report

type Arrays = tuple[np.ndarray[Any, Any], ...]

_SECONDS_TO_MEET: Final = 60.0


@dataclass(frozen=True)
class Simulation:
    """One call of a kernel, ready to run.

    Attributes:
        name: the kernel's.
        module: what the simulator read, with the call's outputs and aliases.
        options: of this call.
        where: file and line of the kernel.
        may_be_unwritten: outputs that may have elements nobody writes, by their declared names.
    """

    name: str
    module: Any
    options: Options
    where: str | None
    may_be_unwritten: tuple[str, ...]

    def report(self, inputs: Sequence[Any]) -> Report:
        """What the simulator says of a run on one device."""
        return simulator(self.name).simulate(self.module, *_read_only(inputs), **self._settings())

    def alone(self, inputs: Sequence[Any]) -> Arrays:
        """The outputs on one device."""
        report = self.report(inputs)
        report.raise_for_hazards()  # where the caller gets no report, hazards that it gathered must not be lost
        return tuple(report.outputs)

    def together(self, inputs_of: Sequence[Sequence[Any]]) -> list[Arrays]:
        """The outputs on each of several devices that run at once."""
        inputs = [_read_only(i) for i in inputs_of]
        settings = self._settings()
        settings.pop("engine", None)  # only the reference engine knows several devices
        report = simulator(self.name).simulate_devices(self.module, inputs, **settings)
        report.raise_for_hazards()
        return [tuple(outputs) for outputs in report.outputs_of]

    def _settings(self) -> dict[str, Any]:
        settings = ({"allow_unwritten": self.may_be_unwritten} if self.may_be_unwritten else {}) | effective(
            self.options
        )
        settings.pop("rendezvous_timeout", None)
        return settings

    @property
    def seconds_to_meet(self) -> float:
        """How long a device waits for the others."""
        return effective(self.options).get("rendezvous_timeout", _SECONDS_TO_MEET)


def prepare(call: Call) -> Simulation:
    """Build and read the module of a call.

    Raises:
        NoTPUError: the simulator is not installed.
        ExtrasError: as on a TPU, the call's ``collective_id`` is missing, or given without a barrier.
    """
    kernel, extras = call.kernel, call.extras
    built = kernel.build_here(call.cfg)
    if not _compat.assigns_collective_ids():
        check_collective_id(built.module, extras, extras.collective_id, kernel.name)
    return Simulation(
        kernel.name,
        kernel.readings.get_or_make(call.body_key, lambda: _read(call)),
        call.options,
        where(kernel.run),
        built.declared(kernel.partial_outputs),
    )


def _read(call: Call) -> Any:
    """The simulator's module: it keeps generated code, so one and the same object is used for all runs of a call."""
    kernel = call.kernel
    built = kernel.build_here(call.cfg)
    module = simulator(kernel.name).read(built.module)
    around = dataclasses.replace(
        module.call,
        outputs=tuple((o.shape, o.dtype.numpy) for o in built.outputs),
        aliases={output: source for source, output in call.aliases.items()},
    )
    return dataclasses.replace(module, call=around, names=built.names)


def blames_the_kernel(error: Exception) -> bool:
    """Whether the error is about the kernel or its call, and not a mistake of the simulator."""
    sim = simulator("mosaic_tpu.kernel")
    return isinstance(error, MosaicError | sim.SimulationError) and not isinstance(error, sim.errors.InternalError)


def _read_only(inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """NumPy views through which nothing can be written."""
    arrays = [np.asarray(i).view() for i in inputs]
    for array in arrays:
        array.flags.writeable = False
    return arrays


__all__ = ["Arrays", "Simulation", "blames_the_kernel", "prepare"]
