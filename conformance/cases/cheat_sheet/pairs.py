"""A pair: one idea written in Pallas and with the builder, and the kernels that are made around both.

The operands are described once, so that ``pallas_call`` and ``declare_args`` cannot disagree. Snippets name the
operands they use; a snippet that returns a value has it stored. The text of a snippet is what runs.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu import builder
from mosaic_tpu.builder import (
    Builder,
    DType,
    ElementWindow,
    Ref,
    Scalar,
    Sem,
    SemArray,
    Window,
    as_dtype,
    i1,
    i32,
    u32,
)
from mosaic_tpu.kernel import CallExtras, Kernel

TILE: Final = (8, 128)
Snippet = Callable[..., Any]
RoleName = Literal["scalar_prefetch", "input", "output", "scratch"]
_SPACES: Final = {"vmem": pltpu.VMEM, "smem": pltpu.SMEM, "any": pl.ANY, "hbm": pltpu.HBM}
_SEMAPHORES: Final = {"dma": pltpu.SemaphoreType.DMA, "regular": pltpu.SemaphoreType.REGULAR}
_ROLES: Final = ("scalar_prefetch", "input", "output", "scratch")


@dataclass(frozen=True)
class Arg:
    """An operand of both kernels.

    Attributes:
        shape: of the whole array, of the scratch buffer, or of the array of semaphores.
        dtype: element type; of semaphores, ``"dma"`` or ``"regular"``.
        space: memory space, or ``"semaphore"``.
        role: what it is to the call.
        block: what the kernel sees of it, ``None`` for a dimension it does not see; all if omitted.
        index_map: program ids and prefetch refs to block indices, the same function on both sides.
        buffers: 1 or 2 buffers of the pipeline.
        padding: element indexing, with this padding (low, high) of each dimension.
        is_key: a key that `pltpu.to_pallas_key` made, which our kernel has as numbers of this shape.
    """

    shape: tuple[int, ...]
    dtype: DType | str
    space: str = "vmem"
    role: RoleName = "input"
    block: tuple[int | None, ...] | None = None
    index_map: Callable[..., Any] | None = None
    buffers: int | None = None
    padding: tuple[tuple[int, int], ...] | None = None
    is_key: bool = False

    @property
    def numpy(self) -> Any:
        """The dtype as JAX knows it."""
        assert isinstance(self.dtype, DType)
        return self.dtype.numpy

    def to_array(self) -> jax.ShapeDtypeStruct:
        """What the call takes or gives."""
        if self.is_key:
            return jax.eval_shape(lambda: pltpu.to_pallas_key(jax.random.key(0, impl="rbg")))
        return jax.ShapeDtypeStruct(self.shape, self.numpy)

    def to_block_spec(self) -> pl.BlockSpec:
        """Pallas's form of an input or output."""
        space = _SPACES[self.space]
        if self.block is None and self.index_map is None:
            mode = {} if self.buffers is None else {"pipeline_mode": pl.Buffered(self.buffers)}
            return pl.BlockSpec(memory_space=space, **mode)
        block: tuple[Any, ...] = self.block or self.shape
        if self.padding is not None:
            block = tuple(pl.Element(b, p) for b, p in zip(block, self.padding, strict=True))
        mode = None if self.buffers is None else pl.Buffered(self.buffers)
        return pl.BlockSpec(block, self.index_map, memory_space=space, pipeline_mode=mode)

    def to_scratch(self) -> Any:
        """Pallas's form of scratch."""
        if self.space == "semaphore":
            kind = _SEMAPHORES[str(self.dtype)]
            return kind(self.shape) if self.shape else kind
        return _SPACES[self.space](self.shape, self.numpy)

    def to_spec(self) -> Ref | Sem | SemArray:
        """The builder's form."""
        if self.space == "semaphore":
            kind = str(self.dtype)
            return SemArray(self.shape, kind) if self.shape else Sem(kind)
        window = None
        if self.block is not None or self.index_map is not None or self.buffers is not None:
            padding = self.padding
            window = Window(
                self.block,
                index_map=self.index_map,
                pipeline_mode={None: None, 1: "synchronous", 2: "double_buffered"}[self.buffers],
                element_window=None
                if padding is None
                else ElementWindow(tuple(low for low, _ in padding), tuple(high for _, high in padding)),
            )
        seen = tuple(size for size in self.block or self.shape if size is not None)
        return Ref(seen, as_dtype(self.dtype), self.space, self.role, window=window, array_shape=self.shape)


def vmem(dtype: DType, shape: tuple[int, ...] = TILE, **more: Any) -> Arg:
    """An input in VMEM."""
    return Arg(shape, dtype, **more)


def out(dtype: DType, shape: tuple[int, ...] = TILE, **more: Any) -> Arg:
    """An output."""
    return Arg(shape, dtype, role="output", **more)


def smem(dtype: DType, shape: tuple[int, ...] = (4,), **more: Any) -> Arg:
    """An input in SMEM."""
    return Arg(shape, dtype, "smem", **more)


def pallas_key() -> Arg:
    """A key of the TPU's generator, as a scalar-prefetch operand."""
    return Arg((1, 2), u32, "smem", "scalar_prefetch", is_key=True)


def prefetch(dtype: DType, shape: tuple[int, ...] = (4,)) -> Arg:
    """A scalar-prefetch operand."""
    return Arg(shape, dtype, "smem", "scalar_prefetch")


def anywhere(dtype: DType, shape: tuple[int, ...] = TILE, **more: Any) -> Arg:
    """An input that XLA places, in HBM as a rule."""
    return Arg(shape, dtype, "any", **more)


def scratch(dtype: DType, shape: tuple[int, ...] = TILE, space: str = "vmem") -> Arg:
    """Scratch memory."""
    return Arg(shape, dtype, space, "scratch")


def sem(kind: str = "dma", shape: tuple[int, ...] = ()) -> Arg:
    """A semaphore, or an array of them, as scratch."""
    return Arg(shape, kind, "semaphore", "scratch")


@dataclass(frozen=True)
class _Nothing:
    """The config of kernels that have none."""


@dataclass(frozen=True)
class Pair:
    """One idea, written twice.

    Attributes:
        id: unique, of the test and of the row in the report.
        topic: where a cheat-sheet lists it.
        pallas: body of the Pallas kernel, a function of refs; of values where `loaded`.
        ours: body of our kernel: ``b`` if it wants the builder, ids of the grid and operands by name.
        args: operands by name, in order of role.
        row: the row of the seed guide's cheat-sheet that it shows, as the guide spells the Python.
        uses: names of idioms that operators stand for; idioms that ``ours`` names are found in its text.
        grid: bounds; the ids are named i, j, k.
        semantics: one a dimension of the grid.
        loaded: operands reach the snippets as values, and what they return is stored.
        texts: the two expressions, where the functions are made of them.
        collective_id: of kernels that use the barrier semaphore.
        communicates: with other devices, other than by copies.
        metadata: of our call: what Pallas says of the mesh that a body names.
        tpu_version: the TPU that both are lowered for.
        debug_checks: lowered with ``pl.enable_debug_checks``, without which Pallas drops checks.
    """

    id: str
    topic: str
    pallas: Snippet = field(repr=False)
    ours: Snippet = field(repr=False)
    args: Mapping[str, Arg] = field(repr=False)
    row: str | None = None
    uses: tuple[str, ...] = ()
    grid: tuple[int, ...] | None = (1,)
    semantics: tuple[str, ...] | None = None
    loaded: bool = False
    texts: tuple[str, str] | None = None
    collective_id: int | None = None
    communicates: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    tpu_version: str = "v5e"
    debug_checks: bool = False

    @property
    def pallas_text(self) -> str:
        """The Python of Pallas."""
        return self.texts[0] if self.texts else text_of(self.pallas)

    @property
    def ours_text(self) -> str:
        """The Python of ours."""
        return self.texts[1] if self.texts else text_of(self.ours)

    @property
    def idioms(self) -> frozenset[str]:
        """The registered idioms that ours uses: ``pallas.sum``."""
        named = re.findall(r"\bb\.pallas\.(\w+)", self.ours_text)
        return frozenset(f"pallas.{name}" for name in (*named, *self.uses))

    @property
    def dtype(self) -> str:
        """The element types of the operands."""
        found = (str(a.dtype) for a in self.args.values() if a.space != "semaphore")
        return " ".join(dict.fromkeys(found))

    @cached_property
    def operands(self) -> dict[str, Arg]:
        """The operands, with the result where the snippets give one."""
        if not self.loaded:
            return dict(self.args)
        values = [_loaded_aval(self.args[n]) for n in _parameters(self.pallas)]
        result = jax.eval_shape(self.pallas, *values)
        dtype = as_dtype(result.dtype)
        return {**self.args, "result": out(i32 if dtype is i1 else dtype, result.shape or TILE)}

    def _with_role(self, role: str) -> dict[str, Arg]:
        return {n: a for n, a in self.operands.items() if a.role == role}

    # --- Pallas's side ---------------------------------------------------------------------------------------------

    def pallas_call(self) -> tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]:
        """A function that makes the call, and the arrays it takes."""
        names = [n for role in _ROLES for n in self._with_role(role)]

        def kernel(*refs: Any) -> None:
            self._run_pallas(dict(zip(names, refs, strict=True)))

        roles = {role: list(self._with_role(role).values()) for role in _ROLES}
        outputs = [a.to_array() for a in roles["output"]]
        specs = {
            "in_specs": [a.to_block_spec() for a in roles["input"]],
            "out_specs": [a.to_block_spec() for a in roles["output"]],
            "scratch_shapes": [a.to_scratch() for a in roles["scratch"]],
        }
        if roles["scalar_prefetch"]:
            count = len(roles["scalar_prefetch"])
            specs = {
                "grid_spec": pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=count, grid=self.grid or (), **specs)
            }
        elif self.grid is not None:
            specs["grid"] = self.grid
        params = pltpu.CompilerParams(dimension_semantics=self.semantics, collective_id=self.collective_id)
        call = self._on_mesh(pl.pallas_call(kernel, out_shape=outputs, compiler_params=params, **specs))
        return call, [a.to_array() for a in (*roles["scalar_prefetch"], *roles["input"])]

    def _run_pallas(self, refs: dict[str, Any]) -> None:
        if not self.loaded:
            self.pallas(**{n: refs[n] for n in _parameters(self.pallas)})
            return
        values = [_read(refs[n], self.args[n]) for n in _parameters(self.pallas)]
        result = self.pallas(*values)
        if result.dtype == bool:
            result = result.astype(jnp.int32)
        refs["result"][...] = result if result.shape else jnp.broadcast_to(result, TILE)

    # --- our side --------------------------------------------------------------------------------------------------

    def our_call(self) -> Callable[..., Any]:
        """A function that calls our kernel, of the same arrays."""
        kernel = self._kernel()

        def call(*arrays: Any) -> tuple[Any, ...]:
            named = dict(zip(kernel.inputs, arrays, strict=True))
            given = {n: jax.random.key_data(a) if self.args[n].is_key else a for n, a in named.items()}
            results = kernel(cfg=_Nothing(), **given)
            return results if isinstance(results, tuple) else (results,)

        return self._on_mesh(call)

    def _on_mesh(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Under shard_map, which Pallas demands of kernels that signal other devices; on a mesh of one."""
        if not self.communicates:
            return call
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
        spec = jax.sharding.PartitionSpec()
        return jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)

    def _kernel(self) -> Kernel[_Nothing]:
        return Kernel(
            "kernel",
            _Nothing,
            inputs=(*self._with_role("scalar_prefetch"), *self._with_role("input")),
            outputs=tuple(self._with_role("output")),
            run=self._run_ours,
            extras=CallExtras(collective_id=self.collective_id, metadata=self.metadata),
        )

    def _run_ours(self, b: Builder, _: _Nothing) -> None:
        ids = {name: Scalar(i32) for name in "ijk"[: len(self.grid or ())]}
        specs = {n: a.to_spec() for role in _ROLES for n, a in self._with_role(role).items()}
        declared = b.declare_args({**ids, **specs}, grid=self.grid, dimension_semantics=self.semantics)
        known = {"b": b, **{n: declared[n] for n in (*ids, *specs)}}
        wanted = _parameters(self.ours)
        if not self.loaded:
            self.ours(**{n: known[n] for n in wanted})
            return
        for name in wanted:
            if name in self.args:
                known[name] = _read(known[name], self.args[name])
        result = self.ours(**{n: known[n] for n in wanted})
        if result.dtype is i1:
            result = b.pallas.astype(result, i32)
        declared["result"][...] = result if result.shape else b.pallas.broadcast_to(result, TILE)


def _read(ref: Any, arg: Arg) -> Any:
    return ref[0] if arg.space == "smem" else ref[...]


def _loaded_aval(arg: Arg) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(() if arg.space == "smem" else arg.shape, arg.numpy)


def _parameters(function: Snippet) -> list[str]:
    return list(inspect.signature(function).parameters)


# --- snippets as text, text as snippets ------------------------------------------------------------------------------


def text_of(function: Snippet) -> str:
    """The body of a function, as it is written."""
    source = textwrap.dedent(inspect.getsource(function))
    body = ast.parse(source).body[0].body  # pyright: ignore[reportAttributeAccessIssue]
    first = min(node.lineno for node in (body[0], *getattr(body[0], "decorator_list", ())))
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 : body[-1].end_lineno]))


_PALLAS_NAMES: Final = {"jax": jax, "jnp": jnp, "lax": jax.lax, "np": np, "pl": pl, "pltpu": pltpu}
_OUR_NAMES: Final = {**vars(builder), "np": np}


def _compiled(text: str, args: Mapping[str, Arg], names: Mapping[str, Any]) -> Snippet:
    """A function of the operands that the text names, and of ``b``: an expression alone is what it returns."""
    module = ast.parse(text)
    named = {n.id for n in ast.walk(module) if isinstance(n, ast.Name)}
    used = [n for n in ("b", *args) if n in named]
    returns = "return " if len(module.body) == 1 and isinstance(module.body[-1], ast.Expr) else ""
    scope = dict(names)
    exec(f"def snippet({', '.join(used)}):\n{textwrap.indent(returns + text, '    ')}", scope)
    return scope["snippet"]


class Pairs:
    """A list of pairs on one topic.

    >>> pairs = Pairs("refs")
    >>> pairs.expression("double", "x * 2", x=vmem(f32))
    >>> @pairs.add(x=vmem(f32), o=out(f32))
    ... class copy:
    ...     def both(x, o):
    ...         o[...] = x[...]
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.pairs: list[Pair] = []

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)

    def expression(self, id: str, pallas: str, ours: str | None = None, **more: Any) -> None:
        """Add a pair of expressions over loaded operands; the operands are among the keywords."""
        options = {k: more.pop(k) for k in _OPTIONS if k in more}
        texts = (pallas, pallas if ours is None else ours)
        functions = (_compiled(texts[0], more, _PALLAS_NAMES), _compiled(texts[1], more, _OUR_NAMES))
        self.pairs.append(Pair(id, self.topic, *functions, more, loaded=True, texts=texts, **options))

    def refs(self, id: str, pallas: str, ours: str | None = None, **more: Any) -> None:
        """Add a pair of statements over refs, one or several lines; the operands are among the keywords."""
        options = {k: more.pop(k) for k in _OPTIONS if k in more}
        texts = (pallas, pallas if ours is None else ours)
        functions = (_compiled(texts[0], more, _PALLAS_NAMES), _compiled(texts[1], more, _OUR_NAMES))
        self.pairs.append(Pair(id, self.topic, *functions, more, texts=texts, **options))

    def add(self, **more: Any) -> Callable[[type], type]:
        """Add the functions ``pallas`` and ``ours`` of a class, named after it; if they are one, ``both``."""
        options = {k: more.pop(k) for k in _OPTIONS if k in more}

        def add(cls: type) -> type:
            both = vars(cls).get("both")
            pallas, ours = vars(cls).get("pallas", both), vars(cls).get("ours", both)
            assert pallas is not None and ours is not None
            self.pairs.append(Pair(cls.__name__.replace("_", "-"), self.topic, pallas, ours, more, **options))
            return cls

        return add


_OPTIONS: Final = (
    "row",
    "uses",
    "grid",
    "semantics",
    "collective_id",
    "communicates",
    "metadata",
    "tpu_version",
    "debug_checks",
)
