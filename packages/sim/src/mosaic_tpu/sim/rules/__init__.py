"""The reference engine's rules: a file per dialect, a rule per op."""

from mosaic_tpu.sim.rules import _unsupported as _unsupported
from mosaic_tpu.sim.rules import arith as arith
from mosaic_tpu.sim.rules import cf as cf
from mosaic_tpu.sim.rules import func as func
from mosaic_tpu.sim.rules import math as math
from mosaic_tpu.sim.rules import memref as memref
from mosaic_tpu.sim.rules import scf as scf
from mosaic_tpu.sim.rules import tpu_convert as tpu_convert
from mosaic_tpu.sim.rules import tpu_data as tpu_data
from mosaic_tpu.sim.rules import tpu_dma as tpu_dma
from mosaic_tpu.sim.rules import tpu_matmul as tpu_matmul
from mosaic_tpu.sim.rules import tpu_memory as tpu_memory
from mosaic_tpu.sim.rules import tpu_mxu as tpu_mxu
from mosaic_tpu.sim.rules import tpu_reduce as tpu_reduce
from mosaic_tpu.sim.rules import tpu_trace as tpu_trace
from mosaic_tpu.sim.rules import vector as vector
from mosaic_tpu.sim.rules import vector_more as vector_more
