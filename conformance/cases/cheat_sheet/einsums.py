"""`jnp.einsum` of one operand and two, and products over any dimensions."""

from __future__ import annotations

from conformance.cases.cheat_sheet.pairs import Pairs, vmem
from mosaic_tpu.builder import bf16, f32, i32

PAIRS = Pairs("einsum")


def _label(spec: str) -> str:
    return spec.replace("->", "-to-").replace(",", "-").replace(" ", "").strip("-")


# --- one operand -----------------------------------------------------------------------------------------------------

for spec in ("ij->ji", "ij->i", "ij->j", "ij->ij", "ij", "ji"):
    for dtype in (f32, bf16, i32):
        PAIRS.expression(
            f"einsum-{_label(spec)}-{dtype}",
            f"jnp.einsum('{spec}', x)",
            f"b.pallas.einsum('{spec}', x)",
            x=vmem(dtype, (16, 128)),
        )
for spec, shape in [
    ("ij->", (8, 128)),
    ("ii->i", (128, 128)),
    ("ii->", (128, 128)),
    ("ii", (128, 128)),
    ("kij->ji", (8, 8, 128)),
    ("kij->", (8, 8, 128)),
    ("kij->k", (8, 8, 128)),
    ("jik->k", (8, 8, 128)),
    ("kij->jik", (8, 8, 128)),
    ("iij->ij", (8, 8, 128)),
    ("iij->j", (8, 8, 128)),
]:
    PAIRS.expression(
        f"einsum-{_label(spec)}-{len(shape)}d",
        f"jnp.einsum('{spec}', x)",
        f"b.pallas.einsum('{spec}', x)",
        x=vmem(f32, shape),
    )
for spec in ("ij->i", "ij->ji", "ij->ij"):
    PAIRS.expression(
        f"einsum-{_label(spec)}-widened",
        f"jnp.einsum('{spec}', x, preferred_element_type=jnp.float32)",
        f"b.pallas.einsum('{spec}', x, preferred_element_type=f32)",
        x=vmem(bf16, (16, 128)),
    )

# --- two -------------------------------------------------------------------------------------------------------------

for spec, x, y in [
    ("nd,md->mn", (8, 128), (16, 128)),
    ("nd,dm->nm", (8, 128), (128, 16)),
    ("dn,dm->nm", (128, 8), (128, 16)),
    ("dn,dm->mn", (128, 8), (128, 16)),
    ("ij,ij->i", (8, 128), (8, 128)),
    ("ij,ij->j", (8, 128), (8, 128)),
    ("ij,j->i", (8, 128), (128,)),
    ("ij,i->j", (8, 128), (8,)),
    ("i,ij->j", (8,), (8, 128)),
    ("bnd,bmd->bmn", (2, 8, 128), (2, 16, 128)),
    ("bnd,bmd->nbm", (2, 8, 128), (2, 16, 128)),
    ("nbd,mbd->bnm", (8, 2, 128), (16, 2, 128)),
    ("nba,mba->nm", (8, 4, 128), (16, 4, 128)),
    ("lmk,lmn->kn", (4, 8, 128), (4, 8, 16)),
    ("ij,jk", (8, 128), (128, 16)),
    ("ij,kj", (8, 128), (16, 128)),
    ("ij,jk->i", (8, 128), (128, 16)),
    ("ijl,jk->ik", (8, 128, 4), (128, 16)),
    ("bij,bjk->bik", (1, 8, 128), (2, 128, 16)),
    ("abij,abjk->abik", (2, 2, 8, 128), (2, 2, 128, 16)),
    ("baij,abjk->abik", (2, 2, 8, 128), (2, 2, 128, 16)),
    ("ij,jk->ki", (8, 128), (128, 16)),
    ("qhd,khd->hqk", (8, 4, 128), (16, 4, 128)),
    ("hqk,khd->qhd", (4, 8, 16), (16, 4, 128)),
    ("ii,ij->j", (8, 8), (8, 128)),
]:
    PAIRS.expression(
        f"einsum-{_label(spec)}",
        f"jnp.einsum('{spec}', x, y)",
        f"b.pallas.einsum('{spec}', x, y)",
        x=vmem(f32, x),
        y=vmem(f32, y),
    )
PAIRS.expression(
    "einsum-bf16-widened",
    "jnp.einsum('nd,md->mn', x, y, preferred_element_type=jnp.float32)",
    "b.pallas.einsum('nd,md->mn', x, y, preferred_element_type=f32)",
    x=vmem(bf16, (16, 128)),
    y=vmem(bf16, (16, 128)),
)
for first, second in ((bf16, f32), (f32, bf16)):
    PAIRS.expression(
        f"einsum-types-{first}-{second}",
        "jnp.einsum('nd,md->nm', x, y)",
        "b.pallas.einsum('nd,md->nm', x, y)",
        x=vmem(first, (16, 128)),
        y=vmem(second, (16, 128)),
    )

# --- over any dimensions ---------------------------------------------------------------------------------------------

for name, axes, x, y in [
    ("last", "(1, 1)", (8, 128), (16, 128)),
    ("several", "((1,), (1,))", (8, 128), (16, 128)),
    ("first", "(0, 0)", (8, 128), (8, 16)),
    ("two", "((0, 1), (0, 1))", (4, 8, 128), (4, 8, 16)),
    ("two-swapped", "((1, 0), (1, 0))", (4, 8, 128), (4, 8, 16)),
    ("count", "1", (8, 128), (128, 16)),
    ("default", "2", (4, 8, 128), (8, 128, 16)),
]:
    PAIRS.expression(
        f"tensordot-{name}",
        f"jnp.tensordot(x, y, {axes})",
        f"b.pallas.tensordot(x, y, {axes})",
        x=vmem(f32, x),
        y=vmem(f32, y),
    )
PAIRS.expression("inner-matrices", "jnp.inner(x, y)", "b.pallas.inner(x, y)", x=vmem(f32), y=vmem(f32, (16, 128)))
PAIRS.expression("inner-vector", "jnp.inner(x, y)", "b.pallas.inner(x, y)", x=vmem(f32), y=vmem(f32, (128,)))
PAIRS.expression(
    "inner-bf16",
    "jnp.inner(x, y, preferred_element_type=jnp.float32)",
    "b.pallas.inner(x, y, preferred_element_type=f32)",
    x=vmem(bf16, (16, 128)),
    y=vmem(bf16, (16, 128)),
)
