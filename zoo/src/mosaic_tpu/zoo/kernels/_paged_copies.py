"""Copies of the pages of one block of a paged KV cache, from HBM into one of two buffers in VMEM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic_tpu.builder import Builder, RefView, Value
from mosaic_tpu.builder.pallas import AsyncCopy


@dataclass(frozen=True)
class PagedCache:
    """A KV cache in HBM and the tables that say which of its pages a sequence has.

    Attributes:
        b: the kernel's builder.
        pages: the cache, ``[pages, page_size, 2 * kv_heads, head_dim]``.
        kv_lens: tokens of each sequence, i32 in SMEM.
        page_indices: pages of each sequence, i32 ``[seqs, pages_per_seq]`` in SMEM.
        buffers: VMEM, ``[2, pages_per_block, page_size, 2 * kv_heads_per_block, head_dim]``.
        semaphores: one a buffer.
    """

    b: Builder
    pages: Value
    kv_lens: Value
    page_indices: Value
    buffers: Value
    semaphores: Value

    def copies(self, head_block: Value, seq: Value, kv_block: Value | int, buffer: Value) -> PagedCopies:
        """The copies of block ``kv_block`` of sequence ``seq`` and heads ``head_block`` into ``buffer``.

        The scalar arithmetic is emitted here, and the copies where they are started and waited for.
        """
        b = self.b
        _, pages_per_block, page_size, combined_heads, _ = self.buffers.shape
        pages_per_seq = self.page_indices.shape[1]

        first_page = kv_block * pages_per_block
        end_page = b.pallas.minimum(pages_per_seq, b.pallas.cdiv(self.kv_lens[seq], page_size))
        heads = b.pallas.ds(head_block * combined_heads, combined_heads)
        source, target, semaphore = self.pages.at[:, :, heads, :], self.buffers.at[buffer], self.semaphores.at[buffer]

        copies: list[AsyncCopy] = []
        for i in range(pages_per_block):
            page = first_page + i
            in_cache = self.page_indices[seq, b.pallas.select(page < end_page, page, 0)]
            copies.append(b.pallas.async_copy(source.at[in_cache], target.at[i], semaphore))
        return PagedCopies(copies, target)


@dataclass(frozen=True)
class PagedCopies:
    """The copies of one block, a page each, all on one semaphore.

    Attributes:
        copies: one a page.
        target: the buffer they fill, ``[pages_per_block, page_size, 2 * kv_heads_per_block, head_dim]``.
    """

    copies: Sequence[AsyncCopy]
    target: RefView

    def start(self) -> None:
        """Start them all."""
        for copy in self.copies:
            copy.start()

    def wait(self) -> RefView:
        """Wait for them all.

        Returns:
            The buffer, rows of one token and head: ``[pages_per_block * page_size * 2 * kv_heads, head_dim]``.
        """
        for copy in self.copies:
            copy.wait()
        return self.target.reshape(-1, self.target.shape[-1])


__all__ = ["PagedCache", "PagedCopies"]
