"""What the TPU compiler made of a kernel: bundles, loops, slots, spills, memory, copies and its own estimate.

Read from the text of the compiler's dumps; nothing here starts a process.

>>> from mosaic_tpu.aot.targets import find_target
>>> dumps = find_dumps(folder)["name.1"]                             # doctest: +SKIP
>>> schedule = read_schedule(dumps, find_target("v6e"))             # doctest: +SKIP
>>> print(schedule)                                                 # doctest: +SKIP
"""

from mosaic_tpu.aot.errors import DumpError as DumpError
from mosaic_tpu.aot.schedule.allocations import Allocation as Allocation
from mosaic_tpu.aot.schedule.allocations import LoopBounds as LoopBounds
from mosaic_tpu.aot.schedule.blocks import Block as Block
from mosaic_tpu.aot.schedule.bundles import stripped as stripped
from mosaic_tpu.aot.schedule.diff import BundleChange as BundleChange
from mosaic_tpu.aot.schedule.diff import MetricChange as MetricChange
from mosaic_tpu.aot.schedule.diff import ScheduleDiff as ScheduleDiff
from mosaic_tpu.aot.schedule.diff import diff as diff
from mosaic_tpu.aot.schedule.dmas import DMA as DMA
from mosaic_tpu.aot.schedule.dmas import Window as Window
from mosaic_tpu.aot.schedule.dumps import Dumps as Dumps
from mosaic_tpu.aot.schedule.dumps import find_dumps as find_dumps
from mosaic_tpu.aot.schedule.estimate import Estimate as Estimate
from mosaic_tpu.aot.schedule.machine import Machine as Machine
from mosaic_tpu.aot.schedule.machine import machine as machine
from mosaic_tpu.aot.schedule.mxu import Matmuls as Matmuls
from mosaic_tpu.aot.schedule.schedule import Registers as Registers
from mosaic_tpu.aot.schedule.schedule import Schedule as Schedule
from mosaic_tpu.aot.schedule.schedule import read_schedule as read_schedule
from mosaic_tpu.aot.schedule.slots import SlotUse as SlotUse
from mosaic_tpu.aot.schedule.slots import Utilization as Utilization
