"""Vectors: masked access, elements one by one, interleaving."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.sim._emit import Emitter, Info, rule
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules._access import load, store
from mosaic_tpu.sim.rules._elementwise import dtype
from mosaic_tpu.sim.rules.vector import scalar


@rule("vector.maskedload")
def _masked_load(e: Emitter, op: Operation) -> None:
    base, *indices = op.operands[:-2]
    mask, other = op.operands[-2:]
    load(e, op, base, indices, op.result.type.shape)
    if e.users(op.result):
        name = f"m{op.result.index}"
        e.line(f"{name} = np.where({e.full(mask)}, {e.text(op.result)}, {e.text(other)})")
        e.infos[op.result.index] = Info(name, op.result.type.shape)


@rule("vector.maskedstore", writes=True)
def _masked_store(e: Emitter, op: Operation) -> None:
    base, *indices = op.operands[:-2]
    mask, value = op.operands[-2:]
    store(e, op, value, base, indices, mask=mask)


@rule("vector.step")
def _step(e: Emitter, op: Operation) -> None:
    e.fold(op.result, np.arange(op.result.type.shape[0], dtype=op.result.type.dtype))


@rule("vector.from_elements")
def _from_elements(e: Emitter, op: Operation) -> None:
    parts = ", ".join(e.text(o) for o in op.operands)
    e.define(op.result, f"np.array(({parts},), {dtype(e, op.result.type)}).reshape({op.result.type.shape})")


@rule("vector.to_elements")
def _to_elements(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    flat = e.atom(f"{e.full(a)}.reshape(-1)")
    for i, result in enumerate(op.results):
        e.assign(result, scalar(f"{flat}[{i}]", result))


@rule("vector.shuffle")
def _shuffle(e: Emitter, op: Operation) -> None:
    """Rows of two vectors by number; -1 is any."""
    a, b = op.operands
    chosen = e.constant(np.maximum(np.array(op.attributes.integers("mask"), np.int64), 0))
    e.define(op.result, f"np.concatenate((np.atleast_1d({e.full(a)}), np.atleast_1d({e.full(b)})))[{chosen}]")


@rule("vector.interleave")
def _interleave(e: Emitter, op: Operation) -> None:
    a, b = op.operands
    e.define(op.result, f"np.stack(({e.full(a)}, {e.full(b)}), -1).reshape({op.result.type.shape})")


@rule("vector.deinterleave")
def _deinterleave(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    text = e.atom(e.full(a))
    for i, result in enumerate(op.results):
        e.define(result, f"{text}[..., {i}::2].copy()")
