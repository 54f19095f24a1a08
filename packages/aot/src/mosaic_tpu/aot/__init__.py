"""The TPU compiler without a TPU: compile, lint, look at the schedule of, and tune Mosaic kernels.

Each error is a class of `mosaic_tpu.aot.errors`.
"""

from mosaic_tpu.aot._compat import compiler_version as compiler_version
from mosaic_tpu.aot._compile import Compilation as Compilation
from mosaic_tpu.aot._compile import compile as compile
from mosaic_tpu.aot._compile import compile_all as compile_all
from mosaic_tpu.aot._lint import RULES as RULES
from mosaic_tpu.aot._lint import Finding as Finding
from mosaic_tpu.aot._lint import LintReport as LintReport
from mosaic_tpu.aot._lint import lint as lint
from mosaic_tpu.aot._operands import Operand as Operand
from mosaic_tpu.aot._operands import operands as operands
from mosaic_tpu.aot._roofline import Roofline as Roofline
from mosaic_tpu.aot._roofline import roofline as roofline
from mosaic_tpu.aot._space import space as space
from mosaic_tpu.aot._specialize import Segment as Segment
from mosaic_tpu.aot._specialize import Specialized as Specialized
from mosaic_tpu.aot._specialize import specialize as specialize
from mosaic_tpu.aot._timeline import Timeline as Timeline
from mosaic_tpu.aot._tune import tune as tune
from mosaic_tpu.aot._tuning import Trial as Trial
from mosaic_tpu.aot._tuning import Tuning as Tuning
from mosaic_tpu.aot._vmem import VmemNeed as VmemNeed
from mosaic_tpu.aot._vmem import vmem_need as vmem_need
from mosaic_tpu.aot._work import Work as Work
from mosaic_tpu.aot.errors import AotError as AotError
from mosaic_tpu.aot.errors import CompileError as CompileError
from mosaic_tpu.aot.schedule import Schedule as Schedule
from mosaic_tpu.aot.schedule import ScheduleDiff as ScheduleDiff
from mosaic_tpu.aot.schedule import diff as diff
from mosaic_tpu.aot.targets import TARGETS as TARGETS
from mosaic_tpu.aot.targets import Generation as Generation
from mosaic_tpu.aot.targets import Target as Target
from mosaic_tpu.aot.targets import find_target as find_target

__all__ = [
    "RULES",
    "TARGETS",
    "AotError",
    "Compilation",
    "CompileError",
    "Finding",
    "Generation",
    "LintReport",
    "Operand",
    "Roofline",
    "Schedule",
    "ScheduleDiff",
    "Segment",
    "Specialized",
    "Target",
    "Timeline",
    "Trial",
    "Tuning",
    "VmemNeed",
    "Work",
    "compile",
    "compile_all",
    "compiler_version",
    "diff",
    "find_target",
    "lint",
    "operands",
    "roofline",
    "space",
    "specialize",
    "tune",
    "vmem_need",
]
