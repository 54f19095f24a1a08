"""Products: dimension numbers, ranks, element types, precisions, single rows, sums of indices."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.pairs import Pairs, vmem
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i4, i8, i32

PAIRS = Pairs("dot")


def _preferred(dtype: DType | None) -> tuple[str, str]:
    if dtype is None:
        return "", ""
    return f", preferred_element_type={JAX_NAMES[dtype]}", f", preferred_element_type={dtype}"


# --- dimension numbers ------------------------------------------------------------------------------------------------

for name, dims, left, right in [
    ("batch-nt", "(((2,), (2,)), ((0,), (0,)))", (2, 8, 128), (2, 16, 128)),
    ("batch-tn", "(((1,), (1,)), ((0,), (0,)))", (2, 128, 8), (2, 128, 16)),
    ("batch-second", "(((2,), (2,)), ((1,), (1,)))", (8, 2, 128), (8, 2, 128)),
    ("batch-two", "(((3,), (2,)), ((0, 1), (0, 1)))", (2, 3, 8, 128), (2, 3, 128, 128)),
    ("two-contracted", "(((1, 2), (1, 2)), ((), ()))", (8, 2, 128), (8, 2, 128)),
    ("left-3d", "(((2,), (0,)), ((), ()))", (2, 8, 128), (128, 128)),
    ("right-3d", "(((1,), (2,)), ((), ()))", (8, 128), (2, 8, 128)),
    ("vector-right", "(((1,), (0,)), ((), ()))", (8, 128), (128,)),
    ("vector-left", "(((0,), (0,)), ((), ()))", (128,), (128, 128)),
    ("batch-of-dots", "(((1,), (1,)), ((0,), (0,)))", (8, 128), (8, 128)),
]:
    for dtype, result in ((f32, None), (bf16, f32)):
        theirs, ours = _preferred(result)
        PAIRS.expression(
            f"dot-general-{name}-{dtype}",
            f"lax.dot_general(x, y, {dims}{theirs})",
            f"b.pallas.dot_general(x, y, {dims}{ours})",
            x=vmem(dtype, left),
            y=vmem(dtype, right),
        )

# --- element types and precisions -------------------------------------------------------------------------------------

for left, right, result in [
    (i8, i8, i32),
    (i4, i4, i32),
    (f8e4m3fn, f8e4m3fn, f32),
    (f8e5m2, f8e5m2, f32),
    (bf16, f32, None),
    (f32, bf16, None),
    (bf16, f32, f32),
    (bf16, i8, f32),
    (bf16, f16, None),
    (f16, bf16, None),
    (f16, bf16, f32),
]:
    theirs, ours = _preferred(result)
    PAIRS.expression(
        f"jnp-dot-{left}-{right}{'' if result is None else f'-to-{result}'}",
        f"jnp.dot(x, y{theirs})",
        f"b.pallas.dot(x, y{ours})",
        x=vmem(left, (64, 128)),
        y=vmem(right, (128, 128)),
    )
PAIRS.expression("matmul-bf16-f16", "x @ y", "b.pallas.matmul(x, y)", x=vmem(bf16, (64, 128)), y=vmem(f16, (128, 128)))
PAIRS.expression(
    "tensordot-bf16-f16",
    "jnp.tensordot(x, y, 1)",
    "b.pallas.tensordot(x, y, 1)",
    x=vmem(bf16, (64, 128)),
    y=vmem(f16, (128, 128)),
)
PAIRS.expression(
    "inner-f16-bf16", "jnp.inner(x, y)", "b.pallas.inner(x, y)", x=vmem(f16, (16, 128)), y=vmem(bf16, (16, 128))
)
PAIRS.expression(
    "einsum-bf16-f16",
    "jnp.einsum('ij,jk->ik', x, y)",
    "b.pallas.einsum('ij,jk->ik', x, y)",
    x=vmem(bf16, (64, 128)),
    y=vmem(f16, (128, 128)),
)
PAIRS.expression(
    "dot-general-bf16-f16",
    "lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)",
    "b.pallas.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=f32)",
    x=vmem(bf16, (64, 128)),
    y=vmem(f16, (128, 128)),
)
for theirs, ours in (("HIGHEST", "fp32"), ("HIGH", "bf16x3")):
    for dims in ("(((1,), (1,)), ((), ()))", "(((0,), (0,)), ((), ()))"):
        PAIRS.expression(
            f"dot-general-{theirs.lower()}-{'nt' if '1' in dims else 'tn'}",
            f"lax.dot_general(x, y, {dims}, precision=lax.Precision.{theirs})",
            f"b.pallas.dot_general(x, y, {dims}, precision='{ours}')",
            x=vmem(f32, (128, 128)),
            y=vmem(f32, (128, 128)),
        )

# --- ranks ------------------------------------------------------------------------------------------------------------

for name, left, right in [
    ("2d", (8, 128), (128, 128)),
    ("matrix-vector", (8, 128), (128,)),
    ("vector-matrix", (128,), (128, 128)),
    ("3d-2d", (2, 8, 128), (128, 128)),
]:
    for function in ("dot", "matmul"):
        PAIRS.expression(
            f"jnp-{function}-{name}",
            f"jnp.{function}(x, y)",
            f"b.pallas.{function}(x, y)",
            x=vmem(f32, left),
            y=vmem(f32, right),
        )
for dtype, result in ((f32, None), (bf16, f32)):
    theirs, ours = _preferred(result)
    PAIRS.expression(
        f"matmul-batch-{dtype}",
        f"jnp.matmul(x, y{theirs})",
        f"b.pallas.matmul(x, y{ours})",
        x=vmem(dtype, (2, 16, 128)),
        y=vmem(dtype, (2, 128, 128)),
    )
PAIRS.expression(
    "matmul-two-batches", "x @ y", "b.pallas.matmul(x, y)", x=vmem(f32, (2, 3, 8, 128)), y=vmem(f32, (2, 3, 128, 128))
)
PAIRS.expression(
    "dot-of-transpose",
    "x.T @ y",
    "b.pallas.matmul(b.pallas.transpose(x), y)",
    x=vmem(f32, (128, 128)),
    y=vmem(f32, (128, 128)),
)
PAIRS.expression(
    "lax-dot",
    "lax.dot(x, y, preferred_element_type=jnp.float32)",
    "b.pallas.dot(x, y, preferred_element_type=f32)",
    x=vmem(bf16, (16, 128)),
    y=vmem(bf16, (128, 128)),
)
PAIRS.expression(
    "inner", "jnp.inner(x, y)", "b.pallas.dot_general(x, y, (((1,), (1,)), ((), ())))", x=vmem(f32), y=vmem(f32)
)
PAIRS.expression("tensordot", "jnp.tensordot(x, y, axes=1)", "b.pallas.dot(x, y)", x=vmem(f32), y=vmem(f32, (128, 128)))

# --- a single row on the right, which is reduced on the VPU -----------------------------------------------------------

ROW = "(((1,), (1,)), ((), ()))"
for name, left, right, rows, result in [
    ("bf16", bf16, bf16, 16, None),
    ("one-by-one", bf16, bf16, 1, None),
    ("one-by-one-to-f32", bf16, bf16, 1, f32),
    ("f32", f32, f32, 8, None),
]:
    theirs, ours = _preferred(result)
    PAIRS.expression(
        f"dot-row-{name}",
        f"lax.dot_general(x, y, {ROW}{theirs})",
        f"b.pallas.dot_general(x, y, {ROW}{ours})",
        x=vmem(left, (rows, 128)),
        y=vmem(right, (1, 128)),
    )

# --- sums of indices --------------------------------------------------------------------------------------------------

for spec, left, right in [
    ("ij,jk->ik", (8, 128), (128, 128)),
    ("ij,kj->ik", (8, 128), (16, 128)),
    ("ji,jk->ik", (128, 8), (128, 128)),
    ("ij,kj->ki", (8, 128), (16, 128)),
    ("ij,jk->ki", (8, 128), (128, 128)),
    ("ij,ij->i", (8, 128), (8, 128)),
    ("ij,j->i", (8, 128), (128,)),
    ("bij,bjk->bik", (2, 8, 128), (2, 128, 128)),
    ("bij,bkj->bik", (2, 8, 128), (2, 8, 128)),
    ("bij,jk->bik", (2, 8, 128), (128, 128)),
    ("nhd,mhd->hnm", (8, 2, 128), (8, 2, 128)),
    ("hnm,mhd->hnd", (2, 8, 8), (8, 2, 128)),
]:
    PAIRS.expression(
        f"einsum-{spec.replace(',', '-').replace('->', '-')}",
        f"jnp.einsum('{spec}', x, y)",
        f"b.pallas.einsum('{spec}', x, y)",
        x=vmem(f32, left),
        y=vmem(f32, right),
    )
