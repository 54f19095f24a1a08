"""What hints write for other names of JAX emits what those emit; what Pallas is said not to have it has not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl

from conformance import cheat_sheet
from conformance.cases.cheat_sheet.pairs import Pair, Pairs, vmem
from conformance.corpus.case import on_mesh
from conformance.harness import levels, pallas
from mosaic_tpu.builder import Builder, Ref, Role, f32, i32
from mosaic_tpu.builder._spelling import ALIASES, NOWHERE
from mosaic_tpu.kernel import CallExtras, Kernel

#: Each name as it is called in JAX; the hint is run as it is written, of the same operands.
CALLS = {
    "subtract": "jnp.subtract(x, y)",
    "multiply": "jnp.multiply(x, y)",
    "divide": "jnp.divide(x, y)",
    "mod": "jnp.mod(x, y)",
    "pow": "jnp.pow(x, y)",
    "float_power": "jnp.float_power(x, y)",
    "negative": "jnp.negative(x)",
    "absolute": "jnp.absolute(x)",
    "fabs": "jnp.fabs(x)",
    "greater": "jnp.greater(x, y)",
    "greater_equal": "jnp.greater_equal(x, y)",
    "less": "jnp.less(x, y)",
    "less_equal": "jnp.less_equal(x, y)",
    "equal": "jnp.equal(x, y)",
    "not_equal": "jnp.not_equal(x, y)",
    "amax": "jnp.amax(x)",
    "amin": "jnp.amin(x)",
    "lax.reciprocal": "lax.reciprocal(x)",
    "logistic": "lax.logistic(x)",
    "matrix_transpose": "jnp.matrix_transpose(x)",
    "mT": "x.mT",
    "rint": "jnp.rint(x)",
    "swish": "jax.nn.swish(x)",
    "stop_gradient": "lax.stop_gradient(x)",
    "slice_in_dim": "lax.slice_in_dim(x, 8, 16)",
    "index_in_dim": "lax.index_in_dim(x, 3, keepdims=False)",
    "T": "x.T",
    "ravel": "jnp.ravel(x)",
    "flatten": "x.flatten()",
}
#: The same of integers.
OF_INTS = {
    "invert": "jnp.invert(x)",
    "bitwise_invert": "jnp.bitwise_invert(x)",
    "bitwise_left_shift": "jnp.bitwise_left_shift(x, y)",
    "bitwise_right_shift": "jnp.bitwise_right_shift(x, y)",
    "mod": "jnp.mod(x, y)",
    "absolute": "jnp.absolute(x)",
    "negative": "jnp.negative(x)",
}
PAIRS = Pairs("aliases")
for dtype, calls in ((f32, CALLS), (i32, OF_INTS)):
    for name, call in calls.items():
        used = {n: vmem(dtype, (16, 128)) for n in "xy" if n in call.partition("(")[2] or call.startswith(f"{n}.")}
        PAIRS.expression(f"{name}-{dtype}", call, ALIASES[name], **used)


@pytest.mark.parametrize("pair", list(PAIRS), ids=lambda pair: pair.id)
def test_a_hint_emits_what_the_other_name_does(pair: Pair) -> None:
    ours, theirs = cheat_sheet.lower_both(pair)
    result = levels.compare(ours, theirs)
    shown = f"{pair.pallas_text}\n≠\n{pair.ours_text}\n{result.detail}"
    assert result.level.reaches(levels.required_level(theirs)), shown


#: How what Pallas has not is called, other than of one operand.
OTHERWISE = {
    "cumprod": "jnp.cumprod(x, axis=0)",
    "cumsum": "jnp.cumsum(x, axis=0)",
    "cummax": "lax.cummax(x)",
    "cummin": "lax.cummin(x)",
    "digamma": "lax.digamma(x)",
    "erfc": "lax.erfc(x)",
    "lgamma": "lax.lgamma(x)",
    "gather": "x[jnp.arange(8)]",
    "rev": "lax.rev(x, (0,))",
    "scatter": "x.at[0].set(0.0)",
}


@pytest.mark.parametrize("name", sorted(NOWHERE))
def test_what_pallas_is_said_not_to_have_it_refuses(name: str) -> None:
    names = {"jax": jax, "jnp": jnp, "lax": lax}

    def kernel(x: Any, o: Any) -> None:
        names["x"] = x[...]
        found = eval(OTHERWISE.get(name, f"jnp.{name}(x)"), names)
        o[...] = jnp.broadcast_to(found, (8, 128))

    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    with pytest.raises(Exception, match=r"[gG]ather" if name == "gather" else "Unimplemented primitive"):
        pallas.lower(pl.pallas_call(kernel, out_shape=x), x)


@pytest.mark.parametrize("axes", [{"x": 2, "y": 4}, {"x": 2, "y": 3, "z": 5}, {"y": 8}], ids=str)
@pytest.mark.parametrize("which", ["first", "last"])
def test_where_a_device_is_on_a_mesh_of_several_axes(axes: dict[str, int], which: str) -> None:
    axis = list(axes)[0 if which == "first" else -1]

    def theirs(o: Any) -> None:
        o[...] = jnp.full((8, 128), lax.axis_index(axis))

    def run(b: Builder, cfg: int) -> None:
        a = b.declare_args({"o": Ref((8, 128), i32, role=Role.OUTPUT)})
        a.o[...] = b.pallas.full((8, 128), b.pallas.axis_index(axis, mesh=axes), i32)

    extras = CallExtras(metadata={"mesh_axes": f'["{axis}"]'})  # which Pallas says of a body that names one
    kernel = Kernel("theirs", int, inputs=(), outputs=("o",), run=run, extras=extras)
    out = jax.ShapeDtypeStruct((8, 128), jnp.int32)
    lowered = [
        pallas.lower(on_mesh(function, axes, [])[0])
        for function in (lambda: kernel(cfg=0), lambda: pl.pallas_call(theirs, out_shape=out)())
    ]
    assert levels.compare(*lowered).level.reaches(levels.required_level(lowered[1]))
