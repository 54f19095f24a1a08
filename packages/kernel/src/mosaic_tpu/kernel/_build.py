"""Running a kernel's function: from a config to a finished module, its operands and its bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mosaic_tpu.builder import Builder, MosaicModule, Role, SerializedModule
from mosaic_tpu.builder.errors import BuilderStateError
from mosaic_tpu.kernel.errors import ConfigError, KernelDefinitionError

if TYPE_CHECKING:
    from mosaic_tpu.builder import DType


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
    """

    ir_version: int | None
    unzip: bool


@dataclass(frozen=True)
class Built:
    """A config's operands, results and body for one target."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    module: SerializedModule


def check_run(name: str, run: Callable[..., Any]) -> None:
    """``run`` must take exactly a builder and a config."""
    if not callable(run):
        raise KernelDefinitionError(f"run is a {type(run).__name__}", op=name, hint="def run(b: Builder, cfg: Config) -> None")
    parameters = [
        p for p in inspect.signature(run).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    required = [p for p in inspect.signature(run).parameters.values() if p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    if len(parameters) < 2 or len(required) > 2:
        raise KernelDefinitionError(
            f"run takes {inspect.signature(run)}", op=name, hint="def run(b: Builder, cfg: Config) -> None"
        )


def check_config(name: str, config: type, cfg: object) -> None:
    """The config must be of the kernel's class and hashable, since it keys the caches."""
    if not isinstance(cfg, config):
        raise ConfigError(f"cfg is a {type(cfg).__name__}", op=name, hint=f"pass cfg={config.__name__}(…)")
    try:
        hash(cfg)
    except TypeError as error:
        raise ConfigError(f"cfg cannot be hashed: {error}", op=name,
                          hint="make it a frozen dataclass of numbers, strings, tuples and dtypes") from None  # fmt: skip


def run_kernel(name: str, run: Callable[..., Any], cfg: object) -> MosaicModule:
    """Build the module of one config."""
    builder = Builder(name)
    returned = run(builder, cfg)
    if returned is not None:
        raise KernelDefinitionError(f"run returned a {type(returned).__name__}", op=name, hint="store outputs to their refs, return None")
    try:
        return builder.finish()
    except BuilderStateError as error:
        raise KernelDefinitionError(error.summary, op=name, hint="run must call b.declare_args(…), and not b.finish()") from None


def operands_of(
    name: str, module: MosaicModule, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Match the call-site names with the declared arguments, in order."""
    signature = module.signature
    declared = (
        (*signature.with_role(Role.SCALAR_PREFETCH), *signature.with_role(Role.INPUT)),
        signature.with_role(Role.OUTPUT),
    )
    found: list[tuple[Operand, ...]] = []
    for what, names, arguments in zip(("inputs", "outputs"), (inputs, outputs), declared, strict=True):
        if len(names) != len(arguments):
            raise KernelDefinitionError(
                f"{len(names)} {what} are named ({', '.join(names)}), {len(arguments)} are declared "
                f"({', '.join(a.name for a in arguments)})",
                op=name,
                hint=f"name every declared {'scalar_prefetch and input' if what == 'inputs' else 'output'} ref, in order",
            )
        found.append(
            tuple(
                Operand(call_name, signature.array_shapes[a.name], a.info.dtype)
                for call_name, a in zip(names, arguments, strict=True)
            )
        )
    return found[0], found[1]


__all__ = ["Built", "Operand", "Target", "check_config", "check_run", "operands_of", "run_kernel"]
