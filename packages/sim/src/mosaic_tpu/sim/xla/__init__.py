"""The fast engine: a Mosaic module as one JAX function, jitted on the CPU.

Memrefs are arrays that ops replace; loops and branches carry those that they write. A DMA is made where it starts, and
nothing waits: hazards are the reference engine's to find. What is left of the checks is a flag, the number of the first
op that left its memory or did what is undefined.

XLA's CPU code flushes denormals to zero, and NumPy does not: results below 1.2e-38 may differ from the reference's. It
also makes one fused multiply-add of a product and a sum of f32, which the reference rounds one after the other, and it
may lose a NaN in a maximum over many elements.
"""

from __future__ import annotations

from mosaic_tpu.sim.xla import (
    arith as _arith,
)
from mosaic_tpu.sim.xla import (
    cf as _cf,
)
from mosaic_tpu.sim.xla import (
    conversions as _conversions,
)
from mosaic_tpu.sim.xla import (
    func as _func,
)
from mosaic_tpu.sim.xla import (
    math as _math,
)
from mosaic_tpu.sim.xla import (
    memref as _memref,
)
from mosaic_tpu.sim.xla import (
    scf as _scf,
)
from mosaic_tpu.sim.xla import (
    tpu_data as _tpu_data,
)
from mosaic_tpu.sim.xla import (
    tpu_debug as _tpu_debug,
)
from mosaic_tpu.sim.xla import (
    tpu_dma as _tpu_dma,
)
from mosaic_tpu.sim.xla import (
    tpu_matmul as _tpu_matmul,
)
from mosaic_tpu.sim.xla import (
    tpu_memory as _tpu_memory,
)
from mosaic_tpu.sim.xla import (
    vector as _vector,
)
from mosaic_tpu.sim.xla._rules import RULES, UNSUPPORTED, Rule
from mosaic_tpu.sim.xla._run import XlaResult, run_xla, translate

__all__ = ["RULES", "UNSUPPORTED", "Rule", "XlaResult", "run_xla", "translate"]

#: Imported for the rules they register.
_DIALECTS = (
    _arith, _cf, _conversions, _func, _math, _memref, _scf, _tpu_data, _tpu_debug, _tpu_dma, _tpu_matmul, _tpu_memory,
    _vector,
)  # fmt: skip
