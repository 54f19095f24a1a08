"""Style ``idioms``: ops that `b.pallas` emits are written as it.

An idiom is known by what it emits: an op proposes expressions that it may have come from, the builder emits each of
them, and those whose ops stand in the module are written. So there is one place that knows what an idiom emits, the
idiom.
"""

from mosaic_tpu.lift.idioms import copies as copies
from mosaic_tpu.lift.idioms import elementwise as elementwise
from mosaic_tpu.lift.idioms import products as products
from mosaic_tpu.lift.idioms import reductions as reductions
from mosaic_tpu.lift.idioms import refs as refs
from mosaic_tpu.lift.idioms import shapes as shapes
from mosaic_tpu.lift.idioms._match import Match as Match
from mosaic_tpu.lift.idioms._match import matches as matches
from mosaic_tpu.lift.idioms._nested import Nested as Nested
from mosaic_tpu.lift.idioms._nested import nested as nested

__all__ = ["Match", "Nested", "matches", "nested"]
