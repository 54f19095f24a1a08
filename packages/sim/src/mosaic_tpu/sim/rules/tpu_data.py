"""Data movement and numeric ops of the tpu dialect."""

from __future__ import annotations

import math

import numpy as np

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, Info, rule, unsupported
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules._elementwise import dtype, floats, narrow_float


@rule("tpu.iota")
def _iota(e: Emitter, op: Operation) -> None:
    type_ = op.result.type
    axes = op.attributes.integers("dimensions") or (op.attributes.integer("dimension", 0),)
    sizes = [type_.shape[i] for i in axes]
    values = np.arange(math.prod(sizes)).reshape(sizes).astype(type_.dtype)
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    shape = tuple(n if i in axes else 1 for i, n in enumerate(type_.shape))
    lazy = np.ascontiguousarray(values.transpose(order)).reshape(shape)
    e.infos[op.result.index] = Info(e.constant(lazy), shape)


@rule("tpu.bitcast", view=True)
def _bitcast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    source, target = a.type, op.result.type
    name = dtype(e, target)
    if source.bits == target.bits:
        e.define(op.result, f"{e.text(a)}.view({name})", e.info(a).shape)
        return
    if len(source.shape) < 2:
        raise unsupported(e.module, op, "a vector of rank 1 has no rows to pack")
    repack = e.runtime(runtime.repack)
    e.define(op.result, f"{repack}({e.full(a)}, {name}, {source.bits}, {target.bits})")


@rule("tpu.relayout", view=True)
def _relayout(e: Emitter, op: Operation) -> None:
    """Where elements lie in registers means nothing here."""
    e.alias(op.result, op.operands[0])


@rule("tpu.concatenate")
def _concatenate(e: Emitter, op: Operation) -> None:
    axis = op.attributes.integer("dimension")
    parts = ", ".join(e.full(o) for o in op.operands)
    e.define(op.result, f"np.concatenate(({parts},), axis={axis})")


@rule("tpu.repeat")
def _repeat(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    parts = ", ".join([e.full(a)] * op.attributes.integer("times"))
    e.define(op.result, f"np.concatenate(({parts},), axis={op.attributes.integer('dimension')})")


# --- rolls and gathers -----------------------------------------------------------------------------------------------


@rule("tpu.dynamic_rotate", "tpu.rotate")
def _rotate(e: Emitter, op: Operation) -> None:
    """`numpy.roll`, of any amount modulo the size."""
    a, *dynamic = op.operands
    axis = op.attributes.integer("dimension")
    amount = e.text(dynamic[0]) if dynamic else str(op.attributes.integer("amount"))
    size = a.type.shape[axis]
    if "stride" in op.attributes:
        stride, across = op.attributes.integer("stride"), op.attributes.integer("stride_dimension")
        call = e.runtime(runtime.rotate)
        e.define(op.result, f"{call}({e.full(a)}, {amount}, {axis}, {stride}, {across})")
    elif e.info(a).shape == () or e.info(a).shape[axis] != size:
        e.define(op.result, f"{e.text(a)}.copy()", e.info(a).shape)
    else:
        e.define(op.result, f"np.roll({e.text(a)}, {amount}, {axis})", e.info(a).shape)


@rule("tpu.dynamic_gather")
def _dynamic_gather(e: Emitter, op: Operation) -> None:
    source, indices = op.operands
    axes = op.attributes.integers("dimensions")
    e.define(op.result, f"{e.runtime(runtime.gather)}({e.full(source)}, {e.full(indices)}, {axes})")


@rule("tpu.gather")
def _gather(e: Emitter, op: Operation) -> None:
    indices = e.constant(np.array(op.attributes.integers("indices"), np.int64))
    e.define(op.result, f"np.take({e.full(op.operands[0])}, {indices}, {op.attributes.integer('dimension')})")


@rule("tpu.sublane_shuffle")
def _sublane_shuffle(e: Emitter, op: Operation) -> None:
    a, b = op.operands
    pattern = e.constant(np.array(op.attributes.integers("pattern"), np.int64))
    e.define(op.result, f"np.concatenate(({e.full(a)}, {e.full(b)}))[{pattern}]")


@rule("tpu.broadcast_in_sublanes")
def _broadcast_in_sublanes(e: Emitter, op: Operation) -> None:
    """Sublane i holds lane ``lane + i`` of a register whose sublanes are equal; past the lanes, anything."""
    (a,) = op.operands
    shape = op.result.type.shape
    if len(shape) != 2 or len(a.type.shape) != 2:
        raise unsupported(e.module, op, "it is known for vectors of two dimensions only")
    first, lanes = op.attributes.integer("lane"), a.type.shape[-1]
    places = e.constant(np.minimum(np.arange(shape[0]) + first, lanes - 1))
    e.define(op.result, f"{e.full(a)}[0, {places}].reshape({(shape[0], 1)})", (shape[0], 1))


# --- numeric ---------------------------------------------------------------------------------------------------------


@rule("tpu.reciprocal")
def _reciprocal(e: Emitter, op: Operation) -> None:
    """Rounded once, approximate or not: how far the hardware's approximation strays is not specified."""
    floats(e, op, "1 / {0}")


@rule("tpu.logistic")
def _logistic(e: Emitter, op: Operation) -> None:
    floats(e, op, "1 / (1 + np.exp(-{0}))")


@rule("tpu.weird")
def _weird(e: Emitter, op: Operation) -> None:
    """Whether a number is infinite or none."""
    (a,) = op.operands
    text = f"{e.text(a)}.astype(np.float32)" if narrow_float(a.type) else e.text(a)
    e.define(op.result, f"~np.isfinite({text})", e.info(a).shape)


# --- random numbers --------------------------------------------------------------------------------------------------


@rule("tpu.prng_set_seed_32", writes=True)
def _set_seed(e: Emitter, op: Operation) -> None:
    e.line(f"{e.runtime(runtime.seed_random)}(core, {', '.join(e.text(o) for o in op.operands)})")


@rule("tpu.prng_random_bits", writes=True)
def _random_bits(e: Emitter, op: Operation) -> None:
    """NumPy's Philox by the seeds, so that runs agree with each other; a TPU's own bits are not specified."""
    name = f"v{op.result.index}"
    e.line(f"{name} = {e.runtime(runtime.random_bits)}(core, {op.result.type.shape}, {dtype(e, op.result.type)})")
    e.define(op.result, name)
