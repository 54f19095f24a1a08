"""Call Mosaic kernels from JAX: the `Kernel` factory and the knobs of its custom call."""

from mosaic_tpu.builder.errors import internal_folder as _internal_folder
from mosaic_tpu.kernel._build import Operand as Operand
from mosaic_tpu.kernel._options import SimulationOptions as SimulationOptions
from mosaic_tpu.kernel._options import set_simulation_defaults as set_simulation_defaults
from mosaic_tpu.kernel._options import simulation as simulation
from mosaic_tpu.kernel.errors import ConfigError as ConfigError
from mosaic_tpu.kernel.errors import ExtrasError as ExtrasError
from mosaic_tpu.kernel.errors import InputError as InputError
from mosaic_tpu.kernel.errors import KernelDefinitionError as KernelDefinitionError
from mosaic_tpu.kernel.errors import MissingPackageError as MissingPackageError
from mosaic_tpu.kernel.errors import NoTPUError as NoTPUError
from mosaic_tpu.kernel.errors import PartitioningError as PartitioningError
from mosaic_tpu.kernel.errors import RendezvousError as RendezvousError
from mosaic_tpu.kernel.errors import SimulationOptionError as SimulationOptionError
from mosaic_tpu.kernel.errors import TransformationError as TransformationError
from mosaic_tpu.kernel.extras import CallExtras as CallExtras
from mosaic_tpu.kernel.extras import CostEstimate as CostEstimate
from mosaic_tpu.kernel.extras import SideEffects as SideEffects
from mosaic_tpu.kernel.kernel import Kernel as Kernel
from mosaic_tpu.kernel.lowered import LoweredKernel as LoweredKernel

_internal_folder(__path__[0])

__all__ = [
    "CallExtras",
    "ConfigError",
    "CostEstimate",
    "ExtrasError",
    "InputError",
    "Kernel",
    "KernelDefinitionError",
    "LoweredKernel",
    "MissingPackageError",
    "NoTPUError",
    "Operand",
    "PartitioningError",
    "RendezvousError",
    "SideEffects",
    "SimulationOptionError",
    "SimulationOptions",
    "TransformationError",
    "set_simulation_defaults",
    "simulation",
]
