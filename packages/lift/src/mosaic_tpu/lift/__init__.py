"""Read Mosaic kernels back into source: Python that uses the builder and gives the same bytes.

>>> from mosaic_tpu.lift import build, diff, lift, run
>>> source = lift(text)
>>> lift(build(source)) == source
True
"""

from mosaic_tpu.builder.errors import internal_folder as _internal_folder
from mosaic_tpu.lift._call import run as run
from mosaic_tpu.lift._diff import diff as diff
from mosaic_tpu.lift._lift import lift as lift
from mosaic_tpu.lift._run import build as build
from mosaic_tpu.lift.errors import BuildError as BuildError
from mosaic_tpu.lift.errors import ChoiceError as ChoiceError
from mosaic_tpu.lift.errors import LiftError as LiftError
from mosaic_tpu.lift.errors import MissingKernelPackageError as MissingKernelPackageError
from mosaic_tpu.lift.errors import NewerVersionError as NewerVersionError
from mosaic_tpu.lift.errors import NotExactError as NotExactError
from mosaic_tpu.lift.errors import OptionError as OptionError
from mosaic_tpu.lift.errors import SourceError as SourceError
from mosaic_tpu.lift.errors import UnsupportedModuleError as UnsupportedModuleError

_internal_folder(__path__[0])

__all__ = [
    "BuildError",
    "ChoiceError",
    "LiftError",
    "MissingKernelPackageError",
    "NewerVersionError",
    "NotExactError",
    "OptionError",
    "SourceError",
    "UnsupportedModuleError",
    "build",
    "diff",
    "lift",
    "run",
]
