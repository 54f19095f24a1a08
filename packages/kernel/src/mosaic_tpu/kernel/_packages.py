"""The packages that a kernel needs for some of what it does, and that need not be installed."""

from __future__ import annotations

import importlib
from types import ModuleType

from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.kernel.errors import MissingPackageError, NoTPUError


def simulator(op: str) -> ModuleType:
    """The simulator.

    Raises:
        NoTPUError: it is not installed.
    """
    summary = "the kernel would run on cpu, and the simulator is not installed"
    return _imported("mosaic_tpu.sim", NoTPUError(summary, op=op, hint="pip install mosaic-tpu-sim"))


def aot(op: str) -> ModuleType:
    """The TPU compiler, and the lint before it.

    Raises:
        MissingPackageError: it is not installed.
    """
    summary = "compiling and linting need mosaic-tpu-aot, which is not installed"
    return _imported("mosaic_tpu.aot", MissingPackageError(summary, op=op, hint="pip install 'mosaic-tpu-aot[tpu]'"))


def _imported(name: str, missing: MosaicError) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise missing from None
