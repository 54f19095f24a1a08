"""Copies and semaphores: pltpu.make_async_copy, make_async_remote_copy, pl.semaphore_*."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PALLAS_COUNTS_DEVICES_UNSIGNED, PALLAS_WAITS_WITH_WAIT_DMA
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, KindError
from mosaic_tpu.builder.pallas.refs import Hoisted, RefIdioms, RefLike
from mosaic_tpu.builder.views import Index, RefView

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder


@dataclass(frozen=True)
class MeshDevice:
    """A device by its coordinates on a mesh: ``device_id={"x": 1}`` of Pallas.

    Attributes:
        coordinates: one for each axis, an int or an i32 value; this device's own along axes that are left out.
        mesh: the size of every axis, in order, as the call's mesh has them.
    """

    coordinates: Mapping[str, Value | int]
    mesh: Mapping[str, int]


type Device = Value | int | MeshDevice


@dataclass(frozen=True)
class AsyncCopy:
    """A described copy: nothing is emitted until `start` and `wait`, each of which emits its views anew.

    Attributes:
        source: view copied from.
        target: view copied to.
        semaphore: the target's DMA semaphore.
        source_semaphore: the source's, of a remote copy.
        device_id: logical device of a remote copy, or one on a mesh.
    """

    builder: Builder
    source: RefView
    target: RefView
    semaphore: RefView
    source_semaphore: RefView | None = None
    device_id: Device | None = None

    def _hoist(self, views: tuple[RefView | None, ...]) -> tuple[list[Hoisted | None], Value | None]:
        """The constants of static indices in order of the views, and the device."""
        p = self.builder.pallas
        hoisted = [None if v is None else p._hoist(v) for v in views]
        return hoisted, p._device(self.device_id)

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
        """Start the copy: ``tpu.enqueue_dma``.

        Args:
            priority: 0 or 1, lower first.
        """
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
        hoisted = [None if v is None else p._hoist(v) for v in views]
        given, compute = p._given_device(self.device_id)
        device = p._const(0, dt.i32) if sent else given if compute is None else compute()
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
                hoisted[number] = [
                    self._static(view, number, d, e) if type(e) is int else None
                    for d, e in enumerate(transform.entries)
                ]
        return hoisted or None

    @idiom('device_id={"x": 1}', "tpu.device_id", "arith.muli", group="dma")
    def on_mesh(self, coordinates: Mapping[str, Value | int], mesh: Mapping[str, int]) -> MeshDevice:
        """A device by mesh coordinates, as ``device_id`` of `async_remote_copy` and `semaphore_signal`.

        Args:
            coordinates: by the name of the axis, ints or i32 values; this device's own along the axes left out.
            mesh: the size of every axis, in the order of the call's mesh.

        Raises:
            ArityError: an axis that the mesh does not have.
            AttributeValueError: a size that is not positive.

        Example:
            >>> neighbour = b.pallas.on_mesh({"y": 1}, mesh={"x": 2, "y": 4})
            >>> b.pallas.semaphore_signal(b.sem_alloc(), 1, device_id=neighbour)
        """
        b, op = self._b, "on_mesh"
        if not isinstance(coordinates, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = 'on_mesh({"y": 1}, mesh={"x": 2, "y": 4})'
            b.fail(KindError, f"{coordinates!r} is not a mapping", op=op, hint=hint)
        sizes = self._mesh_sizes(op, coordinates, mesh)
        found = {n: c if isinstance(c, Value) else b._int(c, op, "coordinate") for n, c in coordinates.items()}
        return MeshDevice(found, sizes)

    def _mesh_sizes(self, op: str, axes: Iterable[str], mesh: Mapping[str, int]) -> dict[str, int]:
        """The sizes of a mesh that has these axes."""
        b = self._b
        if not isinstance(mesh, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            b.fail(KindError, f"{mesh!r} is not a mapping", op=op, hint='mesh={"x": 2, "y": 4}')
        sizes = {axis: b._int(size, op, "size of the mesh") for axis, size in mesh.items()}
        if any(size < 1 for size in sizes.values()):
            b.fail(AttributeValueError, f"a mesh of {sizes}", op=op, hint="sizes are positive")
        unknown = [axis for axis in axes if axis not in sizes]
        if unknown:
            b.fail(ArityError, f"no axis {unknown[0]!r}", op=op, hint=f"the mesh has {', '.join(map(str, sizes))}")
        return sizes

    @idiom("lax.axis_index(name)", "tpu.device_id", "arith.divui", "arith.remui", group="dma")
    def axis_index(self, name: str, mesh: Mapping[str, int]) -> Value:
        """`lax.axis_index` under `jax.shard_map`: where this device is along an axis of the mesh.

        Args:
            name: of the axis.
            mesh: the size of every axis, in the order of the call's mesh.

        Raises:
            ArityError: an axis that the mesh does not have.
            AttributeValueError: a size that is not positive.

        Example:
            >>> b.pallas.axis_index("y", mesh={"x": 2, "y": 4}).dtype
            i32
        """
        sizes = self._mesh_sizes("axis_index", (name,), mesh)
        with self._one_line("axis_index"):
            return self._axis_index(sizes[name], _stride(sizes, name))

    def _device(self, device: Device | None) -> Value | None:
        given, compute = self._given_device(device)
        return given if compute is None else compute()

    def _given_device(self, device: Device | None) -> tuple[Value | None, Callable[[], Value] | None]:
        """Constants of what is given, and what makes the logical id of them where there is more to do."""
        if isinstance(device, int):
            return self._const(device, dt.i32), None
        if not isinstance(device, MeshDevice):
            return device, None
        known = {
            n: c if isinstance(c, Value) else self._const(c, dt.i32) for n, c in sorted(device.coordinates.items())
        }
        return None, lambda: self._mesh_number(known, device.mesh)

    def _mesh_number(self, known: Mapping[str, Value], mesh: Mapping[str, int]) -> Value:
        """The number of a device: its coordinates times the strides of the mesh."""
        b = self._b
        strides = {axis: _stride(mesh, axis) for axis in mesh}
        complete = {
            axis: known[axis] if axis in known else self._axis_index(mesh[axis], strides[axis]) for axis in mesh
        }
        total: Value | None = None
        for axis, coordinate in complete.items():
            part = b.muli(coordinate, self._const(strides[axis], dt.i32))
            total = b.addi(self._const(0, dt.i32) if total is None else total, part)
        return self._const(0, dt.i32) if total is None else total

    def _axis_index(self, size: int, stride: int) -> Value:
        """`lax.axis_index`: where this device is along an axis."""
        b = self._b
        device = b.device_id()
        length, minor = self._const(size, dt.i32), self._const(stride, dt.i32)
        if PALLAS_COUNTS_DEVICES_UNSIGNED:
            return b.remui(b.divui(device, minor), length)
        return b.remsi(b.divsi(device, minor), length)

    def _pinned(self, view: RefView) -> RefView:
        """The view with constants, made here, for its static indices: a region takes those as operands."""
        transforms = tuple(
            Index(tuple(self._static(view, number, d, e) if type(e) is int else e for d, e in enumerate(t.entries)))
            if type(t) is Index
            else t
            for number, t in enumerate(view.transforms)
        )
        return RefView(view.ref, transforms, view.shape, view.dtype)

    @idiom("pltpu.make_async_copy(src, dst, sem)", "tpu.enqueue_dma", "tpu.wait_dma", group="dma", traits=("dma",))
    def async_copy(self, source: RefLike, target: RefLike, semaphore: RefLike) -> AsyncCopy:
        """`pltpu.make_async_copy`: a copy on this device, which `AsyncCopy.start` starts and `AsyncCopy.wait` awaits.

        Args:
            source: ref to copy from, or a view of one: ``a.x.at[0:8]``.
            target: ref or view to copy to, of the same shape and dtype.
            semaphore: DMA semaphore that counts what has arrived: ``Sem("dma")``, or an element of a `SemArray`.

        Returns:
            The copy. Nothing is emitted yet.

        Example:
            >>> copy = b.pallas.async_copy(a.hbm, a.x, b.sem_alloc("dma"))
            >>> copy.start(); copy.wait()
        """
        src, dst, sem = (self._view(v, "async_copy") for v in (source, target, semaphore))
        return AsyncCopy(self._b, src, dst, sem)

    @idiom("pltpu.sync_copy(src, dst)", "tpu.region", "tpu.enqueue_dma", "tpu.wait_dma", group="dma", traits=("dma",))
    def sync_copy(self, source: RefLike, target: RefLike) -> None:
        """`pltpu.sync_copy`: a copy that is waited for, with a semaphore of its own.

        Args:
            source: ref to copy from, or a view of one.
            target: ref or view to copy to.

        Example:
            >>> b.pallas.sync_copy(a.hbm, a.x)
        """
        src, dst = (self._pinned(self._view(v, "sync_copy")) for v in (source, target))
        with self._one_line("sync_copy"), self._b.region():
            copy = AsyncCopy(self._b, src, dst, RefView(self._b.sem_alloc("dma")))
            copy.start()
            copy.wait()

    @idiom("pltpu.make_async_remote_copy(…)", "tpu.enqueue_dma", "tpu.wait_dma", group="dma", traits=("dma",))
    def async_remote_copy(
        self, source: RefLike, target: RefLike, send_semaphore: RefLike, recv_semaphore: RefLike, device_id: Device
    ) -> AsyncCopy:
        """`pltpu.make_async_remote_copy` to a logical device, or to one on a mesh (`on_mesh`).

        Args:
            source: ref or view here to copy from.
            target: ref or view on the other device to copy to, named by this device's own ref.
            send_semaphore: DMA semaphore that counts here what has left: `AsyncCopy.wait_send`.
            recv_semaphore: DMA semaphore that counts there what has arrived: `AsyncCopy.wait_recv`.
            device_id: logical device to copy to, or one on a mesh.

        Returns:
            The copy. Nothing is emitted yet; `AsyncCopy.wait` waits for both.

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
        self,
        semaphore: RefLike,
        amount: Value | int = 1,
        *,
        device_id: Device | None = None,
        core_index: Value | int | None = None,
    ) -> None:
        """`pl.semaphore_signal`, here, on another logical device or on another core.

        Args:
            semaphore: a semaphore, or a view of an array of them.
            amount: added to it.
            device_id: logical device that has the semaphore, or one on a mesh (`on_mesh`); this one if omitted.
            core_index: core of that device.

        Example:
            >>> b.pallas.semaphore_signal(b.sem_alloc(), 1)
        """
        view = self._view(semaphore, "semaphore_signal")
        hoisted = self._hoist(view)
        count = amount if isinstance(amount, Value) else self._const(amount, dt.i32)
        device, compute = self._given_device(device_id)
        core = self._const(core_index, dt.i32) if isinstance(core_index, int) else core_index
        found = self._materialize(view, hoisted)
        self._b.sem_signal(found, count, device_id=device if compute is None else compute(), core_id=core)

    @idiom("pltpu.get_barrier_semaphore()", "tpu.sem_barrier", group="dma", traits=("semaphore",))
    def get_barrier_semaphore(self) -> Value:
        """`pltpu.get_barrier_semaphore`: the call then needs a ``collective_id``.

        Example:
            >>> b.pallas.semaphore_signal(b.pallas.get_barrier_semaphore(), 1)
        """
        return self._b.sem_barrier()

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


def _stride(mesh: Mapping[str, int], axis: str) -> int:
    """By how much the numbers of two neighbours along an axis differ."""
    return math.prod(list(mesh.values())[list(mesh).index(axis) + 1 :])
