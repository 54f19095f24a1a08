"""What a refused kernel and its remedied twin are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import jax
from jax.experimental import pallas as pl

from conformance.harness import pallas
from mosaic_tpu.aot import TARGETS
from mosaic_tpu.aot.errors import CompileError
from mosaic_tpu.builder import Builder, DType, MemorySpace, Ref, Role, Scalar, f32, i32
from mosaic_tpu.builder.specs import ArgSpec
from mosaic_tpu.kernel import CallExtras, Kernel

#: At the end of the line that the compiler refuses.
MARK: Final = "# refused"
EVERYWHERE: Final = tuple(TARGETS)
#: Enough for a twin: what compiles for both compiles for those between, as far as these kernels go.
OLDEST_AND_NEWEST: Final = (EVERYWHERE[0], EVERYWHERE[-1])


@dataclass(frozen=True)
class Program:
    """A kernel: its body, and how it becomes what `mosaic_tpu.aot.compile` takes."""

    body: Callable[..., None]
    lower: Callable[[], Any] = field(repr=False)

    @property
    def refused_line(self) -> str | None:
        """``"file.py:12"`` of the marked line; None if none is."""
        lines, first = inspect.getsourcelines(self.body)
        marked = [number for number, line in enumerate(lines, first) if line.rstrip().endswith(MARK)]
        return f"{inspect.getsourcefile(self.body)}:{marked[0]}" if marked else None


@dataclass(frozen=True)
class Refusal:
    """A kernel that the compiler refuses, and the same with the remedy applied.

    Attributes:
        name: what is wrong with it.
        error: the class of the error, exactly.
        op: the op that the error names; None where the compiler names none.
        says: part of the summary.
        hint: part of the hint: what the remedied twin does.
        refused: the kernel.
        remedied: its twin.
        targets: where it is refused.
        remedied_on: where the twin compiles.
    """

    name: str
    error: type[CompileError]
    op: str | None
    says: str
    hint: str
    refused: Program = field(repr=False)
    remedied: Program = field(repr=False)
    targets: tuple[str, ...] = EVERYWHERE
    remedied_on: tuple[str, ...] = OLDEST_AND_NEWEST


@dataclass(frozen=True)
class _Config:
    """The kernels have none."""


def ours(*, extras: CallExtras | None = None, **specs: ArgSpec) -> Callable[[Callable[[Builder, Any], None]], Program]:
    """A kernel of this project's builder: the decorated function is called with the builder and its arguments."""

    def made(body: Callable[[Builder, Any], None]) -> Program:
        def run(b: Builder, _cfg: _Config) -> None:
            body(b, b.declare_args({"step": Scalar(i32), **specs}, grid=(1,)))

        def lower() -> Any:
            kernel = Kernel(body.__name__, _Config, inputs=inputs, outputs=outputs, run=run, extras=extras)
            return kernel.lower(_Config())

        inputs = _names(specs, Role.INPUT)
        outputs = _names(specs, Role.OUTPUT)
        return Program(body, lower)

    return made


def _names(specs: dict[str, ArgSpec], role: Role) -> tuple[str, ...]:
    return tuple(name for name, spec in specs.items() if isinstance(spec, Ref) and spec.role is role)


def theirs(*operands: jax.ShapeDtypeStruct, **options: Any) -> Callable[[Callable[..., None]], Program]:
    """A kernel of Pallas; `options` go to `pl.pallas_call`."""

    def made(body: Callable[..., None]) -> Program:
        return Program(body, lambda: pallas.lower_to_stablehlo(pl.pallas_call(body, **options), *operands))

    return made


def vmem(*shape: int, dtype: DType = f32, role: Role = Role.INPUT) -> Ref:
    return Ref(shape, dtype, role=role)


def out(*shape: int, dtype: DType = f32) -> Ref:
    return Ref(shape, dtype, role=Role.OUTPUT)


def hbm(*shape: int, dtype: DType = f32, role: Role = Role.INPUT) -> Ref:
    return Ref(shape, dtype, MemorySpace.ANY, role=role)


def smem(*shape: int, dtype: DType = i32, role: Role = Role.INPUT) -> Ref:
    return Ref(shape, dtype, MemorySpace.SMEM, role=role)
