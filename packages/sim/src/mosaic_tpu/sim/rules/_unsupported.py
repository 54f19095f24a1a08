"""Ops that no rule runs, and why."""

from __future__ import annotations

from typing import Final

from mosaic_tpu.sim._registry import UNSUPPORTED

_SPARSE_CORE: Final = "it belongs to the SparseCore, and this simulator runs TensorCore kernels"
_REGISTERS: Final = (
    "the compiler makes it after it has laid vectors out in registers, which the simulator does not model"
)
_PIECES: Final = "it splits or joins vectors by register, and the compiler alone makes it"
_ELSEWHERE: Final = "neither Pallas nor the builder emits it, and it has several meanings that no kernel here needs"
_BLOCKS: Final = "kernels have structured control flow, one block in a region"
_FORMATS: Final = "scaled formats of 4 and 6 bits are not TPU types"

_REASONS: Final[dict[str, tuple[str, ...]]] = {
    _SPARSE_CORE: (
        "tpu.barrier",
        "tpu.compress_store_vreg",
        "tpu.enqueue_indirect_dma",
        "tpu.expand_load_vreg",
        "tpu.fetch_and_add_sync",
        "tpu.scan_count",
        "tpu.shared_memref_slice",
        "tpu.subcore_id",
        "tpu.vector_compress_store",
        "tpu.vector_expand_load",
        "tpu.vector_load_idx",
        "tpu.vector_store_idx",
        "tpu.wait_indirect_dma",
    ),
    _REGISTERS: (
        "tpu.bitcast_vreg",
        "tpu.create_subelement_mask",
        "tpu.internal_scratch",
        "tpu.mask_cast",
        "tpu.pack_subelements",
        "tpu.pack_vmsk",
        "tpu.shuffled_load",
        "tpu.shuffled_store",
        "tpu.stochastic_convert_elementwise",
        "tpu.tile_size",
        "tpu.unpack_subelements",
    ),
    _PIECES: ("tpu.roll_vectors", "tpu.unroll_vectors"),
    _FORMATS: ("arith.scaling_extf", "arith.scaling_truncf"),
    _BLOCKS: ("cf.br", "cf.cond_br", "cf.switch"),
    "a kernel calls functions by name": ("func.call_indirect", "func.constant"),
    "it is the function itself: the engine runs what is in it": ("func.func",),
    "a kernel's loops are scf.for and scf.while": (
        "scf.forall",
        "scf.forall.in_parallel",
        "scf.parallel",
        "scf.reduce",
        "scf.reduce.return",
    ),
    "the simulator's vectors have fixed sizes": ("vector.scalable.extract", "vector.scalable.insert", "vector.vscale"),
    _ELSEWHERE: (
        "memref.alloca_scope",
        "memref.alloca_scope.return",
        "memref.assume_alignment",
        "memref.atomic_rmw",
        "memref.atomic_yield",
        "memref.collapse_shape",
        "memref.copy",
        "memref.distinct_objects",
        "memref.dma_start",
        "memref.dma_wait",
        "memref.expand_shape",
        "memref.extract_aligned_pointer_as_index",
        "memref.extract_strided_metadata",
        "memref.generic_atomic_rmw",
        "memref.get_global",
        "memref.global",
        "memref.prefetch",
        "memref.rank",
        "memref.realloc",
        "memref.reshape",
        "memref.subview",
        "memref.transpose",
        "memref.view",
        "vector.compressstore",
        "vector.contract",
        "vector.expandload",
        "vector.gather",
        "vector.mask",
        "vector.outerproduct",
        "vector.print",
        "vector.scan",
        "vector.scatter",
        "vector.transfer_read",
        "vector.transfer_write",
        "vector.type_cast",
        "vector.yield",
    ),
}

UNSUPPORTED.update({name: reason for reason, names in _REASONS.items() for name in names})
