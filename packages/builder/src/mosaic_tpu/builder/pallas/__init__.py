"""The idioms: what Pallas emits for an expression of jnp, lax, pl or pltpu, byte for byte."""

from __future__ import annotations

from mosaic_tpu.builder.pallas.activations import ActivationIdioms
from mosaic_tpu.builder.pallas.bits import BitIdioms
from mosaic_tpu.builder.pallas.debug import DebugIdioms
from mosaic_tpu.builder.pallas.division import DivisionIdioms
from mosaic_tpu.builder.pallas.dma import AsyncCopy, DmaIdioms
from mosaic_tpu.builder.pallas.dot import DotIdioms
from mosaic_tpu.builder.pallas.fills import FillIdioms
from mosaic_tpu.builder.pallas.movement import MovementIdioms
from mosaic_tpu.builder.pallas.pipeline import PipelineIdioms
from mosaic_tpu.builder.pallas.random import RandomIdioms


class Pallas(
    DmaIdioms,
    PipelineIdioms,
    DotIdioms,
    ActivationIdioms,
    RandomIdioms,
    MovementIdioms,
    FillIdioms,
    DivisionIdioms,
    BitIdioms,
    DebugIdioms,
):
    """``b.pallas``: idioms named after the Python they stand for.

    Where an operand may be a Python number, the constant is made where JAX makes it and nowhere else; that, dead
    loads and identity casts are what makes the bytes equal. A method of the builder with the same name is the raw
    operation, which promotes, converts and broadcasts nothing.
    """


__all__ = ["AsyncCopy", "Pallas"]
