"""Rules about loads and stores of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._tiling import packing, tile_elements, tile_rows
from mosaic_tpu.aot._lint._views import text_of, view_of
from mosaic_tpu.aot.targets import LANES
from mosaic_tpu.sim import ir

LOADS: Final = ("vector.load", "tpu.vector_load")
STORES: Final = ("vector.store", "tpu.vector_store")
STRIDED: Final = ("tpu.strided_load", "tpu.strided_store")


def _access(op: ir.Operation) -> tuple[ir.Value, Sequence[ir.Value], ir.Type] | None:
    """The ref, the indices and the vector of a load or store."""
    if op.name in LOADS:
        ref, vector = op.operands[0], op.result.type
    else:
        ref, vector = op.operands[1], op.operands[0].type
    indices = [v for v in op.operands if v.type.kind == "scalar" and v.type.element in ("index", "i32")]
    rank = len(ref.type.shape)
    return (ref, indices[:rank], vector) if ref.type.kind == "memref" and len(indices) >= rank > 0 else None


def _accesses(subject: Subject) -> Iterator[tuple[ir.Operation, ir.Value, Sequence[ir.Value], ir.Type]]:
    for op in subject.ops(*LOADS, *STORES):
        found = _access(op)
        if found is not None and found[0].type.space == "vmem":
            yield op, *found


@rule("dynamic-lane-index")
def dynamic_lane_index(subject: Subject) -> Iterator[Issue]:
    """A load or store begins at a lane that is known at run time only.

    The index of the last dimension must be a constant, or provably a multiple of 128 (E2003), however small the slice;
    of a ref of one dimension a multiple of 128 elements of 32 bits, 256 of 16, 512 of 8.
    """
    for op, ref, indices, _ in _accesses(subject):
        unit = LANES if len(indices) > 1 else tile_elements(ref.type)
        if subject.prover.constant(indices[-1]) is None and not subject.prover.is_multiple(indices[-1:], unit):
            yield Issue(
                op,
                f"the index of the last dimension of {text_of(ref)} is dynamic and cannot be shown to be a multiple of "
                f"{unit}",
                f"index in blocks of {unit}, with pl.multiple_of(index, {unit}) if need be; or load whole rows and "
                "rotate or mask; or put the dimension that is indexed first",
            )


@rule("sublane-alignment")
def sublane_alignment(subject: Subject) -> Iterator[Issue]:
    """A load or store begins at a row that is known at run time only, and cannot be shown to begin a tile.

    A tile has 8 rows of 16 or 32 bits and 32 of 8 bits, fewer where the ref has fewer. One row of 32-bit elements may
    begin anywhere, and so may several of a ref of up to 128 lanes. The compiler refuses the rest with E2003.
    """
    for op, ref, indices, vector in _accesses(subject):
        if len(indices) < 2 or subject.prover.constant(indices[-2]) is not None:
            continue
        view = view_of(ref)
        if view is None or len(view.dimensions) != len(indices):
            continue
        tile = tile_rows(view.root.type.shape[view.dimensions[-2]], ref.type)
        rows = vector.shape[-2] if len(vector.shape) > 1 else 1
        single = rows == 1 or view.root.type.shape[-1] <= LANES
        alone = single and packing(ref.type) == 1
        if not alone and not subject.prover.is_multiple(indices[-2:-1], tile):
            yield Issue(
                op,
                f"the index of {'a row' if rows == 1 else f'{rows} rows'} of {text_of(ref)} is dynamic and cannot be "
                f"shown to be a multiple of {tile}, the rows of a tile",
                f"index in blocks of {tile}: pl.multiple_of(index, {tile}) if it is one; or put the dimension that is "
                "indexed before the last two"
                + ("" if packing(ref.type) == 1 else "; or keep the data in 32 bits, of which single rows load"),
            )


@rule("strided-access")
def strided_access(subject: Subject) -> Iterator[Issue]:
    """A strided load or store along lanes, of memory not 128 lanes wide, or of a packed type at a dynamic index.

    The compiler has code for strides along rows, where the last dimension of the argument or scratch behind the ref is
    128, and for packed types with static indices only.
    """
    for op in subject.ops(*STRIDED):
        ref = next(v for v in op.operands if v.type.kind == "memref")
        base, strides = ir.base_of(ref), op.attributes.integers("strides")
        if all(s == 1 for s in strides):
            continue
        indices = [v for v in op.operands if v.type.element == "index"]
        if strides[-1] != 1:
            yield Issue(op, f"a stride of {strides[-1]} along the lanes", "load whole rows, and pick lanes by a matmul")
        elif base.type.shape[-1] != LANES:
            yield Issue(
                op,
                f"a stride over rows of {text_of(ref)}, from memory whose last dimension is {base.type.shape[-1]}, not "
                f"{LANES}",
                f"give the array a last dimension of {LANES}, or load all rows and take some",
            )
        elif packing(ref.type) > 1 and any(subject.prover.constant(v) is None for v in indices):
            yield Issue(
                op,
                f"a stride over rows of {text_of(ref)} at a dynamic index: packed types have static ones only",
                "bitcast the ref to 32 bits, or index a leading dimension",
            )
