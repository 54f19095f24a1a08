"""Running a kernel's function: from a config to a finished module, its operands and its bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mosaic_tpu.builder import Builder, MosaicModule, Role, SerializedModule, i32
from mosaic_tpu.builder.errors import BuilderStateError, UnsupportedOpError, explain_foreign
from mosaic_tpu.kernel.errors import KernelDefinitionError

if TYPE_CHECKING:
    from mosaic_tpu.builder import DType

_SIGNATURE: Final = "def run(b: Builder, cfg: Config) -> None"


@dataclass(frozen=True)
class Operand:
    """One array of the call: its name at the call site, its shape and its element type."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Target:
    """For which reader the body is written.

    Attributes:
        ir_version: stable_mosaic version, ``None`` for the newest.
        unzip: whether locations leave the body.
        left_out: what JAX leaves out of the names of source files, as the builder does by itself.
    """

    ir_version: int | None
    unzip: bool
    left_out: str | None = None


@dataclass(frozen=True)
class Built:
    """A config's operands, results and body for one target, and its arguments' names where they are declared.

    The first operands are the ``bounds`` of the grid that are known at run time only.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    module: SerializedModule
    names: tuple[str, ...]
    first_output: int
    bounds: int = 0

    def declared(self, call_names: Sequence[str]) -> tuple[str, ...]:
        """What outputs that have these names at the call site are called where they are declared."""
        outputs = self.names[self.first_output :]
        return tuple(name for name, o in zip(outputs, self.outputs, strict=False) if o.name in call_names)


def where(run: Callable[..., Any]) -> str | None:
    """``"file.py:12"`` of the function's definition, or ``None`` if Python does not know it."""
    code = getattr(inspect.unwrap(run), "__code__", None)
    return None if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def check_run(name: str, run: Callable[..., Any]) -> None:
    """``run`` must take exactly a builder and a config."""
    if not callable(run):
        raise KernelDefinitionError(f"run is a {type(run).__name__}", op=name, hint=_SIGNATURE)
    try:
        signature = inspect.signature(run)
    except ValueError:  # something built in, whose signature Python does not know
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise KernelDefinitionError(f"run takes {signature}", op=name, location=where(run), hint=_SIGNATURE) from None


def run_kernel(name: str, run: Callable[..., Any], cfg: object, *, verify: bool | None = True) -> MosaicModule:
    """Build the module of one config; ``verify`` as in `Builder.finish`."""
    builder = Builder(name)
    try:
        returned = run(builder, cfg)
    except Exception as error:
        explain_foreign(error)
        raise
    if returned is not None:
        raise KernelDefinitionError(
            f"run returned a {type(returned).__name__}",
            op=name,
            location=where(run),
            hint="store outputs to their refs, return None",
        )
    try:
        return builder.finish(verify=verify, anonymous=True)  # whoever asks for a config, its bytes are equal
    except BuilderStateError as error:
        raise KernelDefinitionError(
            error.summary, op=name, location=where(run), hint="run must call b.declare_args(…), and not b.finish()"
        ) from None


def check_core(name: str, module: MosaicModule) -> None:
    """Only TensorCore kernels have the call that this package writes."""
    for op in module.module.body.operations:
        attributes = op.operation.attributes
        if "tpu.core_type" in attributes:
            core = str(attributes["tpu.core_type"])
            if "sc_" in core:
                raise UnsupportedOpError(
                    f"a kernel for {core} cannot be called", op=name, hint="look at it with kernel.emit(cfg)"
                )


def operands_of(
    name: str, run: Callable[..., Any], module: MosaicModule, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Match the call-site names with the declared arguments, in order; bounds known at run time come before all."""
    signature = module.signature
    count = (signature.grid or ()).count(None)
    bounds = inputs[:count]
    if len(bounds) < count:
        raise KernelDefinitionError(
            f"the grid {signature.grid} has more bounds known at run time than inputs are named",
            op=name,
            location=where(run),
            hint='name them before the other inputs, in the order of the grid: inputs=("rows", "x")',
        )
    inputs = inputs[len(bounds) :]
    declared = (
        (*signature.with_role(Role.SCALAR_PREFETCH), *signature.with_role(Role.INPUT)),
        signature.with_role(Role.OUTPUT),
    )
    found: list[tuple[Operand, ...]] = []
    kinds = {"inputs": "scalar_prefetch and input", "outputs": "output"}
    for what, names, arguments in zip(("inputs", "outputs"), (inputs, outputs), declared, strict=True):
        if len(names) != len(arguments):
            raise KernelDefinitionError(
                f"{len(names)} {what} are named ({', '.join(names)}), {len(arguments)} are declared "
                f"({', '.join(a.name for a in arguments)})",
                op=name,
                location=where(run),
                hint=f"name every declared {kinds[what]} ref, in order{_AFTER_BOUNDS if count else ''}",
            )
        declared_names = tuple(a.name for a in arguments)
        if names != declared_names and sorted(names) == sorted(declared_names):
            raise KernelDefinitionError(
                f"the {what} are named {', '.join(names)} and declared in another order, {', '.join(declared_names)}",
                op=name,
                location=where(run),
                hint="name them in the order of declare_args",
            )
        for a in arguments:
            if a.info.dtype.numpy is None:
                raise KernelDefinitionError(
                    f"{a.name!r} holds {a.info.dtype}",
                    op=name,
                    location=where(run),
                    hint="inputs and outputs are arrays: make it scratch",
                )
        found.append(
            tuple(
                Operand(call_name, signature.array_shapes[a.name], a.info.dtype)
                for call_name, a in zip(names, arguments, strict=True)
            )
        )
    return (*(Operand(bound, (), i32) for bound in bounds), *found[0]), found[1]


_AFTER_BOUNDS: Final = ", after the bounds that are known at run time"


__all__ = ["Built", "Operand", "Target", "check_core", "check_run", "operands_of", "run_kernel", "where"]
