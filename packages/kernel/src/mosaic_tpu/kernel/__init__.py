"""Call Mosaic kernels from JAX: the `Kernel` factory and the knobs of its custom call."""

from mosaic_tpu.builder.errors import internal_folder as _internal_folder
from mosaic_tpu.kernel._build import Operand as Operand
from mosaic_tpu.kernel.errors import ConfigError as ConfigError
from mosaic_tpu.kernel.errors import ExtrasError as ExtrasError
from mosaic_tpu.kernel.errors import InputError as InputError
from mosaic_tpu.kernel.errors import KernelDefinitionError as KernelDefinitionError
from mosaic_tpu.kernel.errors import NoTPUError as NoTPUError
from mosaic_tpu.kernel.errors import PartitioningError as PartitioningError
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
    "NoTPUError",
    "Operand",
    "PartitioningError",
    "SideEffects",
    "TransformationError",
]
