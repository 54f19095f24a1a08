"""Style ``idioms``: ops that `b.pallas` emits are written as it.

An idiom is known by what it emits: an op proposes expressions that it may have come from, the builder emits each of
them, and those whose ops stand in the module are written. So what an idiom emits is known in one place, the idiom; but
for branches and loops, of which `_nested` says what stands before and behind them.
"""

from mosaic_tpu.lift.idioms import copies as copies
from mosaic_tpu.lift.idioms import elementwise as elementwise
from mosaic_tpu.lift.idioms import functions as functions
from mosaic_tpu.lift.idioms import others as others
from mosaic_tpu.lift.idioms import products as products
from mosaic_tpu.lift.idioms import reductions as reductions
from mosaic_tpu.lift.idioms import refs as refs
from mosaic_tpu.lift.idioms import shapes as shapes
from mosaic_tpu.lift.idioms._match import Match as Match
from mosaic_tpu.lift.idioms._match import matches as matches
from mosaic_tpu.lift.idioms._nested import Nested as Nested
from mosaic_tpu.lift.idioms._nested import nested as nested
from mosaic_tpu.lift.idioms._nested import spans as spans

__all__ = ["Match", "Nested", "matches", "nested", "spans"]
