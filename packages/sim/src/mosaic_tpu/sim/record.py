"""What happens in a run of a kernel, in order: for tools that tell what it costs. The simulator itself has no time.

>>> import numpy as np
>>> from mosaic_tpu.sim import ir
>>> text = '''
... func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
...                   %y: memref<8x128xf32, #tpu.memory_space<vmem>>) {
...   %c0 = arith.constant 0 : index
...   %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
...   %1 = arith.addf %0, %0 : vector<8x128xf32>
...   vector.store %1, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
...   return
... }'''
>>> for entry in recorded(ir.read(text), np.ones((8, 128), np.float32)).record:
...     print(entry)
Moved(argument='arg0', size=4096, fetched=True, ahead=False)
Entered(op=1, region=0)
Moved(argument='arg1', size=4096, fetched=False, ahead=False)
"""

from mosaic_tpu.sim._api import recorded as recorded
from mosaic_tpu.sim._record import Entered as Entered
from mosaic_tpu.sim._record import Entry as Entry
from mosaic_tpu.sim._record import Moved as Moved
from mosaic_tpu.sim._record import Started as Started
from mosaic_tpu.sim._record import Waited as Waited

__all__ = ["Entered", "Entry", "Moved", "Started", "Waited", "recorded"]
