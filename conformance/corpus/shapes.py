"""Values given other shapes: reshaped, broadcast, transposed, joined, cut, shifted, gathered."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases

CASES = Cases("shapes")

for _from, _to in (
    ("[8,128]", (1, 8, 128)),
    ("[1,8,128]", (8, 128)),
    ("[16,128]", (2, 8, 128)),
    ("[8,256]", (16, 128)),
    ("[8,128]", (1024,)),
    ("[1,1]", ()),
):
    CASES.values(f"reshape{_from}-to-{list(_to)}", ("reshape",), lambda x, s=_to: lax.reshape(x, s), f"f32{_from}")
CASES.values("reshape-scalar", ("reshape",), lambda x: lax.reshape(x, (1, 1)), "f32")
CASES.values("reshape-bf16", ("reshape",), lambda x: lax.reshape(x, (2, 16, 128)), "bf16[32,128]")
CASES.values("squeeze", ("squeeze",), lambda x: lax.squeeze(x, (0,)), "f32[1,8,128]")
CASES.values("squeeze-last", ("squeeze",), lambda x: lax.squeeze(x, (1,)), "f32[8,1]")
CASES.values("squeeze-to-scalar", ("squeeze",), lambda x: lax.squeeze(x, (0, 1)), "f32[1,1]")
CASES.values("expand_dims", ("broadcast_in_dim",), lambda x: jnp.expand_dims(x, 1), "f32[8,128]")

for _from, _to, _dims in (
    ("[1,128]", (8, 128), (0, 1)),
    ("[8,1]", (8, 128), (0, 1)),
    ("[128]", (8, 128), (1,)),
    ("[8]", (8, 128), (0,)),
    ("[8,128]", (2, 8, 128), (1, 2)),
    ("[1,1]", (8, 128), (0, 1)),
    ("[128]", (1, 128), (1,)),
):
    CASES.values(
        f"broadcast_in_dim{_from}-to-{list(_to)}",
        ("broadcast_in_dim",),
        lambda x, s=_to, d=_dims: lax.broadcast_in_dim(x, s, d),
        f"f32{_from}",
    )
for _dtype in ("f32", "s32", "bf16", "pred"):
    CASES.values(
        f"broadcast_in_dim-scalar-{_dtype}", ("broadcast_in_dim",), lambda x: jnp.broadcast_to(x, (16, 128)), _dtype
    )
CASES.values("zeros", ("broadcast_in_dim",), lambda x: x + jnp.zeros((8, 128)), "f32[8,128]")
CASES.values("full-s32", ("broadcast_in_dim",), lambda: jnp.full((8, 128), 7, jnp.int32))
CASES.values("full-bool", ("broadcast_in_dim",), lambda: jnp.full((8, 128), True))

for _shape, _permutation in (
    ("[8,128]", (1, 0)),
    ("[128,128]", (1, 0)),
    ("[2,8,128]", (0, 2, 1)),
    ("[2,8,128]", (1, 0, 2)),
    ("[2,3,8,128]", (0, 2, 1, 3)),
):
    CASES.values(
        f"transpose{_shape}-{list(_permutation)}",
        ("transpose",),
        lambda x, p=_permutation: lax.transpose(x, p),
        f"f32{_shape}",
    )
CASES.values("transpose-bf16", ("transpose",), lambda x: x.T, "bf16[128,256]")
CASES.values("swapaxes", ("transpose",), lambda x: jnp.swapaxes(x, 1, 2), "s32[2,8,128]")

for _axis in (0, 1):
    CASES.values(
        f"concatenate-{_axis}", ("concatenate",), lambda x, y, a=_axis: jnp.concatenate([x, y], a), *["f32[8,128]"] * 2
    )
    CASES.values(f"stack-{_axis}", ("stack",), lambda x, y, a=_axis: jnp.stack([x, y], a), *["f32[8,128]"] * 2)
    CASES.values(f"split-{_axis}", ("split",), lambda x, a=_axis: jnp.split(x, 2, a), "f32[16,256]")
    CASES.values(f"tile-{_axis}", ("tile",), lambda x, a=_axis: jnp.tile(x, [2, 1] if a == 0 else [1, 2]), "f32[8,128]")
CASES.values("concatenate-three", ("concatenate",), lambda *xs: jnp.concatenate(xs), *["bf16[16,128]"] * 3)
CASES.values("concatenate-uneven", ("concatenate",), lambda x, y: jnp.concatenate([x, y]), "f32[8,128]", "f32[16,128]")
CASES.values("stack-one", ("stack",), lambda x: jnp.stack([x]), "f32[8,128]")
CASES.values("stack-scalars", ("stack",), lambda x, y: jnp.stack([x, y]), "f32", "f32")
CASES.values("split-uneven", ("split",), lambda x: jnp.split(x, [8], 0), "f32[24,128]")
CASES.values(
    "unstack", ("unstack",), lambda x: lax.unstack(x) if hasattr(lax, "unstack") else jnp.unstack(x), "f32[2,8,128]"
)
CASES.values("unstack-last", ("unstack",), lambda x: jnp.unstack(x, axis=1), "f32[8,2,128]")
CASES.values("tile-both", ("tile",), lambda x: jnp.tile(x, (2, 3)), "f32[8,128]")
CASES.values("repeat", ("broadcast_in_dim",), lambda x: jnp.repeat(x, 2, axis=0), "f32[8,128]")

for _dtype in ("s32", "u32", "s16"):
    CASES.values(
        f"iota-{_dtype}",
        ("iota",),
        lambda d=_dtype: lax.broadcasted_iota({"s32": jnp.int32, "u32": jnp.uint32, "s16": jnp.int16}[d], (16, 128), 1),
    )
CASES.values("iota-first", ("iota",), lambda: lax.broadcasted_iota(jnp.int32, (8, 128), 0))
CASES.values("iota-3d", ("iota",), lambda: lax.broadcasted_iota(jnp.int32, (2, 8, 128), 0))
CASES.values("arange", ("iota",), lambda: jnp.arange(128))

CASES.values("slice", ("slice",), lambda x: lax.slice(x, (8, 0), (16, 128)), "f32[24,256]")
CASES.values("slice-lanes", ("slice",), lambda x: x[:, 128:], "f32[8,256]")
CASES.values("slice-row", ("slice", "squeeze"), lambda x: x[3], "f32[8,128]")
CASES.values("slice-element", ("slice", "squeeze"), lambda x: x[3, 5], "f32[8,128]")
CASES.values("slice-bf16", ("slice",), lambda x: x[16:], "bf16[32,128]")

for _config in (((8, 0, 0), (0, 0, 0)), ((0, 8, 0), (0, 0, 0)), ((8, 8, 0), (128, 0, 0))):
    _id = "-".join(f"{low},{high}" for low, high, _ in _config)
    CASES.values(f"pad-{_id}", ("pad",), lambda x, c=_config: lax.pad(x, 1.0, c), "f32[16,128]")
CASES.values("pad-cuts", ("pad",), lambda x: lax.pad(x, 1.0, ((0, -8, 0), (0, 0, 0))), "f32[16,128]", since=(0, 12))
CASES.values("pad-scalar", ("pad",), lambda x, s: lax.pad(x, s, ((0, 8, 0), (0, 0, 0))), "f32[16,128]", "f32")
CASES.values("pad-jnp", ("pad",), lambda x: jnp.pad(x, ((0, 8), (0, 0))), "s32[8,128]")

for _axis in (0, 1):
    CASES.values(f"roll-{_axis}", ("roll",), lambda x, a=_axis: pltpu.roll(x, 3, a), "f32[8,128]")
    CASES.values(f"roll-dynamic-{_axis}", ("roll",), lambda x, n, a=_axis: pltpu.roll(x, n, a), "f32[8,128]", "s32")
CASES.values("roll-strided", ("roll",), lambda x: pltpu.roll(x, 1, 1, stride=2, stride_axis=0), "s32[8,128]")
CASES.values("roll-3d", ("roll",), lambda x: pltpu.roll(x, 5, 2), "f32[2,8,128]")
CASES.values("roll-jnp", ("slice", "concatenate"), lambda x: jnp.roll(x, 1, 0), "f32[8,128]")

for _axis in (0, 1):
    CASES.values(
        f"gather-{_axis}",
        ("gather",),
        lambda x, i, a=_axis: jnp.take_along_axis(x, i, a, mode="promise_in_bounds"),
        "f32[8,128]",
        "s32[8,128]",
    )
CASES.values(
    "gather-fill", ("gather",), lambda x, i: jnp.take_along_axis(x, i, 0, mode="fill"), "f32[8,128]", "s32[8,128]"
)
CASES.values(
    "gather-3d",
    ("gather",),
    lambda x, i: jnp.take_along_axis(x, i, 2, mode="promise_in_bounds"),
    "s32[2,8,128]",
    "s32[2,8,128]",
)

for _equation, _shape, _sizes in (
    ("(ab)c->abc", "[16,128]", {"a": 2}),
    ("abc->(ab)c", "[2,8,128]", {}),
    ("a(bc)->bac", "[8,256]", {"c": 128}),
    ("ab->ba", "[128,128]", {}),
    ("abc->acb", "[2,8,128]", {}),
):
    CASES.values(
        f"einshape-{_equation}",
        ("einshape_lo",),
        lambda x, e=_equation, s=_sizes: pltpu.einshape(e, x, **s),
        f"f32{_shape}",
    )
CASES.values("reverse-order", ("concatenate", "split"), lambda x: jnp.concatenate(jnp.split(x, 2)[::-1]), "f32[16,128]")
CASES.values("one_hot", ("eq", "iota"), lambda i: jax.nn.one_hot(i, 128), "s32[8]")
