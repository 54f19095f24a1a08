"""What a kernel tells of itself: prints, spans and values of the profile; and delays."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from string import Formatter
from typing import Final

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError
from mosaic_tpu.builder.pallas._base import Idioms, Scope

#: Of the spans that Pallas makes of named scopes.
TRACE_LEVEL: Final = 10


class DebugIdioms(Idioms):
    """`pl.debug_print`, `jax.named_scope`, `pltpu.trace_value`, `pl.delay`."""

    @idiom("pl.debug_print(fmt, *values)", "tpu.log", "tpu.log_buffer", group="debug", traits=("debug",))
    def debug_print(self, fmt: str, *values: Value) -> None:
        """`pl.debug_print`: scalars, at the places of ``{}`` or after the text; or one vector, at a ``{}`` at the end.

        Args:
            fmt: the text, with a bare ``{}`` for each scalar, or with none. Doubled braces behind the last place are
                single ones; where they come before the first, Pallas takes the whole text as it is, places and all.
            values: scalars, i32, u32 or f32 where there are places for them; or one vector.

        Raises:
            AttributeValueError: other fields than a bare ``{}``, or doubled braces between places.
            ArityError: more or fewer places than values.

        Example:
            >>> b.pallas.debug_print("step {}", a.i)
            >>> b.pallas.debug_print("x = {}", a.x[...])
        """
        b = self._b
        text, places = self._places(fmt)
        for value in values:
            self._value(value, "debug_print")
        if any(v.is_vector for v in values):
            self._print_vector(fmt, text, places, values)
            return
        if not places:
            b.tpu_log(fmt, *values)
            return
        if places != len(values):
            self._wrong_places(places, values)
        if any(v.dtype not in _SPECS for v in values):
            b.fail(
                DTypeError,
                "only i32, u32 and f32 have a place in the text",
                op="debug_print",
                operands=values,
                hint="cast, or leave the {} out",
            )
        marks = [f"${_SPECS[v.dtype]}{n}" for n, v in enumerate(values)]
        b.tpu_log(
            "".join(part for pair in zip(text, [*marks, ""], strict=True) for part in pair), *values, formatted=True
        )

    def _places(self, fmt: str) -> tuple[list[str], int]:
        """The text before each place and behind the last one, and how many places there are."""
        b = self._b
        try:
            parts = list(Formatter().parse(b._text(fmt, "debug_print", "text")))
        except ValueError as error:
            hint = "the only braces are {}, or doubled"
            b.fail(AttributeValueError, f"the text {fmt!r}: {error}", op="debug_print", hint=hint)
        fields = [field for _, field, _, _ in parts]
        if any(field or spec or conversion for _, field, spec, conversion in parts):
            b.fail(AttributeValueError, f"the text {fmt!r}", op="debug_print", hint="the only fields are bare {}")
        places = len(fields) - fields.count(None)
        if not fields or fields[0] is None:
            return [fmt], 0
        if None in fields[:places]:
            hint = "doubled braces stand behind the last {}: Pallas loses count of others"
            b.fail(AttributeValueError, f"the text {fmt!r}", op="debug_print", hint=hint)
        texts = [text for text, _, _, _ in parts]
        return [*texts[:places], "".join(texts[places:])], places

    def _wrong_places(self, places: int, values: tuple[Value, ...]) -> None:
        self._b.fail(
            ArityError, f"{places} places for {len(values)} values", op="debug_print", operands=values, hint="one each"
        )

    def _print_vector(self, fmt: str, text: list[str], places: int, values: tuple[Value, ...]) -> None:
        """A vector is stored to memory of a region, and that is printed."""
        b = self._b
        if len(values) != 1:
            b.fail(ArityError, "a vector is printed alone", op="debug_print", operands=values, hint="one call each")
        if places != 1:
            self._wrong_places(places, values)
        if text[-1]:
            b.fail(AttributeValueError, f"the text {fmt!r}", op="debug_print", hint="end it with {}")
        (value,) = values
        with self._one_line("debug_print"), b.region():
            info = b.types.ref(value.shape, value.dtype, MemorySpace.VMEM, value.dtype)  # i1 too stays what it is
            ref = b._emit("memref.alloca", info, [], {"operandSegmentSizes": b.types.dense((0, 0), 32)})
            zero = b._raw_constant(0, b.types.index)
            b._emit_void("vector.store", [value._ir, ref._ir, *[zero] * value.rank])
            b.log_buffer(ref, text[0])

    @idiom("jax.named_scope(name)", "tpu.trace_start", "tpu.trace_stop", group="debug", traits=("debug",))
    def named_scope(self, name: str) -> Scope:
        """`jax.named_scope`: a span of the profile around what the with block emits.

        Example:
            >>> with b.pallas.named_scope("scores"):
            ...     scores = b.pallas.exp(a.x[...])
        """
        return Scope("named_scope", self._span(self._b._text(name, "named_scope", "name")))

    @contextmanager
    def _span(self, name: str) -> Generator[None]:
        self._b.trace_start(TRACE_LEVEL, name)
        yield
        self._b.trace_stop()

    @idiom("pltpu.trace_value(label, value)", "tpu.trace_value", group="debug", traits=("debug",))
    def trace_value(self, label: str, value: Value) -> None:
        """`pltpu.trace_value`: a scalar, i32 or f32, written into the profile.

        Example:
            >>> b.pallas.trace_value("step", a.i)
        """
        self._value(value, "trace_value")
        self._b.trace_value(label, value)

    @idiom("pl.delay(nanos)", "tpu.delay", group="debug", traits=("debug",))
    def delay(self, nanos: Value | int) -> None:
        """`pl.delay`: wait about that many nanoseconds.

        Example:
            >>> b.pallas.delay(100)
        """
        self._b.delay(nanos)


#: How ``tpu.log`` is told what a number is.
_SPECS = {dt.i32: "s", dt.u32: "u", dt.f32: "f"}
