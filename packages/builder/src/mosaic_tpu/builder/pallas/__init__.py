"""The idioms: what Pallas emits for an expression of jnp, lax, pl or pltpu, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mosaic_tpu.builder._names import refuse_name
from mosaic_tpu.builder.pallas.arrangement import ArrangementIdioms
from mosaic_tpu.builder.pallas.averages import AverageIdioms
from mosaic_tpu.builder.pallas.bits import BitIdioms
from mosaic_tpu.builder.pallas.debug import DebugIdioms
from mosaic_tpu.builder.pallas.dma import AsyncCopy, DmaIdioms
from mosaic_tpu.builder.pallas.einshape import EinshapeIdioms
from mosaic_tpu.builder.pallas.einsum import EinsumIdioms
from mosaic_tpu.builder.pallas.functions import FunctionIdioms
from mosaic_tpu.builder.pallas.keys import Key, KeyIdioms
from mosaic_tpu.builder.pallas.pipeline import PipelineIdioms


class Pallas(
    DmaIdioms,
    PipelineIdioms,
    EinsumIdioms,
    AverageIdioms,
    FunctionIdioms,
    KeyIdioms,
    EinshapeIdioms,
    ArrangementIdioms,
    BitIdioms,
    DebugIdioms,
):
    """``b.pallas``: idioms named after the Python they stand for.

    Where an operand may be a Python number, the constant is made where JAX makes it and nowhere else; that, dead
    loads and identity casts are what makes the bytes equal. A method of the builder with the same name is the raw
    operation, which promotes, converts and broadcasts nothing.

    Operands of two element types are promoted as jnp promotes them. No value is weakly typed: of integers ``x * 2.5``
    is f32 and stays that beside bf16, where JAX goes back to bf16.
    """

    if not TYPE_CHECKING:  # a checker sees what there is

        def __getattr__(self, name: str) -> NoReturn:
            refuse_name(self, "b.pallas", name)


__all__ = ["AsyncCopy", "Key", "Pallas"]
