"""The tpu dialect between memories and cores: DMAs, semaphores, barriers, traces, device ids."""

from __future__ import annotations

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PALLAS_WAITS_WITH_WAIT_DMA, IrValue
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import MemorySpace, SemaphoreKind
from mosaic_tpu.builder.errors import AttributeValueError, DTypeError, KindError, ShapeError


class TpuDmaOps(Core):
    """``tpu.*`` for DMAs, semaphores and debugging."""

    # --- semaphores ------------------------------------------------------------------------------------------------

    def _semaphore(self, value: Value, name: str, *, dma: bool | None = None) -> IrValue:
        used = self._use(value, name)
        dtype = value._info.dtype
        if dtype.kind != "semaphore" or value._info.shape:
            hint = (
                "take one with sems.at[i]: b.pallas.at(sems, i)"
                if dtype.kind == "semaphore"
                else "declare a Sem or SemArray"
            )
            self.fail(KindError, "a single semaphore is needed", op=name, operands=[value], hint=hint)
        if dma is not None and dma != (dtype is dt.dma_semaphore):
            kind = "DMA" if dma else "regular"
            hint = f'declare it with Sem("{kind.lower()}") or SemArray(shape, "{kind.lower()}")'
            self.fail(DTypeError, f"needs a {kind} semaphore", op=name, operands=[value], hint=hint)
        return used

    def _i32(self, value: Value | int, name: str) -> IrValue:
        if isinstance(value, Value):
            used = self._use(value, name)
            if value._info.ir is not self.types.element(dt.i32):
                self.fail(DTypeError, "needs an i32 scalar", op=name, operands=[value])
            return used
        return self._constant(self._int(value, name, "i32 operand"), self.types.scalar(dt.i32))._ir

    @op("tpu.sem_alloc", source="b.semAlloc(.regular) / b.semAlloc(.dma)", traits=("semaphore",))
    def sem_alloc(self, kind: SemaphoreKind | str = SemaphoreKind.REGULAR, shape: tuple[int, ...] = ()) -> Value:
        """A semaphore, or an array of them, of the enclosing region.

        Example:
            >>> b.sem_alloc("dma").dtype
            dma_semaphore
        """
        dma = self._member(SemaphoreKind, kind, "tpu.sem_alloc") is SemaphoreKind.DMA
        dtype = dt.dma_semaphore if dma else dt.semaphore
        sizes = self._shape(shape, "tpu.sem_alloc")
        return self._emit("tpu.sem_alloc", self.types.ref(sizes, dtype, MemorySpace.SEMAPHORE_MEM), [])

    @op("tpu.sem_barrier", source="b.semBarrier()", traits=("semaphore",))
    def sem_barrier(self) -> Value:
        """The kernel's barrier semaphore; the call then needs a ``collective_id``.

        Example:
            >>> b.sem_barrier().dtype
            semaphore
        """
        return self._emit("tpu.sem_barrier", self.types.ref((), dt.semaphore, MemorySpace.SEMAPHORE_MEM), [])

    @op("tpu.sem_read", source="b.semRead(sem)", traits=("semaphore",))
    def sem_read(self, semaphore: Value) -> Value:
        """The semaphore's current count, i32.

        Example:
            >>> b.sem_read(b.sem_alloc()).dtype
            i32
        """
        used = self._semaphore(semaphore, "tpu.sem_read")
        return self._emit("tpu.sem_read", self.types.scalar(dt.i32), [used])

    @op("tpu.sem_wait", source="b.semWait(sem, amount)", traits=("semaphore",))
    def sem_wait(self, semaphore: Value, amount: Value | int) -> None:
        """Wait until the count reaches ``amount``, then take it off.

        Example:
            >>> b.sem_wait(b.sem_alloc(), 1)
        """
        used = self._semaphore(semaphore, "tpu.sem_wait")
        self._emit_void("tpu.sem_wait", [used, self._i32(amount, "tpu.sem_wait")])

    @op("tpu.sem_signal", source="b.semSignal(sem, amount)", traits=("semaphore",))
    def sem_signal(
        self,
        semaphore: Value,
        amount: Value | int,
        *,
        device_id: Value | int | None = None,
        core_id: Value | int | None = None,
        subcore_id: Value | int | None = None,
    ) -> None:
        """Add ``amount`` to a semaphore, here or on another device or core.

        Example:
            >>> b.sem_signal(b.sem_alloc(), 1)
        """
        name = "tpu.sem_signal"
        operands = [self._semaphore(semaphore, name), self._i32(amount, name)]
        ids = [None if i is None else self._i32(i, name) for i in (device_id, core_id, subcore_id)]
        sizes = (1, 1, *(int(i is not None) for i in ids))
        operands += [i for i in ids if i is not None]
        self._emit_void(name, operands, {"operandSegmentSizes": self.types.dense(sizes, 32)})

    @op("tpu.sem_signal", source="b.semSignalOpts(sem, amount, .{ .device_id, .core_id })", traits=("semaphore",))
    def sem_signal_opts(
        self,
        semaphore: Value,
        amount: Value | int,
        *,
        device_id: Value | int | None = None,
        core_id: Value | int | None = None,
    ) -> None:
        """The Zig DSL's name for `sem_signal` with its options.

        Example:
            >>> b.sem_signal_opts(b.sem_alloc(), 1, device_id=0)
        """
        self.sem_signal(semaphore, amount, device_id=device_id, core_id=core_id)

    @op("tpu.barrier", source="b.barrier(barrier_id)", traits=("semaphore",))
    def barrier(self, barrier_id: Value | int) -> None:
        """Wait for every subcore at barrier ``barrier_id``. Pallas's TensorCore lowering never emits it.

        Example:
            >>> b.barrier(0)
        """
        self._emit_void("tpu.barrier", [self._index(barrier_id, "tpu.barrier")])

    # --- DMAs ------------------------------------------------------------------------------------------------------

    def _dma(
        self,
        name: str,
        source: Value,
        target: Value,
        semaphores: tuple[Value | None, Value | None],
        ids: tuple[Value | int | None, Value | int | None, Value | int | None],
    ) -> tuple[list[IrValue], tuple[int, ...]]:
        """Operands in the dialect's order, and their segment sizes."""
        src, dst = self._use_ref(source, name), self._use_ref(target, name)
        if source._info.shape != target._info.shape:
            self.fail(
                ShapeError,
                "source and target differ in shape",
                op=name,
                operands=[source, target],
                hint="slice both to one shape: b.pallas.at(ref, …)",
            )
        if source._info.element.mlir != target._info.element.mlir:
            self.fail(
                DTypeError,
                "source and target differ in element type",
                op=name,
                operands=[source, target],
                hint="a DMA copies bytes: cast after the load",
            )
        source_sem, target_sem = (None if s is None else self._semaphore(s, name, dma=True) for s in semaphores)
        numbers = [None if i is None else self._i32(i, name) for i in ids]
        slots = [src, source_sem, dst, target_sem, *numbers]
        return [s for s in slots if s is not None], tuple(int(s is not None) for s in slots)

    @op("tpu.enqueue_dma", source="b.enqueueDma(src, dst, target_sem, opts)", traits=("dma",))
    def enqueue_dma(
        self,
        source: Value,
        target: Value,
        target_semaphore: Value,
        *,
        source_semaphore: Value | None = None,
        device_id: Value | int | None = None,
        core_id: Value | int | None = None,
        subcore_id: Value | int | None = None,
        priority: int = 0,
        strict_ordering: bool = False,
    ) -> None:
        """Start a copy; ``target_semaphore`` counts its bytes when they have arrived.

        Args:
            source: any ref.
            target: of the same shape and element type, here or on ``device_id``.
            target_semaphore: a DMA semaphore, waited on with `wait_dma`.
            source_semaphore: signalled when the source may be overwritten; remote copies only.
            device_id: logical id of another device.
            core_id: of another core.
            subcore_id: of another subcore.
            priority: 0 or 1, lower first.
            strict_ordering: keep the order among DMAs that ask for it.

        Example:
            >>> b.enqueue_dma(a.hbm, a.x, b.sem_alloc("dma"))
        """
        name = "tpu.enqueue_dma"
        priority = self._i32_attribute(priority, name, "priority")
        operands, sizes = self._dma(
            name, source, target, (source_semaphore, target_semaphore), (device_id, core_id, subcore_id)
        )
        strict_ordering = self._flag(strict_ordering, name, "strict_ordering")
        key = (name, sizes, priority, strict_ordering)
        attributes = self.types.named(*key)
        if attributes is None:
            attributes = {
                "operandSegmentSizes": self.types.dense(sizes, 32),
                "priority": self.types.integer(priority, 32),
            }
            if strict_ordering:
                attributes["strict_ordering"] = self.types.boolean(True)
            self.types.name(attributes, *key)
        self._emit_void(name, operands, attributes)

    @op("tpu.wait_dma", "tpu.wait_dma2", group="tpu", traits=("dma",))
    def wait_dma(
        self,
        source: Value,
        target: Value,
        semaphore: Value,
        *,
        source_semaphore: Value | None = None,
        wait_target: bool = True,
        device_id: Value | int | None = None,
        core_id: Value | int | None = None,
        subcore_id: Value | int | None = None,
        strict_ordering: bool = False,
    ) -> None:
        """Wait for a copy: ``tpu.wait_dma`` on jaxlib 0.12, ``tpu.wait_dma2`` before.

        Args:
            source: as given to `enqueue_dma`.
            target: as given to `enqueue_dma`.
            semaphore: the target's DMA semaphore.
            source_semaphore: the source's, for remote copies.
            wait_target: wait for the arrival; ``False`` waits until the source may be overwritten.
            device_id: as given to `enqueue_dma`.
            core_id: as given to `enqueue_dma`.
            subcore_id: as given to `enqueue_dma`.
            strict_ordering: as given to `enqueue_dma`.

        Example:
            >>> b.wait_dma(a.hbm, a.x, b.sem_alloc("dma"))
        """
        if not PALLAS_WAITS_WITH_WAIT_DMA:
            waited = semaphore if wait_target or source_semaphore is None else source_semaphore
            refs = (source, target) if wait_target else (target, source)
            self._wait_dma2(waited, *refs, device_id, core_id, strict_ordering)
            return
        name = "tpu.wait_dma"
        operands, sizes = self._dma(
            name, source, target, (source_semaphore, semaphore), (device_id, core_id, subcore_id)
        )
        wait_target = self._flag(wait_target, name, "wait_target")
        strict_ordering = self._flag(strict_ordering, name, "strict_ordering")
        key = (name, sizes, wait_target, strict_ordering)
        attributes = self.types.named(*key)
        if attributes is None:
            attributes = {
                "operandSegmentSizes": self.types.dense(sizes, 32),
                "wait_target": self.types.boolean(wait_target),
            }
            if strict_ordering:
                attributes["strict_ordering"] = self.types.boolean(True)
            self.types.name(attributes, *key)
        self._emit_void(name, operands, attributes)

    def _wait_dma2(
        self,
        semaphore: Value,
        source: Value,
        target: Value,
        device_id: Value | int | None,
        core_id: Value | int | None,
        strict_ordering: bool,
    ) -> None:
        name = "tpu.wait_dma2"
        operands, _ = self._dma(name, source, target, (None, semaphore), (None, None, None))
        src, dst, sem = operands
        ids = [None if i is None else self._i32(i, name) for i in (device_id, core_id)]
        sizes = (1, 1, 1, *(int(i is not None) for i in ids))
        attributes = {"operandSegmentSizes": self.types.dense(sizes, 32)}
        if strict_ordering:
            attributes["strict_ordering"] = self.types.boolean(True)
        self._emit_void(name, [sem, src, dst, *(i for i in ids if i is not None)], attributes)

    @op("tpu.wait_dma", "tpu.wait_dma2", group="tpu", source="b.waitDma2(sem, src, dst, opts)", traits=("dma",))
    def wait_dma2(
        self,
        semaphore: Value,
        source: Value,
        target: Value,
        *,
        device_id: Value | int | None = None,
        core_id: Value | int | None = None,
        strict_ordering: bool = False,
    ) -> None:
        """The Zig DSL's spelling of `wait_dma`; emits what Pallas emits on the installed jaxlib.

        Example:
            >>> b.wait_dma2(b.sem_alloc("dma"), a.hbm, a.x)
        """
        self.wait_dma(source, target, semaphore, device_id=device_id, core_id=core_id, strict_ordering=strict_ordering)

    # --- devices, debugging ------------------------------------------------------------------------------------------

    @op("tpu.device_id", source="b.deviceId()")
    def device_id(self) -> Value:
        """This device's logical id, i32.

        Example:
            >>> b.device_id().dtype
            i32
        """
        return self._emit("tpu.device_id", self.types.scalar(dt.i32), [])

    @op("tpu.iteration_bound", source="pl.num_programs(axis)")
    def iteration_bound(self, dimension: int) -> Value:
        """The size of a grid dimension, i32: what `pl.num_programs` emits for a dynamic grid.

        Example:
            >>> b.iteration_bound(0).dtype
            i32
        """
        attributes = {"dim": self.types.integer(self._i32_attribute(dimension, "tpu.iteration_bound", "dimension"), 32)}
        return self._emit("tpu.iteration_bound", self.types.scalar(dt.i32), [], attributes)

    @op("tpu.delay", source="b.delay(cycles)", traits=("debug",))
    def delay(self, nanos: Value | int) -> None:
        """Wait about that many nanoseconds (the dialect counts nanoseconds, the Zig DSL says cycles).

        Example:
            >>> b.delay(100)
        """
        self._emit_void("tpu.delay", [self._i32(nanos, "tpu.delay")])

    @op("tpu.trace_start", source="b.traceStart(level, message)", traits=("debug",))
    def trace_start(self, level: int, message: str) -> None:
        """Open a named span of the profile; close it with `trace_stop`. Pallas wraps `jnp.einsum` in one.

        Example:
            >>> b.trace_start(10, "nd,md->nm"); b.trace_stop()
        """
        level = self._i32_attribute(level, "tpu.trace_start", "level")
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(AttributeValueError, f"the message is {message!r}", op="tpu.trace_start", hint="a string")
        attributes = {"message": self.types.string(message), "level": self.types.integer(level, 32)}
        self._emit_void("tpu.trace_start", [], attributes)

    @op("tpu.trace_stop", source="b.traceStop()", traits=("debug",))
    def trace_stop(self) -> None:
        """Close the innermost `trace_start`.

        Example:
            >>> b.trace_start(10, "span"); b.trace_stop()
        """
        self._emit_void("tpu.trace_stop", [])
