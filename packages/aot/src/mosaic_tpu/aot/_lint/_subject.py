"""A kernel to look at: its module, what is known of its call, and facts about its values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, cast

from mosaic_tpu.aot._lint._valid import checked
from mosaic_tpu.aot._lint._values import Prover, prover_of
from mosaic_tpu.aot._source import opened, outputs_of, readable
from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import ir
from mosaic_tpu.sim.errors import SimulationError

#: VMEM's number in a call's ``scoped_memory_configs``.
_VMEM: Final = 1
#: Ops with results that do something besides.
_EFFECTS: Final = ("func.call", "tpu.region", "tpu.prng_random_bits", "tpu.sem_alloc", "memref.alloca")


@dataclass(frozen=True)
class Subject:
    """A kernel.

    Attributes:
        name: of the kernel.
        module: its module.
        call: its call, if the source is a program: it says the arrays' shapes.
        vmem_limit_bytes: what the caller or the call allows, if either says it.
        direct: whether the call takes the program's arguments as they are, and returns its results so.
    """

    name: str
    module: ir.Module
    call: ir.KernelCall | None = None
    vmem_limit_bytes: int | None = None
    direct: bool = True

    @cached_property
    def layout(self) -> ir.Layout:
        """Roles and windows of the arguments."""
        if self.call is not None:
            return ir.layout(self.module, len(self.call.inputs), len(self.call.outputs))
        made = len(self.module.call.outputs or ()) or outputs_of(self.module) or 1
        return ir.layout(self.module, _operands(self.module) - made, made)

    @cached_property
    def operations(self) -> tuple[ir.Operation, ...]:
        """Every op of the kernel's function that the compiler does not drop, in order."""
        everything = tuple(self.module.kernel.operation.walk())
        dead: set[int] = set()
        for op in reversed(everything):
            pure = bool(op.results) and not op.regions and op.name not in _EFFECTS
            if pure and all(user.number in dead for result in op.results for user in result.users):
                dead.add(op.number)
        return tuple(op for op in everything if op.number not in dead)

    @cached_property
    def vectors(self) -> tuple[ir.Operation, ...]:
        """Those that compute with vectors, or with f16."""
        return tuple(op for op in self.operations if op.results and op.name != "arith.constant" and _computes(op))

    @cached_property
    def prover(self) -> Prover:
        """Proofs about its integers."""
        return prover_of(self.operations)

    @cached_property
    def _by_name(self) -> dict[str, list[ir.Operation]]:
        found: dict[str, list[ir.Operation]] = {}
        for op in self.operations:
            found.setdefault(op.name, []).append(op)
        return found

    def ops(self, *names: str) -> Iterator[ir.Operation]:
        """The ops of some names."""
        return (op for name in names for op in self._by_name.get(name, ()))

    def array_of(self, argument: ir.Argument) -> tuple[int, ...] | None:
        """Shape of the whole array behind an argument, if the call is known."""
        if self.call is None:
            return None
        inputs, outputs = self.layout.role("prefetch", "input"), self.layout.role("output")
        shapes = [s for s, _ in self.call.inputs[self.layout.dynamic :]] + [s for s, _ in self.call.outputs]
        return dict(zip([a.name for a in (*inputs, *outputs)], shapes, strict=False)).get(argument.name)


def _computes(op: ir.Operation) -> bool:
    return any(v.type.kind == "vector" or v.type.element == "f16" for v in (*op.operands, *op.results))


@dataclass(frozen=True)
class Unreadable:
    """A kernel of a program whose module does not verify, or whose windows do not match.

    Attributes:
        name: of the kernel.
        summary: what is wrong.
        hint: what to do.
    """

    name: str
    summary: str
    hint: str


def _operands(module: ir.Module) -> int:
    """Prefetch, inputs and outputs, and the grid's bounds that the call gives."""
    attributes, arguments = module.kernel.attributes, module.kernel.arguments
    grid = attributes.integers("iteration_bounds")
    indices = sum(1 for a in arguments[: len(grid)] if a.type.kind == "scalar")
    dynamic = sum(bound == ir.DYNAMIC for bound in grid)
    return len(arguments) - indices - attributes.integer("scratch_operands", 0) + dynamic


def subjects_of(source: Any, vmem_limit_bytes: int | None, op: str) -> list[Subject | Unreadable]:
    """The kernels of a source, checked for what the rules take for granted; ``op`` asks for them.

    Raises:
        SourceError: there is none, or it is a module that does not verify, or whose windows do not match.
    """
    source, text = opened(source, op)
    with readable(op):
        if text is None:
            module = ir.read(source)
            return [checked(Subject(module.name, module, None, vmem_limit_bytes))]
        calls = ir.calls_of(text)
    names = tuple(getattr(source, "names", ())) if text is getattr(source, "stablehlo", None) else ()
    direct = len(calls) == 1 and len(re.findall(r"^ +%\S+ = ", text, re.MULTILINE)) <= 1 + _free(text)
    return [_of_call(call, vmem_limit_bytes, direct, names) for call in calls]


def _free(text: str) -> int:
    """How many ops of a program make no array: constants, and calls of functions that hold the kernel."""
    return len(re.findall(r"^ +%\S+ = (?:stablehlo\.constant|(?:func\.)?call) ", text, re.MULTILINE))


def _of_call(call: ir.KernelCall, limit: int | None, direct: bool, names: tuple[str, ...]) -> Subject | Unreadable:
    try:
        module = ir.module_of(call)
    except SimulationError as error:
        return Unreadable(call.kernel_name or "kernel", error.summary, str(error.hint))
    if len(names) == len(module.names):
        module = replace(module, names=names)
    limits = list(_limits(call.backend_config.get("scoped_memory_configs")))
    name = call.kernel_name or module.name
    try:
        return checked(Subject(name, module, call, limit or (limits[0] if limits else None), direct))
    except SourceError as error:
        return Unreadable(name, error.summary, error.hint)


def _limits(configs: Any) -> Iterator[int]:
    """The VMEM that a call allows, if it says so in the form that Pallas writes."""
    for entry in cast("list[Any]", configs) if isinstance(configs, list) else []:
        said = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        if said.get("memory_space") == _VMEM and type(said.get("size")) is int:
            yield said["size"]
