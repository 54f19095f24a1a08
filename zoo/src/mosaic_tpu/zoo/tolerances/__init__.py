"""Reference results of the zoo's kernels, each with how far rounding may carry it: bounds that stand beside the maths.

`mosaic-tpu zoo run` and the conformance suite hold results to them.
"""

from mosaic_tpu.zoo.tolerances._expected import Array, Expected, Float64

__all__ = ["Array", "Expected", "Float64"]
