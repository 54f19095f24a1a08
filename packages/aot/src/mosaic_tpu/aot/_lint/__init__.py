"""Checks of a Mosaic module that need no compiler: milliseconds, in pure Python.

>>> text = '''
... module {
...   func.func @kernel(%i: i32, %x: memref<8x128xf32, #tpu.memory_space<vmem>>,
...                     %y: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {
...       dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>} {
...     %c0 = arith.constant 0 : index
...     %at = arith.index_cast %i : i32 to index
...     %0 = vector.load %x[%c0, %at] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>
...     vector.store %0, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x1xf32>
...     return
...   }
... }'''
>>> report = lint(text, target="v6e")
>>> [(finding.rule, finding.severity, finding.op) for finding in report.findings]
[('dynamic-lane-index', 'error', 'vector.load')]
"""

from mosaic_tpu.aot._lint import access as access
from mosaic_tpu.aot._lint import copies as copies
from mosaic_tpu.aot._lint import elements as elements
from mosaic_tpu.aot._lint import memory as memory
from mosaic_tpu.aot._lint import shapes as shapes
from mosaic_tpu.aot._lint import windows as windows
from mosaic_tpu.aot._lint._lint import lint as lint
from mosaic_tpu.aot._lint._registry import RULES as RULES
from mosaic_tpu.aot._lint._registry import Rule as Rule
from mosaic_tpu.aot._lint._report import Finding as Finding
from mosaic_tpu.aot._lint._report import LintReport as LintReport

__all__ = ["RULES", "Finding", "LintReport", "Rule", "lint"]
