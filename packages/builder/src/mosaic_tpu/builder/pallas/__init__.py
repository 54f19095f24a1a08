"""The idioms: what Pallas emits for an expression of jnp, lax, pl or pltpu, byte for byte."""

from __future__ import annotations

from mosaic_tpu.builder.pallas.control import ControlIdioms
from mosaic_tpu.builder.pallas.dma import AsyncCopy, DmaIdioms
from mosaic_tpu.builder.pallas.dot import DotIdioms
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms
from mosaic_tpu.builder.pallas.reductions import ReductionIdioms
from mosaic_tpu.builder.pallas.shapes import ShapeIdioms


class Pallas(DmaIdioms, ControlIdioms, DotIdioms, ReductionIdioms, ShapeIdioms, ElementwiseIdioms):
    """``b.pallas``: idioms named after the Python they stand for.

    Where an operand may be a Python number, the constant is made where JAX makes it and nowhere else; that, dead
    loads and identity casts are what makes the bytes equal. A function that is one operation is a method of the
    builder: ``b.exp``, ``b.rsqrt``.
    """


__all__ = ["AsyncCopy", "Pallas"]
