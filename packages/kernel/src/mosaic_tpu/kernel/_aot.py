"""The only module that enters `mosaic_tpu.aot`: a kernel's body for the TPU compiler, and for the lint before it."""

from __future__ import annotations

from types import ModuleType

from mosaic_tpu.kernel.errors import MissingPackageError


def aot(op: str) -> ModuleType:
    """The package, if it is installed.

    Raises:
        MissingPackageError: it is not.
    """
    try:
        import mosaic_tpu.aot
    except ModuleNotFoundError as error:
        if error.name != "mosaic_tpu.aot":
            raise
        summary = "compiling and linting need mosaic-tpu-aot, which is not installed"
        raise MissingPackageError(summary, op=op, hint="pip install 'mosaic-tpu-aot[tpu]'") from None
    return mosaic_tpu.aot
