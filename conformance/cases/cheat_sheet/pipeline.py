# pyright: basic
"""What the pairs of pipelines share: `pipeline`, one body over windows of many kinds, and arrays to have windows on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Arg, Pair, Pairs, anywhere, out
from mosaic_tpu.builder import BoundedSlice, Buffered, Builder, Window, f32

#: JAX 0.11 has two buffers of an output at most.
JAX_BUFFERS_OUTPUTS = tuple(int(n) for n in jax.__version__.split(".")[:2]) >= (0, 12)


def hbm(shape: tuple[int, ...] = (32, 128), dtype=f32) -> Arg:
    """An output that stays where XLA puts it."""
    return out(dtype, shape, space="any")


def copy(*refs: Any) -> None:
    """Every output is the sum of the inputs: as many refs as there are windows."""
    *inputs, result = refs
    total = inputs[0][...]
    for other in inputs[1:]:
        total = total + other[...]
    result[...] = total


BlockSpecs = list[tuple[Any, ...]]


def _theirs(entry: tuple[Any, ...]) -> pl.BlockSpec:
    block, index_map, *more = entry
    options = more[0] if more else {}
    mode = options.get("buffers")
    lookahead = {"use_lookahead": True} if options.get("lookahead") else {}
    dims = None if block is None else tuple(pl.BoundedSlice(d[0]) if isinstance(d, tuple) else d for d in block)
    spaces = {"smem": pltpu.SMEM, "vmem": pltpu.VMEM, "hbm": pltpu.HBM}
    return pl.BlockSpec(
        dims,
        index_map if index_map is None else index_map(pl.ds),
        pipeline_mode=None if mode is None else pl.Buffered(mode, **lookahead),
        memory_space=spaces.get(options.get("space")),
    )


def _ours(b: Builder, entry: tuple[Any, ...]) -> Window:
    block, index_map, *more = entry
    options = more[0] if more else {}
    mode = options.get("buffers")
    return Window(
        None if block is None else tuple(BoundedSlice(d[0]) if isinstance(d, tuple) else d for d in block),
        index_map if index_map is None else index_map(b.pallas.ds),
        pipeline_mode=None if mode is None else Buffered(mode, options.get("lookahead", False)),
        memory_space=options.get("space"),
    )


def pipeline(
    pairs: Pairs,
    id: str,
    grid: tuple[int | str, ...],
    ins: BlockSpecs,
    outs: BlockSpecs,
    *,
    body: Callable[..., None] = copy,
    kernel_grid: tuple[int, ...] | None = (1,),
    semantics: tuple[str, ...] | None = None,
    uses: tuple[str, ...] = ("emit_pipeline", "load", "store"),
    args: dict[str, Arg],
    **options: Any,
) -> None:
    """A pair of the same pipeline; ``"n0"`` in the grid stands for ``s[0]``."""
    names = [n for n in args if n != "s"]

    def bounds(s: Any) -> tuple[Any, ...]:
        return tuple(s[int(g[1:])] if isinstance(g, str) else g for g in grid)

    def theirs(**refs: Any) -> None:
        kinds = None if semantics is None else tuple(getattr(pltpu, kind.upper()) for kind in semantics)
        pltpu.emit_pipeline(
            body,
            grid=bounds(refs.get("s")),
            in_specs=[_theirs(e) for e in ins],
            out_specs=[_theirs(e) for e in outs],
            **({} if kinds is None else {"dimension_semantics": kinds}),
            **options,
        )(*[refs[n] for n in names])

    def ours(b: Builder, **refs: Any) -> None:
        b.pallas.emit_pipeline(
            body,
            grid=bounds(refs.get("s")),
            in_specs=[_ours(b, e) for e in ins],
            out_specs=[_ours(b, e) for e in outs],
            dimension_semantics=semantics,
            **options,
        )(*[refs[n] for n in names])

    pairs.pairs.append(
        Pair(
            f"pipeline-{id}",
            "pipelines",
            named(theirs, list(args)),
            named(ours, ["b", *args]),
            args,
            uses=uses,
            grid=kernel_grid,
            texts=(_text(grid, ins, outs, options, "pltpu"), _text(grid, ins, outs, options, "b.pallas")),
        )
    )


def named(function: Callable[..., None], names: list[str]) -> Callable[..., None]:
    """The function with parameters of these names, as a pair asks for them."""
    scope: dict[str, Any] = {"function": function}
    exec(f"def named({', '.join(names)}):\n    function({', '.join(f'{n}={n}' for n in names)})", scope)
    return scope["named"]


def _text(grid: Any, ins: BlockSpecs, outs: BlockSpecs, options: dict[str, Any], who: str) -> str:
    blocks = ", ".join(str(entry[0]) + (f" {entry[2]}" if len(entry) > 2 else "") for entry in (*ins, *outs))
    more = "".join(f", {name}={value}" for name, value in options.items())
    return f"{who}.emit_pipeline(body, grid={grid}, …{more})  # blocks {blocks}"


ROWS = ((8, 128), lambda ds: lambda i: (i, 0))
X32, O32 = anywhere(f32, (32, 128)), hbm()
BOTH = {"x": X32, "o": O32}
TWO = ((8, 128), lambda ds: lambda i, j: (i, j))
X2, O2 = anywhere(f32, (32, 256)), hbm((32, 256))
SQUEEZED = ((None, 8, 128), lambda ds: lambda i: (i, 0, 0))
