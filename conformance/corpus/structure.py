"""What says something of the kernel rather than computing: printing, tracing, sharding, fusion, symbolic shapes."""

from __future__ import annotations

from typing import Any

import jax
import jax.export
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import fuser
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from conformance.corpus.case import Cases, arrays

CASES = Cases("structure")
_X = "f32[8,128]"

# --- debugging -------------------------------------------------------------------------------------------------------


@CASES.refs(("debug_print",), ("s32[2] smem", "f32[2] smem", "u32[2] smem"), ("s32[1] smem",))
def debug_print(x: Any, y: Any, z: Any, o: Any) -> None:
    pl.debug_print("started")
    pl.debug_print("x = {}", x[0])
    pl.debug_print("{} and {} and {}", x[0], y[1], z[0])
    pl.debug_print("unformatted", x[1])
    o[0] = x[0]


@CASES.refs(("debug_print",), (_X,), (_X,))
def debug_print_of_a_vector(x: Any, o: Any) -> None:
    pl.debug_print("x: {}", x[...])
    o[...] = x[...]


@CASES.refs(("debug_callback",), (_X,), (_X,))
def debug_callback(x: Any, o: Any) -> None:
    jax.debug.callback(lambda value: None, x[...])
    o[...] = x[...]


@CASES.refs(("trace_value",), ("s32[2] smem", "f32[2] smem"), ("s32[1] smem",))
def trace_value(x: Any, y: Any, o: Any) -> None:
    pltpu.trace_value("x", x[0])
    pltpu.trace_value("y", y[0])
    o[0] = x[0]


@CASES.refs(("mul", "exp"), (_X,), (_X,))
def named_scope(x: Any, o: Any) -> None:
    with jax.named_scope("load"):
        value = x[...] * 2
    with jax.named_scope("outer"):
        value = jnp.exp(value)
        with jax.named_scope("inner"):
            value = value * value
    o[...] = value


@CASES.refs(("scan",), (_X,), (_X,))
def named_scope_in_a_loop(x: Any, o: Any) -> None:
    @pl.loop(0, 4)
    def _(i: Any) -> None:
        with jax.named_scope("step"):
            o[...] = x[...] * i


# --- what leaves a value as it is ------------------------------------------------------------------------------------


_MESH = AbstractMesh((1,), ("x",), axis_types=(AxisType.Explicit,))


@CASES.refs(("reshard",), (_X,), (_X,))
def reshard(x: Any, o: Any) -> None:
    o[...] = jax.sharding.reshard(x[...], NamedSharding(_MESH, PartitionSpec()))


@fuser.custom_fusion
def _scaled(x: jax.Array) -> jax.Array:
    return x * 2


_scaled.def_eval_rule(lambda ctx, x: (x * 2,))
_scaled.def_pull_block_spec(lambda specs: specs)
CASES.values("custom_fusion", ("custom_fusion",), lambda x: _scaled(x), _X)


@fuser.custom_fusion
def _replaced(x: jax.Array) -> jax.Array:
    return x * 2


_replaced.def_eval_rule(lambda ctx, x: (x * 2,))
_replaced.def_pull_block_spec(lambda specs: specs)
_replaced.def_pallas_impl(lambda x: x + x)
CASES.values("custom_fusion-of-its-own", ("custom_fusion",), lambda x: _replaced(x), _X)


def _traced(x: jax.Array) -> Any:
    return jax.jit(lambda y: y * 2 + 1).trace(jax.ShapeDtypeStruct(x.shape, x.dtype))


CASES.values("eval_jaxpr", ("eval_jaxpr",), lambda x: _traced(x)(x) if callable(_traced(x)) else _traced(x).fun(x), _X)

# --- symbolic shapes -------------------------------------------------------------------------------------------------


def _symbolic(x: Any) -> Any:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * x.shape[0]

    return pl.pallas_call(kernel, out_shape=x)(x)


(_n,) = jax.export.symbolic_shape("n", constraints=["n >= 8", "mod(n, 8) == 0"])
CASES.add(
    "dim_as_value",
    ("dim_as_value",),
    lambda x: _symbolic(x),
    [jax.ShapeDtypeStruct((_n, 128), jnp.float32)],
    exported=True,
    context=lambda: pl.pallas_export_experimental(dynamic_shapes=True),
)

# --- several kernels, and none ---------------------------------------------------------------------------------------


def _two(x: Any) -> Any:
    def first(x: Any, o: Any) -> None:
        o[...] = x[...] + 1

    def second(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    once = pl.pallas_call(first, out_shape=x)(x)
    return pl.pallas_call(second, out_shape=x, name="a name of its own")(once)


CASES.add("two-kernels", ("add", "mul"), _two, arrays(_X))


def _on_two_cores(x: Any) -> Any:
    return pl.kernel(
        lambda x, o: pltpu.sync_copy(x, o),
        jax.ShapeDtypeStruct((8, 128), jnp.float32),
        mesh=pltpu.create_tensorcore_mesh("core", num_cores=2),
    )(x)


CASES.add("core-mesh", ("dma_start",), _on_two_cores, arrays(_X), tpu_version="v4")

# --- as jax.export lowers: for TPU compilers that are older ----------------------------------------------------------

CASES.values("exported-logistic", ("logistic",), jax.nn.sigmoid, _X, exported=True)
CASES.values("exported-log2", ("log2",), jnp.log2, _X, exported=True)
CASES.values("exported-reciprocal", ("reciprocal",), lambda x: pltpu.reciprocal(x, full_range=True), _X, exported=True)
CASES.values("exported-product", ("dot_general",), lambda x, y: x.T @ y, *["f32[128,128]"] * 2, exported=True)


@CASES.refs(("scan",), (_X,), (_X,), exported=True)
def exported_loop_partly_unrolled(x: Any, o: Any) -> None:
    @pl.loop(0, 7, unroll=2)
    def _(i: Any) -> None:
        o[i] = x[i]
