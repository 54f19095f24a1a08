"""Pallas's side: what `pl.pallas_call` emits for a TPU, lowered on a machine without one.

>>> call = lower(fn, jax.ShapeDtypeStruct((256, 256), "float32"), tpu_version="v6e")    # doctest: +SKIP
>>> call.kernel_name, call.ir_version, len(call.body)                                   # doctest: +SKIP
('matmul_kernel', 15, 1739)
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import jax
import jax.export

# ------------------------------------------------------------------------------------------ private names of JAX
# `get_device_kind` and `get_num_device_cores` of tpu_info: some kernels ask for the TPU while they are traced or
#     lowered (rank-1 blocks, sign, top_k, run_scoped, RPA) and refuse on a CPU. The public way, an abstract mesh with
#     an abstract device, changes the bytes even if it has no axes: RPA's body then has other ops.
#     If they move: whatever `pltpu.get_tpu_info` asks for the kind of the device.
# `get_ir_version` of tpu_custom_call: it takes the latest version only where there is a TPU.
#     If it moves: what `_lower_to_custom_call_config` is given as `ir_version`.
from jax._src import tpu_custom_call, tpu_info
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from conformance.harness import levels

# ---------------------------------------------------------------------------------------------------------------

#: What a TPU of each version calls itself, and its cores per device as JAX sees them.
DEVICES: Final = {
    "v4": ("TPU v4", 2),
    "v5e": ("TPU v5 lite", 1),
    "v5p": ("TPU v5", 2),
    "v6e": ("TPU v6 lite", 1),
    "tpu7x": ("TPU7x", 1),
}
TARGET: Final = "tpu_custom_call"


@dataclass(frozen=True)
class PallasCall:
    """One custom call to the TPU compiler.

    `line` is the op as StableHLO prints it, from its name on, with every attribute. Each operand is written as what it
    is, `operands`: an argument of the program, or the ops that make it of arguments. `stablehlo` is that program.
    """

    line: str = field(repr=False)
    operands: tuple[str, ...] = field(repr=False)
    backend_config: dict[str, Any] = field(repr=False, hash=False)
    body: bytes = field(repr=False)
    debug_locations: bytes | None = field(repr=False)
    kernel_name: str | None
    ir_version: int
    stablehlo: str = field(repr=False)

    @property
    def custom_call_line(self) -> str:
        """The line, under the name it has on our side."""
        return self.line

    def by_types(self) -> PallasCall:
        """The same call, of whose operands the line says the types alone: for what is prepared elsewhere."""
        written = f"({', '.join(self.operands)})"
        return replace(self, line=self.line.replace(written, "(…)", 1), operands=())


def lower(
    fn: Callable[..., Any],
    *args: Any,
    tpu_version: str = "v5e",
    forward_compatible: bool = False,
    latest: bool = False,
    **kwargs: Any,
) -> PallasCall:
    """Lower a function that holds one pallas_call for a TPU of `tpu_version`; see `lower_all`."""
    options = {"tpu_version": tpu_version, "forward_compatible": forward_compatible, "latest": latest}
    calls = lower_all(fn, *args, **options, **kwargs)
    if len(calls) != 1:
        raise ValueError(f"expected one {TARGET} and found {len(calls)}: use lower_all")
    return calls[0]


def lower_all(
    fn: Callable[..., Any],
    *args: Any,
    tpu_version: str = "v5e",
    forward_compatible: bool = False,
    latest: bool = False,
    **kwargs: Any,
) -> list[PallasCall]:
    """Lower a function for a TPU of `tpu_version` and return its kernels in order of the text.

    Arguments:
        fn: a function of arrays, jitted or not.
        args: arrays or `jax.ShapeDtypeStruct`s; `kwargs` likewise.
        tpu_version: one of `DEVICES`.
        forward_compatible: as `jax.export` lowers: an older IR version, locations inside the body, newer ops avoided.
        latest: the IR version that Pallas takes on a machine with a TPU.
    """
    return calls_in(
        lower_to_stablehlo(
            fn, *args, tpu_version=tpu_version, forward_compatible=forward_compatible, latest=latest, **kwargs
        )
    )


def lower_to_stablehlo(
    fn: Callable[..., Any],
    *args: Any,
    tpu_version: str = "v5e",
    forward_compatible: bool = False,
    latest: bool = False,
    **kwargs: Any,
) -> str:
    """The StableHLO module of a function, lowered as `lower_all` says."""
    with _tpu(tpu_version), _no_mesh(), _latest_ir_version() if latest else contextlib.nullcontext():
        if forward_compatible:
            unchecked = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
            exported = jax.export.export(jax.jit(fn), platforms=["tpu"], disabled_checks=unchecked)
            return exported(*args, **kwargs).mlir_module()
        return jax.jit(fn).trace(*args, **kwargs).lower(lowering_platforms=("tpu",)).as_text()


def calls_in(stablehlo_text: str) -> list[PallasCall]:
    """Every custom call to the TPU compiler in a StableHLO module, whoever emitted it, in order of the text."""
    context = levels.context()
    stablehlo.register_dialect(context)
    sdy.register_dialect(context)  # shardings, in programs for several devices
    with context:
        module = ir.Module.parse(stablehlo_text)
        operands = _Operands(module.operation)
        return [_read(op, operands, stablehlo_text) for op in _operations(module.operation) if _is_call(op)]


def line_without_locations(call: PallasCall) -> str:
    """The line with the content of ``debug_locations`` blanked, and nothing else: it still holds the body."""
    return levels.without_locations(call.line)


def _operations(root: ir.Operation) -> Iterator[ir.Operation]:
    for region in root.regions:
        for block in region:
            for op in block.operations:
                yield op.operation
                yield from _operations(op.operation)


def _is_call(op: ir.Operation) -> bool:
    return op.name == "stablehlo.custom_call" and ir.StringAttr(op.attributes["call_target_name"]).value == TARGET


def _read(op: ir.Operation, written: _Operands, stablehlo_text: str) -> PallasCall:
    backend_config = json.loads(ir.StringAttr(op.attributes["backend_config"]).value)
    body = levels.body_of(backend_config)
    locations = backend_config["custom_call_config"].get("debug_locations")
    operands = tuple(written.of(value) for value in op.operands)
    return PallasCall(
        line=_with_operands(op.get_asm(enable_debug_info=False), operands),
        operands=operands,
        backend_config=backend_config,
        body=body,
        debug_locations=None if locations is None else base64.b64decode(locations),
        kernel_name=ir.StringAttr(op.attributes["kernel_name"]).value if "kernel_name" in op.attributes else None,
        ir_version=levels.ir_version(body),
        stablehlo=stablehlo_text,
    )


def _with_operands(printed: str, operands: tuple[str, ...]) -> str:
    """``%5 = stablehlo.custom_call @f(%c, %2) …`` as ``stablehlo.custom_call @f(constant {…}, %arg0) …``."""
    head, tail = re.fullmatch(r"(?:%[\w:]+ = )?(stablehlo[^(]*\()[^)]*(\).*)", printed.strip(), re.DOTALL).groups()
    return head + ", ".join(operands) + tail


class _Operands:
    """Writes a value as what the program makes it of; names of values and of private functions are left out.

    An argument of a public function is ``%argN``; a result is its op with attributes, operands and type, `DEPTH` ops
    deep, and ``…`` beyond. A private function is seen through, in both directions. What an op's regions hold is not
    written.
    """

    DEPTH: Final = 8

    def __init__(self, module: ir.Operation) -> None:
        self._functions: dict[str, ir.Operation] = {}
        self._calls: dict[str, list[ir.Operation]] = {}
        for op in _operations(module):
            if op.name == "func.func":
                self._functions[ir.StringAttr(op.attributes["sym_name"]).value] = op
            elif op.name == "func.call":
                self._calls.setdefault(_callee(op), []).append(op)

    def of(self, value: ir.Value, depth: int = DEPTH, inside: tuple[ir.Operation, ...] = ()) -> str:
        """The value in text. `inside` are the calls through which it was reached, the innermost last."""
        if isinstance(value.owner, ir.Block):
            return self._argument(ir.BlockArgument(value), depth, inside)
        op, number = value.owner.operation, ir.OpResult(value).result_number
        if op.name == "func.call":
            (block,) = self._functions[_callee(op)].regions[0]
            return self.of(list(block.operations)[-1].operation.operands[number], depth, (*inside, op))
        which = f"#{number}" if len(op.results) > 1 else ""
        attributes = ", ".join(sorted(f"{name} = {op.attributes[name]}" for name in _names(op) if name != "sym_name"))
        shown = f" {{{attributes}}}" if attributes else ""
        return f"{_short(op)}{which}{shown}{self._list(op, depth, inside)} : {value.type}"

    def _argument(self, argument: ir.BlockArgument, depth: int, inside: tuple[ir.Operation, ...]) -> str:
        op, number = argument.owner.owner.operation, argument.arg_number
        if op.name != "func.func":
            return f"{_short(op)}%arg{number}{self._list(op, depth, inside)}"
        if inside:
            return self.of(inside[-1].operands[number], depth, inside[:-1])
        calls = self._calls.get(ir.StringAttr(op.attributes["sym_name"]).value, [])
        return " or ".join(self.of(call.operands[number], depth) for call in calls) or f"%arg{number}"

    def _list(self, op: ir.Operation, depth: int, inside: tuple[ir.Operation, ...]) -> str:
        if not len(op.operands):
            return ""
        return f"({', '.join(self.of(value, depth - 1, inside) for value in op.operands) if depth else '…'})"


def _callee(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value


def _short(op: ir.Operation) -> str:
    return op.name.removeprefix("stablehlo.")


def _names(op: ir.Operation) -> Iterator[str]:
    """The names of an op's attributes, which JAX 0.11 gives with their values."""
    for attribute in op.attributes:
        yield attribute if isinstance(attribute, str) else attribute.name


@contextlib.contextmanager
def as_on_a_tpu(tpu_version: str = "v5e") -> Iterator[None]:
    """Lower with JAX directly, as on a machine with a TPU of `tpu_version`; for timing, where `lower` does too much."""
    with _tpu(tpu_version), _no_mesh():
        yield


_last_kind: str | None = None


@contextlib.contextmanager
def _tpu(version: str) -> Iterator[None]:
    """Answer the question for the device as a TPU of `version` would."""
    if version not in DEVICES:
        raise ValueError(f"no TPU version {version!r}: one of {', '.join(DEVICES)}")
    kind, cores = DEVICES[version]
    _forget(kind)
    answers = {"get_device_kind": lambda: kind, "get_num_device_cores": lambda: cores}
    with _replaced(tpu_info, answers):
        try:
            yield
        finally:
            tpu_info.get_tpu_info.cache_clear()


def _forget(kind: str) -> None:
    """Drop what JAX remembers of another TPU: its caches of traces and lowerings do not know which one they hold."""
    global _last_kind
    if kind != _last_kind:
        jax.clear_caches()
        _last_kind = kind
    tpu_info.get_tpu_info.cache_clear()


@contextlib.contextmanager
def _latest_ir_version() -> Iterator[None]:
    """Serialize at the newest version jaxlib has, as Pallas does where there is a TPU."""
    jax.clear_caches()
    try:
        with _replaced(tpu_custom_call, {"get_ir_version": lambda ctx: None}):
            yield
    finally:
        jax.clear_caches()


@contextlib.contextmanager
def _no_mesh() -> Iterator[None]:
    """No mesh around the call: under one, Pallas emits other ops."""
    if jax.sharding.get_abstract_mesh().empty:
        yield
    else:
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
            yield


@contextlib.contextmanager
def _replaced(module: Any, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    kept = {name: getattr(module, name) for name in functions}
    for name, function in functions.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(module, name, function)
