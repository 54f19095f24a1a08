"""The fast engine: a Mosaic module as one JAX function, jitted on the CPU.

Memrefs are arrays that ops replace; loops and branches carry those that they write. A DMA is made where it starts, and
nothing waits: hazards are the reference engine's to find. What is left of the checks is a flag, the number of the first
op that left its memory or did what is undefined.

XLA's CPU code flushes denormals to zero, and NumPy does not: results below 1.2e-38 may differ from the reference's. It
also makes one fused multiply-add of a product and a sum of f32, which the reference rounds one after the other.
"""

from mosaic_tpu.sim.xla import arith as arith
from mosaic_tpu.sim.xla import cf as cf
from mosaic_tpu.sim.xla import conversions as conversions
from mosaic_tpu.sim.xla import func as func
from mosaic_tpu.sim.xla import math as math
from mosaic_tpu.sim.xla import memref as memref
from mosaic_tpu.sim.xla import scf as scf
from mosaic_tpu.sim.xla import tpu_data as tpu_data
from mosaic_tpu.sim.xla import tpu_debug as tpu_debug
from mosaic_tpu.sim.xla import tpu_dma as tpu_dma
from mosaic_tpu.sim.xla import tpu_matmul as tpu_matmul
from mosaic_tpu.sim.xla import tpu_memory as tpu_memory
from mosaic_tpu.sim.xla import vector as vector
from mosaic_tpu.sim.xla._rules import RULES, UNSUPPORTED, Rule
from mosaic_tpu.sim.xla._run import XlaResult, run_xla, translate
from mosaic_tpu.sim.xla._translation import TERMINATORS

__all__ = ["RULES", "TERMINATORS", "UNSUPPORTED", "Rule", "XlaResult", "run_xla", "translate"]
