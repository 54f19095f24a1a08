"""Arrays to try a kernel with, at the shapes of a config: what the command line simulates."""

from mosaic_tpu.zoo.examples._example import Example, drawn

__all__ = ["Example", "drawn"]
