"""A case: a small program that holds Pallas kernels, and what Pallas emits for it.

Operands are written as XLA writes them, with the memory space where it is not VMEM: ``f32[8,128]``, ``s32`` (a scalar),
``s32[4] smem``, ``bf16[16,128] hbm``; semaphores are ``dma`` and ``regular[2]``.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jax
import jax.export
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from conformance.corpus import _compat
from conformance.harness import pallas
from mosaic_tpu.sim import ir

TILE: Final = (8, 128)

DTYPES: Final = {
    "f32": jnp.float32,
    "bf16": jnp.bfloat16,
    "f16": jnp.float16,
    "f8e5m2": jnp.float8_e5m2,
    "f8e4m3fn": jnp.float8_e4m3fn,
    "f8e4m3b11fnuz": jnp.float8_e4m3b11fnuz,
    "f4e2m1fn": jnp.float4_e2m1fn,
    "pred": jnp.bool_,
    **{f"s{bits}": getattr(jnp, f"int{bits}") for bits in (2, 4, 8, 16, 32)},
    **{f"u{bits}": getattr(jnp, f"uint{bits}") for bits in (2, 4, 8, 16, 32)},
}
_SPACES: Final = {"vmem": pltpu.VMEM, "smem": pltpu.SMEM, "any": pl.ANY, "hbm": pltpu.HBM}
_SEMAPHORES: Final = {
    "dma": pltpu.SemaphoreType.DMA,
    "regular": pltpu.SemaphoreType.REGULAR,
    "barrier": pltpu.SemaphoreType.BARRIER,
}
_OPERAND: Final = re.compile(r"(\w+)(?:\[([\d,]*)\])?(?: (\w+))?")


@dataclass(frozen=True)
class Operand:
    """An array, a scalar, or semaphores."""

    kind: str
    shape: tuple[int, ...] | None
    space: str

    @classmethod
    def of(cls, text: str) -> Operand:
        """Read what is written as the module says."""
        match = _OPERAND.fullmatch(text)
        assert match is not None, text
        kind, dims, space = match.groups()
        shape = None if dims is None else tuple(int(dim) for dim in dims.split(",") if dim)
        return cls(kind, shape, space or ("smem" if shape is None else "vmem"))

    @property
    def dtype(self) -> Any:
        """The element type."""
        return DTYPES[self.kind]

    @property
    def array(self) -> jax.ShapeDtypeStruct:
        """What the call takes: a scalar comes in an array of one."""
        return jax.ShapeDtypeStruct((1,) if self.shape is None else self.shape, self.dtype)

    @property
    def value(self) -> jax.ShapeDtypeStruct:
        """What is read of it."""
        return jax.ShapeDtypeStruct(self.shape or (), self.dtype)

    @property
    def block_spec(self) -> pl.BlockSpec:
        """As an input or output."""
        return pl.BlockSpec(memory_space=_SPACES[self.space])

    @property
    def scratch(self) -> Any:
        """As scratch, or in `pl.run_scoped`."""
        if self.kind in _SEMAPHORES:
            kind = _SEMAPHORES[self.kind]
            return kind if self.shape is None else kind(self.shape)
        return _SPACES[self.space](self.array.shape, self.dtype)

    def read(self, ref: Any) -> Any:
        """All of it."""
        return ref[0] if self.shape is None else ref[...]


def arrays(*texts: str) -> tuple[jax.ShapeDtypeStruct, ...]:
    """The arrays that some operands are."""
    return tuple(Operand.of(text).array for text in texts)


def scratch(*texts: str) -> list[Any]:
    """The buffers and semaphores that some operands are."""
    return [Operand.of(text).scratch for text in texts]


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
        id: unique.
        primitives: what it is there for, by the names of JAX's primitives.
        function: a function of arrays.
        arrays: what it is lowered for.
        since: the first JAX that can lower it.
        tpu_version: the TPU that it is lowered for.
        exported: lowered as `jax.export` lowers it; for shapes with symbols.
        context: what is around the lowering.
    """

    id: str
    primitives: tuple[str, ...]
    function: Callable[..., Any] = field(repr=False)
    arrays: tuple[Any, ...] = field(repr=False)
    since: tuple[int, int] = (0, 11)
    tpu_version: str = "v5e"
    exported: bool = False
    context: Callable[[], contextlib.AbstractContextManager[Any]] = field(default=contextlib.nullcontext, repr=False)

    @property
    def runs_here(self) -> bool:
        """Whether the installed JAX has what it needs."""
        return jax.__version_info__ >= self.since


@dataclass(frozen=True)
class Program:
    """A case, lowered.

    Attributes:
        id: of the case.
        stablehlo: the text of the program.
        bound: the primitives inside its kernels, as the jaxpr says.
        lowered: the primitives whose rule ran, each with the MLIR ops that it emitted.
        callers: the functions that called `pl.pallas_call`, by file and name.
    """

    id: str
    stablehlo: str = field(repr=False)
    bound: frozenset[str] = field(repr=False)
    lowered: Mapping[str, frozenset[str]] = field(repr=False)
    callers: frozenset[tuple[str, str]] = field(repr=False)

    @functools.cached_property
    def calls(self) -> tuple[pallas.PallasCall, ...]:
        """Its kernels, as the other tests of conformance know them."""
        return tuple(pallas.calls_in(self.stablehlo))

    @functools.cached_property
    def modules(self) -> tuple[ir.Module, ...]:
        """The bodies of its kernels, as data."""
        return tuple(ir.read(call.body) for call in self.calls)

    @property
    def ops(self) -> frozenset[str]:
        """The names of the MLIR ops in its kernels, with their index maps."""
        return frozenset(
            op.name
            for module in self.modules
            for function in module.functions.values()
            for op in function.operation.walk()
        )

    def as_text(self) -> str:
        """The StableHLO, as `jax.stages.Lowered` gives it."""
        return self.stablehlo


def lower(case: Case) -> Program:
    """Lower a case with Pallas, for a TPU, without one."""
    with (
        pallas.as_on_a_tpu(case.tpu_version),
        case.context(),
        _callers() as callers,
        _compat.rules_that_run() as ran,
    ):
        jitted = jax.jit(case.function)
        traced = jitted.trace(*case.arrays)
        if case.exported:
            unchecked = [jax.export.DisabledSafetyCheck.custom_call(pallas.TARGET)]
            exported = jax.export.export(jitted, platforms=["tpu"], disabled_checks=unchecked)(*case.arrays)
            stablehlo = exported.mlir_module()
        else:
            stablehlo = traced.lower(lowering_platforms=("tpu",)).as_text()
        bound = _compat.primitives_in_kernels(traced.jaxpr)
    return Program(case.id, stablehlo, bound, {name: frozenset(ops) for name, ops in ran.items()}, frozenset(callers))


@contextlib.contextmanager
def _callers() -> Iterator[set[tuple[str, str]]]:
    """The functions that call `pl.pallas_call` meanwhile: the traceback of an equation may be another function's."""
    found: set[tuple[str, str]] = set()
    kept = pl.pallas_call

    def watched(*args: Any, **options: Any) -> Any:
        code = sys._getframe(1).f_code
        found.add((code.co_filename, code.co_name))
        return kept(*args, **options)

    pl.pallas_call = watched
    try:
        yield found
    finally:
        pl.pallas_call = kept


# --- lists of cases --------------------------------------------------------------------------------------------------


class Cases:
    """The cases of one theme; their ids start with its name.

    >>> cases = Cases("elementwise")
    >>> cases.values("add", ("add",), lambda x, y: x + y, "f32[8,128]", "f32[8,128]")
    >>> @cases.refs(("get", "swap"), ("f32[8,128]",), ("f32[8,128]",))
    ... def copy(x, o):
    ...     o[...] = x[...]
    >>> [case.id for case in cases]
    ['elementwise/add', 'elementwise/copy']
    """

    def __init__(self, theme: str) -> None:
        self.theme = theme
        self.cases: list[Case] = []

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def add(
        self,
        id: str,
        primitives: Sequence[str],
        function: Callable[..., Any],
        arrays: Sequence[Any],
        **options: Any,
    ) -> None:
        """Add a function of arrays that makes its own `pallas_call`s."""
        self.cases.append(Case(f"{self.theme}/{id}", tuple(primitives), function, tuple(arrays), **options))

    def values(
        self, id: str, primitives: Sequence[str], function: Callable[..., Any], *operands: str, **options: Any
    ) -> None:
        """Add a kernel that stores what a function of values gives: an array, a scalar, or a tuple of them."""
        inputs = [Operand.of(text) for text in operands]

        def call(*values: Any) -> Any:
            results = jax.eval_shape(function, *(operand.value for operand in inputs))
            leaves = jax.tree.leaves(results)

            def kernel(*refs: Any) -> None:
                given = [operand.read(ref) for operand, ref in zip(inputs, refs, strict=False)]
                computed = jax.tree.leaves(function(*given))
                for ref, value in zip(refs[len(inputs) :], computed, strict=True):
                    ref[... if jnp.shape(value) else 0] = value

            out = [jax.ShapeDtypeStruct(leaf.shape or (1,), leaf.dtype) for leaf in leaves]
            spaces = [pltpu.VMEM if leaf.shape else pltpu.SMEM for leaf in leaves]
            return pl.pallas_call(
                kernel,
                out_shape=out,
                in_specs=[operand.block_spec for operand in inputs],
                out_specs=[pl.BlockSpec(memory_space=space) for space in spaces],
            )(*values)

        self.add(id, primitives, call, [operand.array for operand in inputs], **options)

    def refs(
        self,
        primitives: Sequence[str],
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = ("f32[8,128]",),
        scratch: Sequence[str] = (),
        *,
        id: str | None = None,
        grid: tuple[Any, ...] = (),
        prefetch: Sequence[str] = (),
        in_specs: Mapping[int, pl.BlockSpec] | None = None,
        out_specs: Mapping[int, pl.BlockSpec] | None = None,
        params: Mapping[str, Any] | None = None,
        mesh: Mapping[str, int] | None = None,
        call: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Add a kernel of refs, named after it.

        Arguments:
            primitives: what it is there for.
            inputs: operands.
            outputs: operands.
            scratch: operands.
            id: instead of the kernel's name.
            grid: bounds.
            prefetch: scalar-prefetch operands.
            in_specs: block specs by number, for operands that have windows; `out_specs` likewise.
            params: of `pltpu.CompilerParams`.
            mesh: axes of the mesh that the kernel is mapped over, with replicated operands.
            call: more arguments of `pl.pallas_call`.
            options: of `Case`.
        """
        roles = [[Operand.of(text) for text in texts] for texts in (prefetch, inputs, outputs, scratch)]
        ahead, ins, outs, buffers = roles

        def add(kernel: Callable[..., None]) -> Callable[..., None]:
            specs: dict[str, Any] = {
                "in_specs": [(in_specs or {}).get(i, operand.block_spec) for i, operand in enumerate(ins)],
                "out_specs": [(out_specs or {}).get(i, operand.block_spec) for i, operand in enumerate(outs)],
                "scratch_shapes": [operand.scratch for operand in buffers],
                "grid": grid,
            }
            if ahead:
                specs = {"grid_spec": pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=len(ahead), **specs)}

            def function(*values: Any) -> Any:
                return pl.pallas_call(
                    kernel,
                    out_shape=[operand.array for operand in outs],
                    compiler_params=pltpu.CompilerParams(**(params or {})),
                    **specs,
                    **(call or {}),
                )(*values)

            taken: list[Any] = [operand.array for operand in (*ahead, *ins)]
            mapped = function
            if mesh is not None:
                mapped, taken = on_mesh(function, mesh, taken)
            self.add(id or kernel.__name__.strip("_").replace("_", "-"), primitives, mapped, taken, **options)
            return kernel

        return add


def on_mesh(
    function: Callable[..., Any], axes: Mapping[str, int], arrays: Sequence[jax.ShapeDtypeStruct]
) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
    """The function mapped over a mesh that exists only in name, every operand replicated; and the arrays to give it."""
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    sharding = NamedSharding(mesh, PartitionSpec())
    placed = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in arrays]
    spec = PartitionSpec()
    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    if not placed:  # then nothing says where it runs
        return lambda: mapped(), placed
    return mapped, placed
