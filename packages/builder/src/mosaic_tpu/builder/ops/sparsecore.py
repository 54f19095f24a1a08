"""SparseCore ops as raw helpers: one op each, checked by MLIR's verifier and not here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import ArityError, AttributeValueError
from mosaic_tpu.builder.ops.vector import Indices, VectorOps

type PackFormat = Literal["compressed", "interleaved"]


class SparseCoreOps(VectorOps):
    """``tpu.*`` of the SparseCore, which the simulator and the TensorCore do not run."""

    def _accessed(self, ref: Value, shape: Sequence[int] | None, name: str) -> TypeInfo:
        self._use_ref(ref, name)
        sizes = ref.shape if shape is None else shape
        return self.types.vector(self._shape(sizes, name), self._element(ref._info.element, name))

    def _masked(self, mask: Value | None, name: str) -> object:
        return None if mask is None else self._use_vector(mask, name)

    def _lanes(self, sublane_mask: Sequence[bool], name: str) -> list[bool]:
        self._sequence(sublane_mask, name)
        return [self._flag(m, name, "an entry of the sublane mask") for m in sublane_mask]

    # --- loads and stores ----------------------------------------------------------------------------------------

    @op("tpu.load", group="sparsecore", source="ref[...] on a SparseCore", traits=("load",))
    def tpu_load(
        self, ref: Value, indices: Indices, shape: Sequence[int], sublane_mask: Sequence[bool], sublane_stride: int = 1
    ) -> Value:
        """One register from a VMEM ref.

        Args:
            ref: in VMEM.
            indices: one start a dimension.
            shape: of the register.
            sublane_mask: which sublanes are loaded.
            sublane_stride: step between them; 1 is left out of the op.

        Example:
            >>> b.tpu_load(a.x, [0, 0], (8, 128), [True] * 8).shape
            (8, 128)
        """
        name = "tpu.load"
        info = self._accessed(ref, shape, name)
        stride = self._i32_attribute(sublane_stride, name, "sublane_stride")
        created = self._native(
            "LoadOp",
            name,
            info.ir,
            ref._ir,
            self._indices(ref, indices, name),
            self._lanes(sublane_mask, name),
            sublane_stride=None if stride == 1 else stride,
        )
        return Value(created.results[0], info, self._scope)

    @op("tpu.store", group="sparsecore", source="ref[...] = x on a SparseCore", traits=("store",))
    def tpu_store(
        self,
        ref: Value,
        value: Value,
        indices: Indices,
        sublane_mask: Sequence[bool],
        *,
        mask: Value | None = None,
        sublane_stride: int = 1,
        add: bool = False,
    ) -> None:
        """One register to a VMEM ref.

        Args:
            ref: in VMEM.
            value: a register.
            indices: one start a dimension.
            sublane_mask: which sublanes are stored.
            mask: which elements are stored.
            sublane_stride: step between sublanes; 1 is left out of the op.
            add: add to what is there.

        Example:
            >>> b.tpu_store(a.x, b.zeros((8, 128), f32), [0, 0], [True] * 8)
        """
        name = "tpu.store"
        stride = self._i32_attribute(sublane_stride, name, "sublane_stride")
        self._native(
            "StoreOp",
            name,
            self._use_vector(value, name),
            self._use_ref(ref, name),
            self._indices(ref, indices, name),
            self._lanes(sublane_mask, name),
            mask=self._masked(mask, name),
            sublane_stride=None if stride == 1 else stride,
            add=self._flag(add, name, "add"),
        )

    @op("tpu.vector_load_idx", group="sparsecore", source="plsc.load_gather(ref, indices)", traits=("load",))
    def vector_load_idx(self, ref: Value, indices: Sequence[Value], mask: Value | None = None) -> Value:
        """Elements of a ref at vectors of indices, one vector a dimension.

        Example:
            >>> at = b.zeros((16,), i32)
            >>> b.vector_load_idx(a.x, [at, at]).shape
            (16,)
        """
        name = "tpu.vector_load_idx"
        base, used = self._use_ref(ref, name), [self._use_vector(i, name) for i in self._given(indices, ref, name)]
        info = self.types.vector(indices[0].shape, ref._info.element)
        created = self._native("VectorLoadIdxOp", name, info.ir, base, used, mask=self._masked(mask, name))
        return Value(created.results[0], info, self._scope)

    @op("tpu.vector_store_idx", group="sparsecore", source="plsc.store_scatter(ref, indices, x)", traits=("store",))
    def vector_store_idx(
        self, ref: Value, value: Value, indices: Sequence[Value], mask: Value | None = None, *, add: bool = False
    ) -> None:
        """Write to elements of a ref at vectors of indices, one vector a dimension.

        Example:
            >>> at = b.zeros((16,), i32)
            >>> b.vector_store_idx(a.x, b.zeros((16,), f32), [at, at])
        """
        name = "tpu.vector_store_idx"
        base, used = self._use_ref(ref, name), [self._use_vector(i, name) for i in self._given(indices, ref, name)]
        self._native(
            "VectorStoreIdxOp",
            name,
            self._use_vector(value, name),
            base,
            used,
            mask=self._masked(mask, name),
            add=self._flag(add, name, "add"),
        )

    def _given(self, indices: Sequence[Value], ref: Value, name: str) -> Sequence[Value]:
        self._sequence(indices, name)
        self._use(ref, name)
        if len(indices) != ref.rank or not indices:
            hint = "give one vector a dimension"
            self.fail(ArityError, f"{len(indices)} indices for rank {ref.rank}", op=name, operands=[ref], hint=hint)
        return indices

    @op("tpu.vector_expand_load", group="sparsecore", source="plsc.load_expanded(ref, mask=…)", traits=("load",))
    def vector_expand_load(self, ref: Value, indices: Indices, mask: Value, expand_dim: int = -1) -> Value:
        """Consecutive elements of a ref, spread to where ``mask`` holds along one dimension.

        Example:
            >>> b.vector_expand_load(a.x, [0, 0], b.zeros((8, 128), i1)).shape
            (8, 128)
        """
        name = "tpu.vector_expand_load"
        used = self._use_vector(mask, name)
        info = self._accessed(ref, mask.shape, name)
        starts, axis = self._indices(ref, indices, name), self._expanded(expand_dim, mask, name)
        created = self._native("VectorExpandLoadOp", name, info.ir, ref._ir, starts, used, axis)
        return Value(created.results[0], info, self._scope)

    @op("tpu.vector_compress_store", group="sparsecore", source="plsc.store_compressed(ref, x, …)", traits=("store",))
    def vector_compress_store(
        self, ref: Value, value: Value, indices: Indices, mask: Value, compress_dim: int = -1, *, add: bool = False
    ) -> None:
        """The elements where ``mask`` holds, written one after the other along one dimension.

        Example:
            >>> b.vector_compress_store(a.x, b.zeros((8, 128), f32), [0, 0], b.zeros((8, 128), i1))
        """
        name = "tpu.vector_compress_store"
        stored, base, used = self._use_vector(value, name), self._use_ref(ref, name), self._use_vector(mask, name)
        starts, axis = self._indices(ref, indices, name), self._expanded(compress_dim, mask, name)
        self._native("VectorCompressStoreOp", name, stored, base, starts, used, axis, add=self._flag(add, name, "add"))

    def _expanded(self, axis: int, mask: Value, name: str) -> int:
        found = self._int(axis, name, "dimension")
        if not -mask.rank <= found < mask.rank:
            self.fail(ArityError, f"dimension {found} of rank {mask.rank}", op=name, operands=[mask])
        return found % mask.rank

    @op("tpu.expand_load_vreg", group="sparsecore", source="plsc.load_expanded(ref, mask=…)", traits=("load",))
    def expand_load_vreg(self, ref: Value, indices: Indices, mask: Value) -> Value:
        """`vector_expand_load` of one register.

        Example:
            >>> b.expand_load_vreg(a.x, [0, 0], b.zeros((16,), i1)).shape
            (16,)
        """
        name = "tpu.expand_load_vreg"
        used = self._use_vector(mask, name)
        info = self._accessed(ref, mask.shape, name)
        created = self._native("ExpandLoadVregOp", name, info.ir, ref._ir, self._indices(ref, indices, name), used)
        return Value(created.results[0], info, self._scope)

    @op("tpu.compress_store_vreg", group="sparsecore", source="plsc.store_compressed(ref, x, …)", traits=("store",))
    def compress_store_vreg(
        self, ref: Value, value: Value, indices: Indices, mask: Value, *, add: bool = False
    ) -> None:
        """`vector_compress_store` of one register.

        Example:
            >>> b.compress_store_vreg(a.x, b.zeros((16,), f32), [0, 0], b.zeros((16,), i1))
        """
        name = "tpu.compress_store_vreg"
        stored, base, used = self._use_vector(value, name), self._use_ref(ref, name), self._use_vector(mask, name)
        starts = self._indices(ref, indices, name)
        self._native("CompressStoreVregOp", name, stored, base, starts, used, add=self._flag(add, name, "add"))

    # --- copies and atomics ----------------------------------------------------------------------------------------

    @op("tpu.enqueue_indirect_dma", group="sparsecore", source="pltpu.async_copy(ref.at[indices], …)", traits=("dma",))
    def enqueue_indirect_dma(
        self,
        source: Value,
        target: Value,
        offsets: Value,
        semaphore: Value,
        *,
        offset_filter: Value | None = None,
        add: bool = False,
    ) -> None:
        """Start a copy of rows that ``offsets`` lists: a gather, or a scatter.

        Args:
            source: any ref.
            target: any ref; one of the two is in VMEM.
            offsets: row numbers, a vector or a ref of i32.
            semaphore: a DMA semaphore.
            offset_filter: rows with this number are left out.
            add: add to what is there.

        Example:
            >>> rows = b.zeros((8,), i32)
            >>> b.enqueue_indirect_dma(b.memory_space_cast(a.hbm, "hbm"), a.x, rows, b.sem_alloc("dma"))
        """
        name = "tpu.enqueue_indirect_dma"
        refs = [self._use_ref(r, name) for r in (source, target)]
        self._native(
            "EnqueueIndirectDMAOp",
            name,
            *refs,
            self._use(offsets, name),
            self._use_ref(semaphore, name),
            offset_filter=None if offset_filter is None else self._use(offset_filter, name),
            add=self._flag(add, name, "add"),
        )

    @op("tpu.wait_indirect_dma", group="sparsecore", source="copy.wait() of an indirect copy", traits=("dma",))
    def wait_indirect_dma(self, semaphore: Value, source: Value, target: Value) -> None:
        """Wait for a copy of `enqueue_indirect_dma`.

        Example:
            >>> b.wait_indirect_dma(b.sem_alloc("dma"), b.memory_space_cast(a.hbm, "hbm"), a.x)
        """
        name = "tpu.wait_indirect_dma"
        self._native("WaitIndirectDMAOp", name, *(self._use_ref(r, name) for r in (semaphore, source, target)))

    @op("tpu.fetch_and_add_sync", group="sparsecore", source="plsc.fetch_and_add(ref, value, subcore_id=…)", traits=())
    def fetch_and_add_sync(self, ref: Value, indices: Sequence[Value], value: Value, core_id: Value) -> Value:
        """Add to an SMEM element of another core at once, and return what was there.

        Example:
            >>> b.fetch_and_add_sync(a.lens, [b.lift(0)], b.lift(1), b.lift(2)).dtype
            i32
        """
        name = "tpu.fetch_and_add_sync"
        used = [self._use(v, name) for v in (*self._given(indices, ref, name), value, core_id)]
        created = self._native("FetchAndAddSyncOp", name, self._use_ref(ref, name), used[:-2], *used[-2:])
        return Value(created.results[0], value._info, self._scope)

    # --- registers ---------------------------------------------------------------------------------------------------

    @op("tpu.scan_count", group="sparsecore", source="plsc.scan_count(x, mask)")
    def scan_count(self, mask: Value, values: Value) -> tuple[Value, Value]:
        """How often each element occurred so far: the last occurrences as a mask, and the counts.

        Example:
            >>> last, counts = b.scan_count(b.zeros((16,), i1), b.zeros((16,), i32))
            >>> last.dtype, counts.dtype
            (i1, i32)
        """
        name = "tpu.scan_count"
        used = [self._use_vector(v, name) for v in (mask, values)]
        created = self._native("ScanCountOp", name, *used)
        last, counts = (Value(r, self.types.exact(r.type), self._scope) for r in created.results)
        return last, counts

    def _pack_format(self, given: PackFormat, name: str) -> object:
        if given not in ("compressed", "interleaved"):
            self.fail(AttributeValueError, f"{given!r} is no format", op=name, hint='"compressed" or "interleaved"')
        return self.types.parse(f"#tpu.pack_format<{given}>")

    @op("tpu.pack_subelements", group="sparsecore", source="plsc.pack(a, b, format=…)")
    def pack_subelements(
        self,
        sources: Sequence[Value],
        shape: Sequence[int],
        dtype: DType,
        positions: Sequence[int],
        pack_format: PackFormat,
    ) -> Value:
        """Registers of wide elements in one of narrow elements.

        Args:
            sources: registers.
            shape: of the result.
            dtype: of the result.
            positions: the place of each source in a wide element.
            pack_format: ``"compressed"`` or ``"interleaved"``.

        Example:
            >>> x = b.zeros((16,), f32)
            >>> b.pack_subelements([x, x], (32,), bf16, [0, 1], "interleaved").shape
            (32,)
        """
        name = "tpu.pack_subelements"
        self._sequence(sources, name)
        used = [self._use_vector(s, name) for s in sources]
        info = self.types.vector(self._shape(shape, name), self._element(dtype, name))
        places = list(self._ints(positions, name, "positions"))
        created = self._native("PackSubelementsOp", name, info.ir, used, places, self._pack_format(pack_format, name))
        return Value(created.results[0], info, self._scope)

    @op("tpu.unpack_subelements", group="sparsecore", source="plsc.unpack(ab, format=…)")
    def unpack_subelements(
        self, source: Value, shape: Sequence[int], dtype: DType, index: int, pack_format: PackFormat
    ) -> Value:
        """One register of wide elements from one of narrow elements.

        Args:
            source: a register.
            shape: of the result.
            dtype: of the result.
            index: which of the narrow elements in a wide one.
            pack_format: ``"compressed"`` or ``"interleaved"``.

        Example:
            >>> b.unpack_subelements(b.zeros((32,), bf16), (16,), f32, 1, "interleaved").shape
            (16,)
        """
        name = "tpu.unpack_subelements"
        used = self._use_vector(source, name)
        info = self.types.vector(self._shape(shape, name), self._element(dtype, name))
        at = self._i32_attribute(index, name, "index")
        created = self._native("UnpackSubelementsOp", name, info.ir, used, at, self._pack_format(pack_format, name))
        return Value(created.results[0], info, self._scope)

    @op("tpu.shared_memref_slice", group="sparsecore", source="a subcore's part of a VMEM_SHARED ref")
    def shared_memref_slice(self, ref: Value, shape: Sequence[int]) -> Value:
        """This subcore's part of a ref that all share, as a VMEM ref.

        Args:
            ref: in ``vmem_shared``.
            shape: of the part: the last dimension is divided by the number of subcores.

        Example:
            >>> b.shared_memref_slice(b.alloca((8, 128), f32, "vmem_shared"), (8, 8)).shape
            (8, 8)
        """
        name = "tpu.shared_memref_slice"
        used = self._use_ref(ref, name)
        info = self.types.seen_as(ref._info, self._shape(shape, name), MemorySpace.VMEM)
        self._require(name)
        self._needs_verifier = True
        return self._emit(name, info, [used])
