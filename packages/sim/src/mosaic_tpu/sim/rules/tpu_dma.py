"""DMAs and semaphores."""

from __future__ import annotations

from mosaic_tpu.sim._emit import Emitter, Ref, rule, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.rules._access import words_under


def _semaphore(e: Emitter, value: Value) -> str:
    """The one semaphore of a memref, or a semaphore value."""
    ref = e.ref(value)
    # A subscript of numbers alone gives the semaphore, any other an array of one.
    chosen = ref.dims and all(d.squeezed for d in ref.dims)
    return e.view(ref) if chosen else f"{e.view(ref)}.item()"


def _optional(values: tuple[Value, ...]) -> Value | None:
    return values[0] if values else None


def _place(e: Emitter, device: Value | None, core: Value | None) -> str:
    if device is None and core is None:
        return ""
    texts = ["None" if v is None else e.text(v) for v in (device, core)]
    return ", " + ", ".join(texts)


def _memory(e: Emitter, op: Operation, value: Value) -> tuple[Ref, str]:
    """A memref, and the expression of its memory: of a bitcast one, of the words underneath."""
    ref = e.ref(value)
    if ref.packed is not None:
        words, rows = words_under(e, ref)
        if rows != ":":
            raise unsupported(e.module, op, "it copies a part of the words under a bitcast")
        return ref, words
    # A subscript of numbers alone gives an element, not the memory that holds it.
    chosen = ref.dims and all(d.squeezed for d in ref.dims)
    return ref, f"{ref.base}[{ref.subscript()}, ...]" if chosen else e.view(ref)


def _widths(ref: Ref) -> tuple[int, int] | None:
    return None if ref.packed is None else (ref.packed[0].bits, ref.packed[1].bits)


@rule("tpu.enqueue_dma", writes=True)
def _enqueue_dma(e: Emitter, op: Operation) -> None:
    source, source_semaphore, target, target_semaphore, device, core, *_ = (*op.segments(), (), ())
    a, source_view = _memory(e, op, source[0])
    b, target_view = _memory(e, op, target[0])
    if _widths(a) != _widths(b):
        raise unsupported(e.module, op, "one side is bitcast to another element width and the other is not")
    of_source = _optional(source_semaphore)
    text = "None" if of_source is None else _semaphore(e, of_source)
    e.line(
        f"core.dma({op.number}, {a.buffer}, {source_view}, {b.buffer}, {target_view}, "
        f"{_semaphore(e, target_semaphore[0])}, {text}{_place(e, _optional(device), _optional(core))})"
    )


@rule("tpu.wait_dma", waits=True)
def _wait_dma(e: Emitter, op: Operation) -> None:
    source, source_semaphore, target, target_semaphore, *_ = op.segments()
    of_source = not op.attributes.boolean("wait_target", True)
    memory, semaphore = (source, source_semaphore) if of_source else (target, target_semaphore)
    _wait(e, op, semaphore[0], memory[0])


@rule("tpu.wait_dma2", waits=True)
def _wait_dma2(e: Emitter, op: Operation) -> None:
    semaphore, _, target, *_ = op.operands
    _wait(e, op, semaphore, target)


def _wait(e: Emitter, op: Operation, semaphore: Value, memory: Value) -> None:
    ref, view = _memory(e, op, memory)
    e.line(f"yield from core.wait_dma({op.number}, {_semaphore(e, semaphore)}, {view}, {ref.buffer})")


@rule("tpu.sem_signal", writes=True)
def _sem_signal(e: Emitter, op: Operation) -> None:
    semaphore, amount, device, core, *_ = (*op.segments(), (), ())
    place = _place(e, _optional(device), _optional(core))
    e.line(f"core.signal({op.number}, {_semaphore(e, semaphore[0])}, {e.text(amount[0])}{place})")


@rule("tpu.sem_wait", waits=True)
def _sem_wait(e: Emitter, op: Operation) -> None:
    semaphore, amount, *_ = op.operands
    e.line(f"yield from core.wait({op.number}, {_semaphore(e, semaphore)}, {e.text(amount)})")


@rule("tpu.sem_read", waits=True)
def _sem_read(e: Emitter, op: Operation) -> None:
    e.assign(op.result, f"yield from core.poll({_semaphore(e, op.operands[0])})")


@rule("tpu.sem_barrier")
def _sem_barrier(e: Emitter, op: Operation) -> None:
    name = f"a{op.result.index}"
    e.line(f"{name} = core.barrier_memory()")
    e.root(op.result, name, "None", op.result.index)


@rule("tpu.device_id")
def _device_id(e: Emitter, op: Operation) -> None:
    e.define(op.result, "core.device")


@rule("tpu.core_id")
def _core_id(e: Emitter, op: Operation) -> None:
    e.define(op.result, "core.index")


@rule("tpu.delay")
def _delay(e: Emitter, op: Operation) -> None:
    """Time means nothing here: schedules are seeded."""
