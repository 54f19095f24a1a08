"""Runs a lowered JAX function that holds Mosaic kernels: XLA computes what stands around them, on the CPU.

The function's calls are inlined until each kernel stands in ``main``, which is then cut before each of them. A segment
computes the operands of the next kernel from the arguments and from what earlier kernels returned; operands that are
arguments, results or constants, reshaped or not, need no segment, so that a program of nothing else runs without JAX.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import json
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from mosaic_tpu.sim import _stablehlo, _types
from mosaic_tpu.sim._compat import open_ir, parse_program
from mosaic_tpu.sim._read import LoweredText, contents, digest, first_elsewhere, has_high_escapes, program_text
from mosaic_tpu.sim.errors import InputError, ModuleFormatError, UnsupportedOpError

Array = np.ndarray[Any, np.dtype[Any]]
Spec = tuple[tuple[int, ...], np.dtype[Any]]

_TARGET: Final = "tpu_custom_call"
_UNSIGNED: Final = {f"ui{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)}
_SUB_BYTE: Final = {"ui2": np.dtype(ml_dtypes.uint2), "ui4": np.dtype(ml_dtypes.uint4)}
_COMPLEX: Final = {"complex<f32>": np.dtype(np.complex64), "complex<f64>": np.dtype(np.complex128)}
_DTYPES: Final = {**_types.NUMPY, **_UNSIGNED, **_SUB_BYTE, **_COMPLEX}
_MESSAGE: Final = 200


@dataclass(frozen=True)
class KernelCall:
    """A ``tpu_custom_call`` of a program.

    Attributes:
        body: the Mosaic module, MLIR bytecode.
        debug_locations: the locations that left the body.
        backend_config: the call's whole configuration.
        inputs: shape and dtype of each operand.
        outputs: shape and dtype of each result.
        aliases: output to the input whose memory it takes.
        kernel_name: as the call has it.
        collective_id: of the barrier semaphore.
        has_communication: whether the kernel talks to other devices.
        trusted: whether the body was made in this process.
    """

    body: bytes = field(repr=False)
    debug_locations: bytes | None = field(repr=False)
    backend_config: dict[str, Any] = field(repr=False)
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    aliases: dict[int, int]
    kernel_name: str | None
    collective_id: int | None
    has_communication: bool
    trusted: bool = False

    @functools.cached_property
    def digest(self) -> bytes:
        """What stands for the body and its locations."""
        return digest(self.body, self.debug_locations)


@contextlib.contextmanager
def _utf8() -> Generator[None]:
    """Jaxlib makes no `str` of a name or string that is no UTF-8; strings that nobody reads may hold anything."""
    try:
        yield
    except RuntimeError as error:
        if "conversion error" not in str(error):
            raise
        raise ModuleFormatError("a name or a string of a kernel's call is not UTF-8", hint=_HINT) from None


@_utf8()
def calls_of(source: Any) -> list[KernelCall]:
    """Every kernel of a program, in the order of the text, after private functions that hold one have been inlined.

    Args:
        source: StableHLO as text, bytecode or a portable artifact, a file with it or of `jax.export`, a
            `jax.stages.Lowered`, or a `jax.export.Exported`.

    Raises:
        ModuleFormatError: it is no StableHLO, or holds no kernel.
    """
    text = _text_of(source)
    return [_read_call(op, isinstance(text, LoweredText)) for op in _kernels(_read(text))]


def inputs_of(source: Any) -> list[Spec]:
    """Shape and dtype of each array that a program's ``main`` takes.

    Args:
        source: as `calls_of` takes it.

    Raises:
        ModuleFormatError: it is no StableHLO, or holds no kernel.
        UnsupportedOpError: it takes something else too, or is for several devices.
    """
    return list(_program(_text_of(source)).inputs)


def run_program(
    source: Any, arrays: Sequence[Any], run: Callable[[KernelCall, list[Array]], Sequence[Array]]
) -> list[Array]:
    """Run a program on the CPU.

    Args:
        source: StableHLO as text, bytecode or a portable artifact, a file with it or of `jax.export`, a
            `jax.stages.Lowered`, or a `jax.export.Exported`.
        arrays: what its ``main`` takes, in order.
        run: runs one kernel on its operands, which it must not write to.

    Returns:
        What ``main`` returns.

    Raises:
        ModuleFormatError: it is no StableHLO, or holds no kernel.
        UnsupportedOpError: a kernel stands inside a loop or a branch; XLA cannot compile what is around it.
        InputError: the arrays do not fit the program, or what ``run`` returns does not fit the call.
    """
    program = _program(_text_of(source))
    values = program.checked(arrays)
    results: list[Array] = []
    for step in program.steps:
        operands = step.operands(values)
        if step.call is None:
            results = operands
        else:
            values += _checked_results(step.call, run(step.call, operands))
    return results


# --- reading -------------------------------------------------------------------------------------------------------


def _text_of(source: Any) -> str:
    source = contents(source)
    text = source if isinstance(source, str) else program_text(source)
    if text is None:
        raise ModuleFormatError(
            f"a {type(source).__name__} is no program", hint="give StableHLO text, or jax.jit(f).trace(…).lower(…)"
        )
    return text


def _read(text: str) -> Any:
    """The module, with a kernel in it, and each kernel as far out as inlining brings it."""
    if has_high_escapes(text) and not isinstance(text, LoweredText):
        first_elsewhere(text.encode())
    try:
        module = parse_program(text)
    except open_ir.MLIRError as error:
        raise ModuleFormatError(f"MLIR cannot read the program: {_first_line(error)}", hint=_HINT) from None
    main = _main(module)
    if not any(True for _ in _kernels(module)):
        raise ModuleFormatError(f"the program holds no {_TARGET}", hint=_FOR_TPUS)
    _inline_kernels(module, main)
    return module


_HINT: Final = "give StableHLO text, as jax.jit(f).trace(…).lower(lowering_platforms=('tpu',)).as_text() returns"
_FOR_TPUS: Final = "lower it with lowering_platforms=('tpu',), or export it with platforms=('tpu',)"


def _functions(module: Any) -> dict[str, Any]:
    found = [op for op in module.operation.regions[0].blocks[0].operations if op.operation.name == "func.func"]
    return {open_ir.StringAttr(op.attributes["sym_name"]).value: op for op in found}


def _main(module: Any) -> Any:
    """``main``, or the only public function."""
    functions = _functions(module)
    public = [name for name, op in functions.items() if "private" not in str(_attribute(op, "sym_visibility"))]
    name = "main" if "main" in public else public[0] if len(public) == 1 else None
    if name is None:
        shown = ", ".join(map(repr, public)) or "none"
        raise ModuleFormatError(f"the program has no 'main'; its public functions: {shown}", hint=_HINT)
    main = functions[name]
    if len(main.regions[0].blocks) != 1:
        raise ModuleFormatError(f"the function {name!r} has {len(main.regions[0].blocks)} blocks, not 1", hint=_HINT)
    return main


def _walk(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _walk(inner.operation)


def _is_kernel(op: Any) -> bool:
    return op.operation.name == "stablehlo.custom_call" and (
        open_ir.StringAttr(op.attributes["call_target_name"]).value == _TARGET
    )


def _kernels(module: Any) -> Iterator[Any]:
    return (op for op in _walk(module.operation) if _is_kernel(op))


def _inline_kernels(module: Any, main: Any) -> None:
    """Inline, into ``main``, calls of functions that hold a kernel, themselves or through others."""
    functions = _functions(module)

    @functools.cache
    def holds_kernel(name: str) -> bool:
        return (
            any(_is_kernel(op) or holds_kernel(_callee(op) or "") for op in _walk(functions[name])) if name else False
        )

    while True:
        calls = [op for op in main.regions[0].blocks[0].operations if holds_kernel(_callee(op) or "")]
        if not calls:
            break
        for call in calls:
            _stablehlo.inline(call, functions[_callee(call) or ""])
    _stablehlo.drop_unused_functions(module)


def _callee(op: Any) -> str | None:
    return open_ir.FlatSymbolRefAttr(op.attributes["callee"]).value if op.operation.name == "func.call" else None


def _attribute(op: Any, *names: str) -> Any:
    """The first attribute that the op has, or ``None``."""
    return next((op.attributes[name] for name in names if name in op.attributes), None)


def _spec(type_: Any) -> Spec:
    """Shape and dtype of a tensor."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)([^,]*?)(?:, .*)?>", str(type_))
    dtype = _DTYPES.get(found[2]) if found else None
    if found is None or dtype is None:
        raise UnsupportedOpError(
            f"the program has values of type {type_}", hint="tensors of known shape and of NumPy's or ml_dtypes' types"
        )
    return tuple(int(size) for size in found[1].split("x")[:-1]), dtype


# --- calls ---------------------------------------------------------------------------------------------------------


def _read_call(op: Any, trusted: bool) -> KernelCall:
    name = _attribute(op, "kernel_name")
    kernel_name = None if name is None else open_ir.StringAttr(name).value
    config = _backend_config(op, kernel_name)
    inner = config["custom_call_config"]
    locations = inner.get("debug_locations")
    collective_id = inner.get("collective_id")
    return KernelCall(
        body=_decoded(inner.get("body"), "body", kernel_name),
        debug_locations=None if locations is None else _decoded(locations, "debug_locations", kernel_name),
        backend_config=config,
        inputs=tuple(_spec(value.type) for value in op.operands),
        outputs=tuple(_spec(value.type) for value in op.results),
        aliases=_aliases(op),
        kernel_name=kernel_name,
        collective_id=None if collective_id is None else int(collective_id),
        has_communication=bool(inner.get("has_communication", False)),
        trusted=trusted,
    )


def _backend_config(op: Any, kernel_name: str | None) -> dict[str, Any]:
    config = _from_json(_plain(_attribute(op, "backend_config", "mhlo.backend_config")), kernel_name)
    inner = _from_json(config.get("custom_call_config"), kernel_name)
    if not inner:
        raise ModuleFormatError("the call's backend_config has no custom_call_config", op=kernel_name, hint=_HINT)
    return {**config, "custom_call_config": inner}


def _from_json(value: Any, kernel_name: str | None) -> dict[str, Any]:
    """A dictionary, or the text of one; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            summary = f"the call's backend_config is no JSON: {error}"
            raise ModuleFormatError(summary, op=kernel_name, hint=_HINT) from None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _plain(attribute: Any) -> Any:
    """An attribute as Python data."""
    if isinstance(attribute, open_ir.DictAttr):
        return {named.name: _plain(named.attr) for named in attribute}
    if isinstance(attribute, open_ir.ArrayAttr):
        return [_plain(element) for element in attribute]
    if isinstance(attribute, open_ir.StringAttr | open_ir.BoolAttr | open_ir.IntegerAttr | open_ir.FloatAttr):
        return attribute.value
    return None if attribute is None else str(attribute)


def _decoded(text: Any, what: str, kernel_name: str | None) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        summary = f"the {what} in the call's backend_config is no base64"
        raise ModuleFormatError(summary, op=kernel_name, hint=_HINT) from None


def _aliases(op: Any) -> dict[int, int]:
    pattern = r"output_tuple_indices = \[(\d*)\], operand_index = (\d+)"
    return {int(o or 0): int(i) for o, i in re.findall(pattern, str(_attribute(op, "output_operand_aliases")))}


# --- steps ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Direct:
    """An operand that is there already: a value by its number or a constant, in this shape."""

    value: int | Array
    shape: tuple[int, ...]


@dataclass
class _Step:
    """A kernel's call, or the return of ``main``; operands without a source come from the segment, in order."""

    call: KernelCall | None
    sources: list[_Direct | None]
    segment: bytes

    def operands(self, values: Sequence[Array]) -> list[Array]:
        computed = iter(self._compiled(values) if None in self.sources else ())
        return [next(computed) if source is None else _taken(source, values) for source in self.sources]

    @functools.cached_property
    def _compiled(self) -> Callable[[Sequence[Array]], list[Array]]:
        try:
            return _stablehlo.compiled(self.segment)
        except RuntimeError as error:
            raise UnsupportedOpError(
                f"XLA cannot compile what the program computes around its kernels: {_first_line(error)}",
                hint="simulate the kernel alone, on its operands",
            ) from None


def _taken(source: _Direct, values: Sequence[Array]) -> Array:
    return (values[source.value] if isinstance(source.value, int) else source.value).reshape(source.shape)


@dataclass
class _Program:
    name: str
    inputs: list[Spec]
    steps: list[_Step]

    def checked(self, arrays: Sequence[Any]) -> list[Array]:
        """The arrays as NumPy's, if they fit."""
        if len(arrays) != len(self.inputs):
            raise InputError(
                f"the program takes {len(self.inputs)} arrays and was given {len(arrays)}",
                op=self.name,
                hint="jax.jit leaves out arguments that the function does not use, unless keep_unused=True",
            )
        pairs = zip(arrays, self.inputs, strict=True)
        return [
            _checked(array, spec, f"argument {n} of the program", self.name) for n, (array, spec) in enumerate(pairs)
        ]


@functools.lru_cache(maxsize=16)
@_utf8()
def _program(text: str) -> _Program:
    module = _read(text)
    main = _main(module)
    (block,) = main.regions[0].blocks
    partitions = _plain(_attribute(module.operation, "mhlo.num_partitions"))
    if (partitions or 1) > 1:
        raise UnsupportedOpError(
            f"the program is for {partitions} devices",
            hint="simulate_devices runs its kernel, on the arrays of each device",
        )
    for op in _kernels(module):
        _check_place(op, main)
    numbers = {argument: n for n, argument in enumerate(block.arguments)}
    inputs = [_spec(argument.type) for argument in block.arguments]
    steps: list[_Step] = []
    for position, op in enumerate(block.operations):
        is_kernel = _is_kernel(op)
        if is_kernel or op.operation.name == "func.return":
            sources = [_direct(value, numbers) for value in op.operands]
            segment = _segment(module, position, sources) if None in sources else b""
            steps.append(_Step(_read_call(op, isinstance(text, LoweredText)) if is_kernel else None, sources, segment))
            numbers |= {result: len(numbers) + n for n, result in enumerate(op.results)}
    name = open_ir.StringAttr(main.attributes["sym_name"]).value
    return _Program(name, inputs, steps)


def _check_place(op: Any, main: Any) -> None:
    parent = op.parent
    if parent.operation == main.operation:
        return
    devices = "sdy.manual_computation" in (parent.name, parent.operation.name)
    within = open_ir.StringAttr(parent.attributes["sym_name"]).value if "sym_name" in parent.attributes else parent.name
    raise UnsupportedOpError(
        f"the kernel is called inside {within}, and only calls in straight-line code can be run",
        op=_read_call(op, False).kernel_name,
        hint="simulate_devices runs the kernel, on the arrays of each device"
        if devices
        else "unroll the loop, or simulate the kernel alone, on its operands",
    )


def _direct(value: Any, numbers: dict[Any, int]) -> _Direct | None:
    """Where the value is, if nothing needs to be computed for it."""
    shape, dtype = _spec(value.type)
    while value not in numbers:
        op = open_ir.OpResult(value).owner.operation
        if op.name == "stablehlo.constant":
            constant = _constant(str(op.attributes["value"]), dtype)
            return None if constant is None else _Direct(constant, shape)
        if op.name != "stablehlo.reshape":
            return None
        value = op.operands[0]
    return _Direct(numbers[value], shape)


def _constant(text: str, dtype: np.dtype[Any]) -> Array | None:
    """A dense constant, if its elements are of a type that kernels have too."""
    value, _, of = text.rpartition("tensor<")
    shape, _ = _spec("tensor<" + of)
    if not value.startswith("dense<") or dtype not in _types.NUMPY.values() or 0 in shape:
        return None
    return np.broadcast_to(np.asarray(_types.parse_constant(f"{value}vector<{of}"), dtype), shape)


def _segment(module: Any, stop: int, sources: Sequence[_Direct | None]) -> bytes:
    """A module of the ops before number ``stop`` of ``main``, that returns the operands without a source.

    It takes the program's arguments, and then the results of the kernels before it. What it does not need is left in:
    XLA drops it.
    """
    copy = module.operation.clone()
    main = _main(copy)
    (block,) = main.regions[0].blocks
    *before, last = list(block.operations)[: stop + 1]
    wanted = [n for n, source in enumerate(sources) if source is None]
    kernels = [op for op in before if _is_kernel(op)]
    for op in kernels:
        for result in op.results:
            result.replace_all_uses_with(block.add_argument(result.type, op.location))
    _stablehlo.return_instead(main, stop, [last.operands[n] for n in wanted])
    for op in kernels:
        op.operation.erase()
    return _stablehlo.bytecode(copy)


# --- checks --------------------------------------------------------------------------------------------------------


def _checked(value: Any, spec: Spec, what: str, op: str | None) -> Array:
    shape, dtype = spec
    if shape == () and isinstance(value, bool | int | float):
        value = _scalar(value, dtype, what, op)
    try:
        array = np.asarray(value)
    except Exception as error:
        summary = f"{what} cannot be made a NumPy array: {_first_line(error)}"
        raise InputError(summary, op=op, hint=f"{dtype}{list(shape)}") from None
    if array.shape != shape or array.dtype != dtype:
        raise InputError(
            f"{what} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}",
            op=op,
            hint="give arrays of the shapes and dtypes it was lowered for",
        )
    return array


def _scalar(value: float, dtype: np.dtype[Any], what: str, op: str | None) -> Array:
    """A Python number in the dtype that is asked for; only floats may round it."""
    try:
        array = np.array(value, dtype)
    except (OverflowError, ValueError):
        array = None
    if array is None or ("float" not in dtype.name and array != value):
        raise InputError(f"{what} is {value}, which is no {dtype}", op=op, hint=f"a number of type {dtype}")
    return array


def _checked_results(call: KernelCall, results: Sequence[Array]) -> list[Array]:
    if len(results) != len(call.outputs):
        summary = f"the kernel has {len(call.outputs)} results and {len(results)} were returned for it"
        raise InputError(summary, op=call.kernel_name)
    pairs = zip(results, call.outputs, strict=True)
    return [_checked(r, spec, f"result {n} of the kernel", call.kernel_name) for n, (r, spec) in enumerate(pairs)]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if "error:" in line] or lines or [type(error).__name__]
    return useful[0][:_MESSAGE]
