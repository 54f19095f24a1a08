"""How ops are written, one file a dialect or theme."""

from mosaic_tpu.lift.rules import arith as arith
from mosaic_tpu.lift.rules import math as math
from mosaic_tpu.lift.rules import memref as memref
from mosaic_tpu.lift.rules import sparsecore as sparsecore
from mosaic_tpu.lift.rules import tpu_data as tpu_data
from mosaic_tpu.lift.rules import tpu_debug as tpu_debug
from mosaic_tpu.lift.rules import tpu_dma as tpu_dma
from mosaic_tpu.lift.rules import tpu_memory as tpu_memory
from mosaic_tpu.lift.rules import tpu_numeric as tpu_numeric
from mosaic_tpu.lift.rules import vector as vector
