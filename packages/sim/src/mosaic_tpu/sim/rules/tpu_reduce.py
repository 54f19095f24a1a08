"""Reductions, scans and sorts of the tpu dialect."""

from __future__ import annotations

from typing import Final

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, rule, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.rules._elementwise import dtype, narrow_float, unsigned

_KINDS: Final = {
    "sum": "np.add",
    "max": "np.maximum",
    "maxf": "np.maximum",
    "maxsi": "np.maximum",
    "maxui": "np.maximum",
    "min": "np.minimum",
    "minf": "np.minimum",
    "minsi": "np.minimum",
    "minui": "np.minimum",
}
_INDICES: Final = {"arg_max": "np.argmax", "arg_min": "np.argmin"}


def _wide(e: Emitter, value: Value, kind: str) -> str:
    """The operand as a reduction computes on it: narrow floats in f32, unsigned integers by their bits."""
    text = e.full(value)
    if narrow_float(value.type):
        return f"{text}.astype(np.float32)"
    return unsigned(text, value) if kind.endswith("ui") else text


def _accumulated(e: Emitter, op: Operation, method: str, axes: tuple[int, ...]) -> str:
    """The text of a ufunc's method along axes, in the result's element type."""
    kind = op.attributes.keyword("kind")
    if kind not in _KINDS:
        raise unsupported(e.module, op)
    source = op.operands[0]
    how = f"axis={axes}, keepdims=True" if method == "reduce" else f"axis={axes[0]}"
    text = f"{_KINDS[kind]}.{method}({_wide(e, source, kind)}, {how}"
    if kind == "sum" and not source.type.is_float:
        text += f", dtype={dtype(e, op.result.type)}"
    return f"{text}).astype({dtype(e, op.result.type)}, copy=False)"


@rule("tpu.reduce")
def _reduce(e: Emitter, op: Operation) -> None:
    axes = op.attributes.integers("dimensions")
    e.define(op.result, f"{_accumulated(e, op, 'reduce', axes)}.reshape({op.result.type.shape})")


@rule("tpu.all_reduce")
def _all_reduce(e: Emitter, op: Operation) -> None:
    """The reduction, repeated over the dimension: a size of 1 stands for all."""
    (source,) = op.operands
    axis = op.attributes.integer("dim")
    kind = op.attributes.keyword("kind")
    shape = tuple(1 if i == axis else n for i, n in enumerate(source.type.shape))
    name = dtype(e, op.result.type)
    if kind in _INDICES:
        text = f"{_INDICES[kind]}({_wide(e, source, kind)}, axis={axis}, keepdims=True).astype({name})"
    elif kind == "find_first_set":
        call = e.runtime(runtime.first_set)
        text = f"{call}({e.full(source)}, {axis}).astype({name})"
    else:
        text = _accumulated(e, op, "reduce", (axis,))
    e.define(op.result, text, shape)


@rule("tpu.reduce_index")
def _reduce_index(e: Emitter, op: Operation) -> None:
    """The first position of the largest or smallest element; a NaN is both."""
    (source,) = op.operands
    kind = op.attributes.keyword("kind")
    if kind not in _INDICES:
        raise unsupported(e.module, op)
    name = dtype(e, op.result.type)
    axis = op.attributes.integer("axis")
    e.define(op.result, f"{_INDICES[kind]}({_wide(e, source, kind)}, axis={axis}).astype({name})")


@rule("tpu.scan")
def _scan(e: Emitter, op: Operation) -> None:
    """Along a dimension; a masked-out element repeats the result so far, before the first it is poison."""
    axis = op.attributes.integer("dimension")
    if len(op.operands) == 1:
        e.define(op.result, _accumulated(e, op, "accumulate", (axis,)))
        return
    source, mask = op.operands
    kind = op.attributes.keyword("kind")
    if kind not in _KINDS:
        raise unsupported(e.module, op)
    call = e.runtime(runtime.masked_scan)
    texts = f"{_KINDS[kind]}, {_wide(e, source, kind)}, {e.full(mask)}, {axis}"
    name = dtype(e, op.result.type)
    e.define(op.result, f"{call}({texts}, {name}, core.left_out({op.number}, {name}))")


@rule("tpu.sort")
def _sort(e: Emitter, op: Operation) -> None:
    """Stable, along the last dimension; what is masked out goes to the end."""
    keys, values, *mask = op.operands
    name = e.name()
    call = e.runtime(runtime.sort_pairs)
    masked = e.full(mask[0]) if mask else "None"
    descending = op.attributes.boolean("descending")
    e.line(f"{name} = {call}({e.full(keys)}, {e.full(values)}, {masked}, {descending})")
    for i, result in enumerate(op.results):
        e.define(result, f"{name}[{i}]")
