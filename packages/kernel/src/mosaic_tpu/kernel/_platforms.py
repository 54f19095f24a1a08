"""What a kernel does on a platform that is not a TPU: a CPU simulates it, all others refuse it.

The rules get what the TPU's rule gets, and return the results' MLIR values as it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mosaic_tpu.kernel import _compat
from mosaic_tpu.kernel._rendezvous import Activity, NoMeetingError, Rendezvous
from mosaic_tpu.kernel._simulator import Arrays, Simulation, blames_the_kernel, prepare
from mosaic_tpu.kernel.errors import NoTPUError, RendezvousError
from mosaic_tpu.kernel.extras import SideEffects

if TYPE_CHECKING:
    from mosaic_tpu.kernel._primitive import Call

#: How long a device that is done waits for others that have not even come to the call.
_SECONDS_TO_LEAVE: Final = 1.0

_activity: Final = Activity()


def refuse(context: Any, *operands: Any, call: Call) -> NoReturn:
    """Only TPUs run kernels, and only CPUs simulate them."""
    del operands
    platforms = ", ".join(p for p in context.platforms or context.module_context.platforms if p != "tpu")
    raise NoTPUError(
        f"the kernel would run on {platforms}, and Mosaic kernels run on TPUs, or simulated on CPUs",
        op=call.kernel.name,
    )


def lower_to_simulator(context: Any, *operands: Any, call: Call) -> Any:
    """A callback into this process, which simulates the kernel."""
    name = call.kernel.name
    if not _compat.is_for_this_process(context):
        raise NoTPUError(
            "the kernel would run on cpu, and the simulator is part of this process: "
            "no program for several platforms, or to be exported, can hold it",
            op=name,
        )
    _compat.refuse_partitioning(context, name, communicates=call.communicates)
    return _compat.callback(
        context,
        operands,
        _site(call, _compat.device_count(context)),
        has_side_effect=call.extras.side_effects is not SideEffects.PURE,
    )


def simulate_eagerly(call: Call, operands: tuple[Any, ...]) -> Arrays:
    """The results of concrete operands, for one device."""
    with _activity.running():
        return prepare(call).alone(operands)


def _site(call: Call, devices: int) -> Callable[..., Arrays]:
    """What XLA calls for each device: with its number, then its operands."""
    simulation = prepare(call)
    if devices == 1:
        return _Alone(simulation)
    return (_Together if call.communicates else _Apart)(simulation, devices)


class _Alone:
    """A call of a program that runs on one device."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation

    def __call__(self, device: Any, *operands: Any) -> Arrays:
        try:
            return self.run(int(device), operands)
        except Exception as error:
            # JAX shows the whole traceback as text, of which the kernel's author needs the message.
            raise (error.with_traceback(None) if blames_the_kernel(error) else error) from None

    def run(self, device: int, operands: Arrays) -> Arrays:
        del device
        with _activity.running():
            return self.simulation.alone(operands)


class _Together(_Alone):
    """A call of devices that communicate: the last to come simulates all of them."""

    def __init__(self, simulation: Simulation, devices: int) -> None:
        super().__init__(simulation)
        self.meetings = Rendezvous(devices, _activity)

    def run(self, device: int, operands: Arrays) -> Arrays:
        seconds = self.simulation.seconds_to_meet
        try:
            return self.meetings.meet(device, operands, self._simulate, seconds=seconds)[device]
        except NoMeetingError as error:
            raise RendezvousError(str(error), op=self.simulation.name, location=self.simulation.where) from None

    def _simulate(self, inputs: dict[int, Arrays]) -> list[Arrays]:
        with _activity.running():
            return self.simulation.together([inputs[d] for d in sorted(inputs)])


class _Apart(_Alone):
    """A call of devices that do not communicate.

    Each is simulated alone, and then they leave together. An error reaches every device: a device that went on would
    wait in the program's next collective for the one that failed, and XLA ends the process of those who wait in vain.
    """

    def __init__(self, simulation: Simulation, devices: int) -> None:
        super().__init__(simulation)
        self.meetings: Rendezvous | None = Rendezvous(devices, _activity)

    def run(self, device: int, operands: Arrays) -> Arrays:
        outputs, error = self._attempt(device, operands)
        meetings = self.meetings
        if meetings is not None:
            try:
                meetings.meet(device, error, _raise_first, seconds=_SECONDS_TO_LEAVE)
            except NoMeetingError:
                self.meetings = None  # not all devices call the kernel alike: nobody waits again
        if error is not None:
            raise error
        return outputs

    def _attempt(self, device: int, operands: Arrays) -> tuple[Arrays, Exception | None]:
        try:
            return super().run(device, operands), None
        except Exception as error:
            found: Any = error
            if getattr(found, "device", "") is None:  # alone, it did not know which of several it is
                found.device = f"device {device}"
            return (), error


def _raise_first(errors: dict[int, Exception | None]) -> None:
    for device in sorted(errors):
        if (error := errors[device]) is not None:
            raise error
