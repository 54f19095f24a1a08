"""The tpu dialect's reports from a running kernel: log, log_buffer, trace_value."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import DTypeError, KindError, ShapeError


class TpuDebugOps(Core):
    """``tpu.log*`` and ``tpu.trace_value``."""

    @op("tpu.log", source="pl.debug_print(message, *values)", traits=("debug",))
    def tpu_log(self, message: str, *values: Value, formatted: bool = False) -> None:
        """Print ``message`` and ``values``.

        Args:
            message: where ``formatted``, with ``$0``, ``$1`` … for the values; else what is printed before them.
            values: scalars; where ``formatted``, i32 or f32.
            formatted: whether the message has places for the values.

        Example:
            >>> b.tpu_log("step", a.i)
            >>> b.tpu_log("step $d0", a.i, formatted=True)
        """
        name = "tpu.log"
        used = self._use_all(values, name)
        for v in values:
            if not v._info.is_data:
                self.fail(KindError, "logs numbers", op=name, operands=[v], hint="load a ref first, or b.log_buffer")
        places = self._flag(formatted, name, "formatted")
        if places and any(v.is_vector or v.dtype.mlir not in ("i32", "f32") for v in values):
            self.fail(DTypeError, "formats i32 and f32 scalars", op=name, operands=values, hint="formatted=False")
        attributes = {
            "tag": self.types.string(self._text(message, name, "message")),
            "formatted": self.types.boolean(places),
        }
        self._emit_void(name, used, attributes)

    @op("tpu.log_buffer", source="pl.debug_print(message, vector)", traits=("debug",))
    def log_buffer(self, ref: Value, message: str, shape: Sequence[int] | None = None) -> None:
        """Print what a ref holds.

        Args:
            ref: any ref.
            message: printed before it.
            shape: of the part that is printed; the ref's if omitted.

        Example:
            >>> b.log_buffer(a.x, "x = ")
        """
        name = "tpu.log_buffer"
        used = self._use_ref(ref, name)
        sizes = ref.shape if shape is None else self._shape(shape, name)
        if len(sizes) != ref.rank:
            self.fail(ShapeError, f"shape {sizes} of a ref of rank {ref.rank}", op=name, operands=[ref])
        attributes = {
            "shape": self.types.dense(sizes, 64),
            "tag": self.types.string(self._text(message, name, "message")),
        }
        self._emit_void(name, [used], attributes)

    @op("tpu.trace_value", source="pltpu.trace_value(label, value)", traits=("debug",))
    def trace_value(self, label: str, value: Value) -> None:
        """Write a scalar into the profile, under ``label``.

        Args:
            label: its name there.
            value: an i32 or f32 scalar.

        Example:
            >>> b.trace_value("step", a.i)
        """
        name = "tpu.trace_value"
        used = self._use(value, name)
        if value._info is not self.types.scalar(dt.f32) and value._info.ir is not self.types.element(dt.i32):
            self.fail(DTypeError, "traces i32 and f32 scalars", op=name, operands=[value])
        self._emit_void(name, [used], {"label": self.types.string(self._text(label, name, "label"))})
