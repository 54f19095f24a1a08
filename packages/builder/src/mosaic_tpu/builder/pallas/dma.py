"""Copies and semaphores: pltpu.make_async_copy, make_async_remote_copy, pl.semaphore_*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PALLAS_WAITS_WITH_WAIT_DMA
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import KindError
from mosaic_tpu.builder.pallas.refs import Hoisted, RefIdioms, RefLike
from mosaic_tpu.builder.views import Index, RefView

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder


@dataclass(frozen=True)
class AsyncCopy:
    """A described copy: nothing is emitted until `start` and `wait`, each of which emits its views anew.

    Attributes:
        source: view copied from.
        target: view copied to.
        semaphore: the target's DMA semaphore.
        source_semaphore: the source's, of a remote copy.
        device_id: logical device of a remote copy.
    """

    builder: Builder
    source: RefView
    target: RefView
    semaphore: RefView
    source_semaphore: RefView | None = None
    device_id: Value | int | None = None

    def _hoist(self, views: tuple[RefView | None, ...]) -> tuple[list[Hoisted | None], Value | None]:
        """The constants of static indices in order of the views, and the device."""
        p = self.builder.pallas
        hoisted = [None if v is None else p._hoist(v) for v in views]
        device = self.device_id
        return hoisted, p._const(device, dt.i32) if isinstance(device, int) else device

    def _operands(self, *, swapped: bool = False) -> tuple[Value, Value, Value, Value | None, Value | None]:
        # Pallas makes the constants of static indices first, then the views from the last operand to the first.
        p = self.builder.pallas
        if swapped:  # `wait_send` names its operands the other way round
            found, device = self._hoist((self.target, self.source, self.source_semaphore, self.semaphore))
            hoisted = [found[1], found[0], found[3], found[2]]
        else:
            hoisted, device = self._hoist((self.source, self.target, self.semaphore, self.source_semaphore))
        source_sem = None if self.source_semaphore is None else p._materialize(self.source_semaphore, hoisted[3])
        semaphore = p._materialize(self.semaphore, hoisted[2])
        target = p._materialize(self.target, hoisted[1])
        source = p._materialize(self.source, hoisted[0])
        return source, target, semaphore, source_sem, device

    def start(self, *, priority: int = 0) -> None:
        """Start the copy: ``tpu.enqueue_dma``."""
        with self.builder.pallas._one_line():
            self._start(priority)

    def _start(self, priority: int) -> None:
        b = self.builder
        if self.source_semaphore is None and self.device_id is None:
            self._local(("enqueue_dma", priority), lambda x, y, sem: b.enqueue_dma(x, y, sem, priority=priority))
            return
        source, target, semaphore, source_sem, device = self._operands()
        self.builder.enqueue_dma(
            source, target, semaphore, source_semaphore=source_sem, device_id=device, priority=priority
        )

    def _local(self, key: tuple[object, ...], emit: Callable[[Value, Value, Value], None]) -> None:
        """Emit the three views of a local copy and the op on them, as one template."""
        b = self.builder
        structures, values = zip(*[b.pallas._split(v) for v in (self.source, self.target, self.semaphore)], strict=True)

        def build(*arguments: Value) -> tuple[Value, ...]:
            given = iter(arguments)
            views = [b.pallas._join(s, given) for s in structures]
            semaphore, target, source = (b.pallas._materialize(v) for v in reversed(views))
            emit(source, target, semaphore)
            return ()

        b._inlined((*key, structures), [v for found in values for v in found], build)

    def wait(self) -> None:
        """Wait for the copy's arrival: ``tpu.wait_dma``, or ``tpu.wait_dma2`` before jaxlib 0.12.

        Of a remote copy, as in Pallas: `wait_send`, then `wait_recv`.
        """
        if self.source_semaphore is not None:
            self.wait_send()
        self.wait_recv()

    def wait_recv(self) -> None:
        """Wait until the target has arrived, here, from the other device."""
        with self.builder.pallas._one_line():
            self._wait(sent=False)

    def wait_send(self) -> None:
        """Wait until the source of a remote copy may be overwritten.

        Raises:
            KindError: the copy is not remote.
        """
        if self.source_semaphore is None:
            self.builder.fail(
                KindError, "wait_send of a copy on this device", op="wait_send", hint="wait() for its arrival"
            )
        with self.builder.pallas._one_line():
            self._wait(sent=True)

    def _wait(self, *, sent: bool) -> None:
        if not PALLAS_WAITS_WITH_WAIT_DMA and self.source_semaphore is not None:
            self._wait_dma2(sent=sent)
            return
        if self.source_semaphore is None and self.device_id is None:
            self._local(("wait_dma",), self.builder.wait_dma)
            return
        source, target, semaphore, source_sem, device = self._operands(swapped=sent)
        self.builder.wait_dma(
            source, target, semaphore, source_semaphore=source_sem, wait_target=not sent, device_id=device
        )

    def _wait_dma2(self, *, sent: bool) -> None:
        """Before jaxlib 0.12: one semaphore, and of what was sent another device that is always 0."""
        p = self.builder.pallas
        views = (self.source, self.target, self.semaphore, self.source_semaphore)
        if sent:
            views = (self.target, self.source, self.source_semaphore, self.semaphore)
        hoisted, device = self._hoist(views)
        if sent:
            device = p._const(0, dt.i32)
        core = device if sent else None
        waited, second, first = (p._materialize(views[n], hoisted[n]) for n in (2, 1, 0))  # pyright: ignore[reportArgumentType]
        self.builder.wait_dma(first, second, waited, device_id=device, core_id=core)


class DmaIdioms(RefIdioms):
    """Copies between refs and semaphores."""

    def _hoist(self, view: RefView) -> Hoisted | None:
        """Constants of a view's static integer indices, which Pallas makes before it emits any view."""
        hoisted: Hoisted = {}
        for number, transform in enumerate(view.transforms):
            if type(transform) is Index and transform.drops:
                hoisted[number] = [self._const(e, dt.i32) if type(e) is int else None for e in transform.entries]
        return hoisted or None

    @idiom("pltpu.make_async_copy(src, dst, sem)", "tpu.enqueue_dma", "tpu.wait_dma", group="dma", traits=("dma",))
    def async_copy(self, source: RefLike, target: RefLike, semaphore: RefLike) -> AsyncCopy:
        """`pltpu.make_async_copy`.

        Example:
            >>> copy = b.pallas.async_copy(a.hbm, a.x, b.sem_alloc("dma"))
            >>> copy.start(); copy.wait()
        """
        src, dst, sem = (self._view(v, "async_copy") for v in (source, target, semaphore))
        return AsyncCopy(self._b, src, dst, sem)

    @idiom("pltpu.make_async_remote_copy(…)", "tpu.enqueue_dma", "tpu.wait_dma", group="dma", traits=("dma",))
    def async_remote_copy(
        self, source: RefLike, target: RefLike, send_semaphore: RefLike, recv_semaphore: RefLike, device_id: Value | int
    ) -> AsyncCopy:
        """`pltpu.make_async_remote_copy` with a logical device id.

        Example:
            >>> send, recv = b.sem_alloc("dma"), b.sem_alloc("dma")
            >>> b.pallas.async_remote_copy(a.hbm, a.hbm, send, recv, 1).start()
        """
        src, dst, send, recv = (
            self._view(v, "async_remote_copy") for v in (source, target, send_semaphore, recv_semaphore)
        )
        return AsyncCopy(self._b, src, dst, recv, send, device_id)

    @idiom("pl.semaphore_signal(sem, n)", "tpu.sem_signal", group="dma", traits=("semaphore",))
    def semaphore_signal(
        self, semaphore: RefLike, amount: Value | int = 1, *, device_id: Value | int | None = None
    ) -> None:
        """`pl.semaphore_signal`, here or on another logical device.

        Example:
            >>> b.pallas.semaphore_signal(b.sem_alloc(), 1)
        """
        view = self._view(semaphore, "semaphore_signal")
        hoisted = self._hoist(view)
        count = amount if isinstance(amount, Value) else self._const(amount, dt.i32)
        device = self._const(device_id, dt.i32) if isinstance(device_id, int) else device_id
        self._b.sem_signal(self._materialize(view, hoisted), count, device_id=device)

    @idiom("pl.semaphore_wait(sem, n)", "tpu.sem_wait", group="dma", traits=("semaphore",))
    def semaphore_wait(self, semaphore: RefLike, amount: Value | int = 1) -> None:
        """`pl.semaphore_wait`.

        Example:
            >>> b.pallas.semaphore_wait(b.sem_alloc(), 1)
        """
        view = self._view(semaphore, "semaphore_wait")
        hoisted = self._hoist(view)
        count = amount if isinstance(amount, Value) else self._const(amount, dt.i32)
        self._const(True, dt.i1)  # `decrement`, which the lowering only looks at
        self._b.sem_wait(self._materialize(view, hoisted), count)

    @idiom("pl.semaphore_read(sem)", "tpu.sem_read", group="dma", traits=("semaphore",))
    def semaphore_read(self, semaphore: RefLike) -> Value:
        """`pl.semaphore_read`.

        Example:
            >>> b.pallas.semaphore_read(b.sem_alloc()).dtype
            i32
        """
        view = self._view(semaphore, "semaphore_read")
        return self._b.sem_read(self._materialize(view, self._hoist(view)))
