"""Errors of the `Kernel` factory; all derive from `mosaic_tpu.builder.errors.MosaicError`."""

from __future__ import annotations

from mosaic_tpu.builder.errors import MosaicError


class KernelDefinitionError(MosaicError, TypeError):
    """A `Kernel` is defined inconsistently: the signature of ``run``, its config class, or its names."""


class ConfigError(MosaicError, ValueError):
    """A config is not of the kernel's config class, cannot be hashed, or has values the kernel cannot take."""


class InputError(MosaicError, ValueError):
    """An array given to a kernel is missing, unexpected, or has another shape or dtype than the config says."""


class ExtrasError(MosaicError, ValueError):
    """A call extra is malformed, or names an input or output that does not exist."""


class NoTPUError(MosaicError, RuntimeError):
    """The kernel would have to run on a device that is not a TPU, and cannot be simulated there."""

    default_hint = (
        "lower for a TPU without having one: jax.jit(f).trace(…).lower(lowering_platforms=('tpu',)), "
        "look at kernel.emit(cfg) and kernel.lower(cfg), or choose by jax.lax.platform_dependent"
    )


class MissingPackageError(MosaicError, ImportError):
    """What was asked of a kernel needs a part of mosaic-tpu that is not installed."""


class SimulationOptionError(MosaicError, TypeError):
    """There is no such option of the simulation, or its value is of the wrong kind."""

    default_hint = "see help(mosaic_tpu.kernel.SimulationOptions)"


class RendezvousError(MosaicError, TimeoutError):
    """Simulated devices that communicate wait for others, which do not come to the kernel."""

    default_hint = (
        "call the kernel on every device of the mesh, not under a condition that differs between them; "
        "if the others only need longer: simulation(rendezvous_timeout=…)"
    )


class TransformationError(MosaicError, NotImplementedError):
    """A JAX transformation that a custom call cannot follow: vmap, grad, jvp."""


class PartitioningError(MosaicError, NotImplementedError):
    """JAX would have to partition the kernel over devices by itself."""

    default_hint = "wrap the call in jax.shard_map, which gives each device its own shard"
