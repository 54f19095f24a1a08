"""jax.nn: over element types, axes, and scalars."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Pairs, smem, vmem
from mosaic_tpu.builder import bf16, f32, i8, i32, u32

PAIRS = Pairs("activations")
for name in ("relu", "relu6", "leaky_relu", "silu", "gelu", "softplus", "log_sigmoid"):
    for dtype in FLOATS:
        PAIRS.expression(f"{name}-{dtype}", f"jax.nn.{name}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    PAIRS.expression(f"{name}-3d", f"jax.nn.{name}(x)", f"b.pallas.{name}(x)", x=vmem(f32, (2, 8, 128)))
    if name != "silu":
        PAIRS.expression(f"{name}-scalar", f"jax.nn.{name}(s)", f"b.pallas.{name}(s)", s=smem(f32))
for dtype in (i32, u32, i8):
    PAIRS.expression(f"relu-{dtype}", "jax.nn.relu(x)", "b.pallas.relu(x)", x=tile(dtype))
for dtype in FLOATS:
    PAIRS.expression(
        f"leaky-relu-slope-{dtype}", "jax.nn.leaky_relu(x, 0.2)", "b.pallas.leaky_relu(x, 0.2)", x=tile(dtype)
    )
for name in ("hard_sigmoid", "hard_silu", "hard_tanh", "sparse_plus", "sparse_sigmoid", "soft_sign", "squareplus"):
    for dtype in FLOATS:
        PAIRS.expression(f"{name}-{dtype}", f"jax.nn.{name}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    PAIRS.expression(f"{name}-scalar", f"jax.nn.{name}(s)", f"b.pallas.{name}(s)", s=smem(f32))
for dtype in FLOATS:
    PAIRS.expression(f"mish-{dtype}", "jax.nn.mish(x)", "b.pallas.mish(x)", x=tile(dtype))
    for number in (4, 2.5):
        PAIRS.expression(
            f"squareplus-{number}-{dtype}",
            f"jax.nn.squareplus(x, {number})",
            f"b.pallas.squareplus(x, {number})",
            x=tile(dtype),
        )
    for axis in (-1, 0):
        PAIRS.expression(
            f"glu-{axis}-{dtype}",
            f"jax.nn.glu(x, {axis})",
            f"b.pallas.glu(x, {axis})",
            x=vmem(dtype, (32, 256)),
        )
PAIRS.expression("hard-tanh-i32", "jax.nn.hard_tanh(x)", "b.pallas.hard_tanh(x)", x=vmem(i32))
PAIRS.expression("swish", "jax.nn.swish(x)", "b.pallas.silu(x)", x=vmem(f32))
PAIRS.expression("gelu-twice", "jax.nn.gelu(jax.nn.gelu(x))", "b.pallas.gelu(b.pallas.gelu(x))", x=vmem(f32))

for name, left, right, args in [
    ("f32", "x", "y", {"x": vmem(f32), "y": vmem(f32)}),
    ("bf16", "x", "y", {"x": tile(bf16), "y": tile(bf16)}),
    ("row", "x", "r", {"x": vmem(f32), "r": vmem(f32, (128,))}),
    ("number", "x", "1.0", {"x": vmem(f32)}),
    ("scalars", "s", "t", {"s": smem(f32), "t": smem(f32)}),
]:
    PAIRS.expression(
        f"logaddexp-{name}", f"jnp.logaddexp({left}, {right})", f"b.pallas.logaddexp({left}, {right})", **args
    )

for name in ("softmax", "log_softmax"):
    for dtype in FLOATS:
        for axis in (-1, 0, 1):
            PAIRS.expression(
                f"{name}-{dtype}-axis-{axis}",
                f"jax.nn.{name}(x, axis={axis})",
                f"b.pallas.{name}(x, {axis})",
                x=tile(dtype),
            )
    for axis in (0, 1, 2, (0, 1), (1, 2)):
        label = str(axis).replace(", ", "-").strip("()")
        PAIRS.expression(
            f"{name}-3d-axis-{label}",
            f"jax.nn.{name}(x, axis={axis})",
            f"b.pallas.{name}(x, {axis})",
            x=vmem(f32, (2, 8, 128)),
        )
    PAIRS.expression(f"{name}-1d", f"jax.nn.{name}(x)", f"b.pallas.{name}(x)", x=vmem(f32, (128,)))
    PAIRS.expression(f"{name}-both-axes", f"jax.nn.{name}(x, axis=(0, 1))", f"b.pallas.{name}(x, (0, 1))", x=vmem(f32))
for axis in (0, 1, -1, (0, 1), None):
    label = {None: "all", (0, 1): "both-axes"}.get(axis, f"axis-{axis}")
    for keepdims in (False, True):
        PAIRS.expression(
            f"logsumexp-{label}{'-keepdims' * keepdims}",
            f"jax.nn.logsumexp(x, axis={axis}, keepdims={keepdims})",
            f"b.pallas.logsumexp(x, {axis}, keepdims={keepdims})",
            x=vmem(f32),
        )
PAIRS.expression("logsumexp-3d", "jax.nn.logsumexp(x, axis=2)", "b.pallas.logsumexp(x, 2)", x=vmem(f32, (2, 8, 128)))

for dtype in (f32, bf16, i32):
    PAIRS.expression(
        f"one-hot-{dtype}",
        f"jax.nn.one_hot(x, 128, dtype={JAX_NAMES[dtype]})",
        f"b.pallas.one_hot(x, 128, dtype={dtype})",
        x=vmem(i32, (8,)),
    )
PAIRS.expression("one-hot-first", "jax.nn.one_hot(x, 8, axis=0)", "b.pallas.one_hot(x, 8, axis=0)", x=vmem(i32, (128,)))
PAIRS.expression(
    "one-hot-of-a-scalar",
    "x + jax.nn.one_hot(s, 128)",
    "x + b.pallas.one_hot(s, 128)",
    uses=("add",),
    x=vmem(f32),
    s=smem(i32),
)
PAIRS.expression("one-hot-2d", "jax.nn.one_hot(x, 128)", "b.pallas.one_hot(x, 128)", x=vmem(i32, (2, 8)))
