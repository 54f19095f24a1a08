"""From whatever holds kernels to a StableHLO program that the compiler takes."""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from mosaic_tpu.aot import _compat
from mosaic_tpu.aot._index_maps import places_of
from mosaic_tpu.aot._source import opened, outputs_of, readable
from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import ir

type Spec = tuple[tuple[int, ...], str]


@dataclass(frozen=True)
class Program:
    """A StableHLO program with kernels in it.

    Attributes:
        text: StableHLO.
    """

    text: str = field(repr=False)

    @cached_property
    def names(self) -> list[str]:
        """Of its kernels, in order; calls of one kernel share one."""
        return [call.kernel_name or module.name for call, module in zip(self.calls, self.modules, strict=True)]

    @property
    def name(self) -> str:
        """Of its only kernel, or ``"program"``."""
        return self.names[0] if len(self.names) == 1 else "program"

    @cached_property
    def calls(self) -> list[ir.KernelCall]:
        """Its kernels.

        Raises:
            SourceError: there are none, or the text cannot be read.
        """
        with readable("compile"):
            return ir.calls_of(self.text)

    @cached_property
    def modules(self) -> list[ir.Module]:
        """The modules of its kernels.

        Raises:
            SourceError: one is damaged.
        """
        with readable("compile"):
            return [ir.module_of(call) for call in self.calls]

    @property
    def communicates(self) -> bool:
        """Whether a kernel talks to other devices."""
        return any(call.has_communication for call in self.calls)


def program_of(
    source: Any, inputs: Sequence[Any] | None = None, outputs: Sequence[Any] | None = None, *, op: str = "compile"
) -> Program:
    """The program of a source.

    Args:
        source: what `opened` takes.
        inputs: shape and dtype of each operand, for a Mosaic module whose windows do not say them.
        outputs: shape and dtype of each result, likewise.
        op: who asks.

    Raises:
        SourceError: there is no kernel in it, or too little is known of its call.
    """
    source, text = opened(source, op)
    if text is None:
        with readable(op):
            return _around(source, inputs, outputs)
    if inputs is not None or outputs is not None:
        raise SourceError("a program says itself what its operands are", op=op, hint="leave inputs and outputs out")
    program = Program(text)
    _ = program.modules  # damaged ones are refused here
    return program


# --- a call around a module ----------------------------------------------------------------------------------------


def _around(source: Any, inputs: Sequence[Any] | None, outputs: Sequence[Any] | None) -> Program:
    """A program that calls a Mosaic module with operands of the shapes that its windows cover."""
    module = ir.read(source)
    holder = source if _compat.is_mlir_module(source) else getattr(source, "module", source)
    if isinstance(holder, ir.Module):
        raise SourceError("the module was read already", op="compile", hint="give what it was read from")
    given = source.body if isinstance(getattr(source, "body", None), bytes) else holder
    try:
        body = _compat.body_of(bytes(cast("bytes", given)) if isinstance(given, bytearray | memoryview) else given)
    except _compat.MLIRError as error:
        said = str(error).strip().partition("\n")[0]
        raise SourceError(f"MLIR cannot write it as a call holds it: {said}", op=module.name) from None
    made = outputs_of(module) if outputs is None else len(_specs(outputs, "outputs"))
    if not made:
        hint = "say outputs=[(shape, dtype), …]"
        raise SourceError("the kernel writes none of its last operands", op=module.name, hint=hint)
    layout = _layout(module, made)
    takes = [a for a in layout.arguments if a.role in ("prefetch", "input")]
    gives = list(layout.role("output"))
    bounds: list[Spec] = [((), "i32")] * layout.dynamic
    operands = _specs(inputs, "inputs", len(bounds) + len(takes))
    operands = operands or bounds + _covered(module, layout, takes, "inputs")
    results = _specs(outputs, "outputs", len(gives)) or _covered(module, layout, gives, "outputs")
    return Program(_stablehlo(module, body, operands, results))


def _layout(module: ir.Module, made: int) -> ir.Layout:
    attributes = module.kernel.attributes
    grid = attributes.integers("iteration_bounds")
    scratch, prefetch = attributes.integer("scratch_operands", 0), attributes.integer("scalar_prefetch", 0)
    types = [a.type for a in module.kernel.arguments]
    indices = sum(1 for t in types[: len(grid)] if t.kind == "scalar")
    operands = len(types) - indices - scratch - prefetch
    dynamic = sum(bound == ir.DYNAMIC for bound in grid)
    return ir.layout(module, operands - made + prefetch + dynamic, made)


def _covered(module: ir.Module, layout: ir.Layout, arguments: Sequence[ir.Argument], what: str) -> list[Spec]:
    """The arrays that the windows of arguments cover."""
    return [(_extent(module, layout, argument, what), argument.type.element) for argument in arguments]


def _extent(module: ir.Module, layout: ir.Layout, argument: ir.Argument, what: str) -> tuple[int, ...]:
    window = argument.window
    if window is None or window.transform is None:
        shape = argument.type.shape if window is None else window.bounds
        if ir.DYNAMIC in shape:
            raise _unknown(module, argument, "its size is not in its type", what)
        return shape
    if window.transform not in module.functions:
        raise SourceError(f"the index map @{window.transform} is not in the module", op=module.name)
    blocks = places_of(module, window, layout.grid)
    if blocks is None:
        raise _unknown(module, argument, "its index map reads scalars, or the grid is dynamic or very large", what)
    last = [int(b.max(initial=0)) for b in blocks]
    return tuple(n + size if window.element else (n + 1) * size for n, size in zip(last, window.bounds, strict=True))


def _unknown(module: ir.Module, argument: ir.Argument, why: str, what: str) -> SourceError:
    return SourceError(
        f"the shape of the array behind {argument.name!r} cannot be found: {why}",
        op=module.name,
        hint=f"say {what}=[(shape, dtype), …], one for each",
    )


def _specs(given: Sequence[Any] | None, what: str, count: int | None = None) -> list[Spec]:
    """What the caller says of operands or results, in MLIR's element types; nothing if he says nothing."""
    if given is None:
        return []
    if not isinstance(given, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SourceError(f"{what} is {given!r}", op="compile", hint=f"{what}=[((512, 128), 'float32'), …]")
    try:
        made = [(tuple(_dimension(n) for n in shape), _element(dtype)) for shape, dtype in map(_pair, given)]
    except (TypeError, ValueError, KeyError):
        raise SourceError(f"{what} is {given!r}", op="compile", hint=f"{what}=[((512, 128), 'float32'), …]") from None
    if count is not None and len(made) != count:
        raise SourceError(f"{what} has {len(made)} entries and the kernel {count}", op="compile", hint="one for each")
    return made


def _dimension(n: Any) -> int:
    size = operator.index(n)
    if not 0 <= size < 1 << 31:
        raise ValueError(size)
    return size


def _pair(spec: Any) -> tuple[Any, Any]:
    if hasattr(spec, "shape") and hasattr(spec, "dtype"):
        return spec.shape, spec.dtype
    shape, dtype = spec
    return shape, dtype


def _element(dtype: Any) -> str:
    found = np.dtype(getattr(ml_dtypes, dtype, dtype) if isinstance(dtype, str) else dtype)
    return _ELEMENTS[found]


_ELEMENTS: Final = {
    np.dtype(kind): name
    for name, kind in {
        "i1": np.bool_, "i4": ml_dtypes.int4, "i8": np.int8, "i16": np.int16, "i32": np.int32,
        "ui4": ml_dtypes.uint4, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32,
        "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz, "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    }.items()
}  # fmt: skip


def _stablehlo(module: ir.Module, body: _compat.Body, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
    encoded = base64.b64encode(body.data).decode()
    call: dict[str, Any] = {"body": encoded, "serialization_format": 1, "needs_layout_passes": True}
    call |= {"has_communication": True} if body.communicates else {}
    call |= {"collective_id": 0} if body.has_barrier else {}
    config = json.dumps({"custom_call_config": call}).replace("\\", "\\5C").replace('"', "\\22")
    types, made = [_tensor(s) for s in inputs], [_tensor(s) for s in outputs]
    arguments = ", ".join(f"%arg{n}: {t}" for n, t in enumerate(types))
    results = ", ".join(f"%0#{n}" if len(made) > 1 else "%0" for n in range(len(made)))
    count = f":{len(made)}" if len(made) > 1 else ""
    devices = "mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32"
    return f"""module @{_quoted(module.name)} attributes {{{devices}}} {{
  func.func public @main({arguments}) -> ({", ".join(made)}) {{
    %0{count} = stablehlo.custom_call @tpu_custom_call({", ".join(f"%arg{n}" for n in range(len(types)))}) {{
      backend_config = "{config}", kernel_name = {_quoted(module.name)},
      operand_layouts = [{", ".join(map(_rows, inputs))}], result_layouts = [{", ".join(map(_rows, outputs))}]
    }} : ({", ".join(types)}) -> {"(" if count else ""}{", ".join(made)}{")" if count else ""}
    return {results} : {", ".join(made)}
  }}
}}
"""


def _quoted(name: str) -> str:
    r"""A string as MLIR writes it: what is not printable as ``\0A``."""
    kept = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in name.encode())
    return f'"{"".join(kept)}"'


def _tensor(spec: Spec) -> str:
    shape, element = spec
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def _rows(spec: Spec) -> str:
    """The layout of a dense array, the last dimension innermost."""
    rank = len(spec[0])
    order = ", ".join(map(str, reversed(range(rank))))
    return f"dense<[{order}]> : tensor<{rank}xindex>" if rank else "dense<> : tensor<0xindex>"
