# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Pipelines inside a kernel: `pltpu.emit_pipeline`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Arg, Pair, Pairs, anywhere, out, scratch, smem, vmem
from mosaic_tpu.builder import BoundedSlice, Buffered, Builder, Window, bf16, f32, i8, i32

PAIRS = Pairs("pipelines")
#: JAX 0.11 has two buffers of an output at most.
JAX_BUFFERS_OUTPUTS = tuple(int(n) for n in jax.__version__.split(".")[:2]) >= (0, 12)


def hbm(shape: tuple[int, ...] = (32, 128), dtype=f32) -> Arg:
    """An output that stays where XLA puts it."""
    return out(dtype, shape, space="any")


# --- written out -----------------------------------------------------------------------------------------------------


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store"))
class pipeline_rows:
    def pallas(x, o):
        def body(x, o):
            o[...] = x[...] + 1.0

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            o[...] = x[...] + 1.0

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(
    x=anywhere(f32, (16, 256)), y=anywhere(f32, (256, 128)), o=hbm((16, 128)), uses=("eq", "when", "dot", "add", "at")
)
class pipeline_matmul:
    def pallas(x, y, o):
        def body(x, y, o):
            @pl.when(pl.program_id(1) == 0)
            def _():
                o[...] = x[...] @ y[...]

            @pl.when(pl.program_id(1) > 0)
            def _():
                o[...] = o[...] + x[...] @ y[...]

        pltpu.emit_pipeline(
            body,
            grid=(2, 2),
            in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k)), pl.BlockSpec((128, 128), lambda i, k: (k, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, 0))],
        )(x, y, o)

    def ours(b, x, y, o):
        def body(x, y, o):
            k = b.pallas.program_id(1)
            with b.pallas.when(k.eq(0)):
                o[...] = x[...] @ y[...]
            with b.pallas.when(k > 0):
                o[...] = o[...] + x[...] @ y[...]

        b.pallas.emit_pipeline(
            body,
            grid=(2, 2),
            in_specs=[Window((8, 128), lambda i, k: (i, k)), Window((128, 128), lambda i, k: (k, 0))],
            out_specs=[Window((8, 128), lambda i, k: (i, 0))],
        )(x, y, o)


# --- the same body over many windows ---------------------------------------------------------------------------------


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


def _pipeline(
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

    PAIRS.pairs.append(
        Pair(
            f"pipeline-{id}",
            "pipelines",
            _named(theirs, list(args)),
            _named(ours, ["b", *args]),
            args,
            uses=uses,
            grid=kernel_grid,
            texts=(_text(grid, ins, outs, options, "pltpu"), _text(grid, ins, outs, options, "b.pallas")),
        )
    )


def _named(function: Callable[..., None], names: list[str]) -> Callable[..., None]:
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

_pipeline("plain", (4,), [ROWS], [ROWS], args=BOTH)
_pipeline("one-step", (1,), [ROWS], [ROWS], args={"x": anywhere(f32, (16, 128)), "o": hbm((16, 128))})
_pipeline("two-steps", (2,), [ROWS], [ROWS], args={"x": anywhere(f32, (16, 128)), "o": hbm((16, 128))})
_pipeline("two-inputs", (4,), [ROWS, ROWS], [ROWS], args={"x": X32, "y": X32, "o": O32})
_pipeline(
    "bf16",
    (2,),
    [((16, 128), ROWS[1])],
    [((16, 128), ROWS[1])],
    args={"x": anywhere(bf16, (32, 128)), "o": hbm(dtype=bf16)},
)
_pipeline("no-scopes", (4,), [ROWS], [ROWS], args=BOTH, trace_scopes=False)
_pipeline("in-order", (4,), [ROWS], [ROWS], args=BOTH, no_pipelining=True)
for count in (1, 2, 3, 4):
    mode = {"buffers": count}
    _pipeline(f"in-buffered-{count}", (4,), [(*ROWS, mode)], [ROWS], args=BOTH)
for count in (1, 2):
    _pipeline(f"out-buffered-{count}", (4,), [ROWS], [(*ROWS, {"buffers": count})], args=BOTH)
TWO = ((8, 128), lambda ds: lambda i, j: (i, j))
X2, O2 = anywhere(f32, (32, 256)), hbm((32, 256))
_pipeline("two-dimensions", (4, 2), [TWO], [TWO], args={"x": X2, "o": O2})
_pipeline(
    "three-dimensions",
    (2, 2, 2),
    [((8, 128), lambda ds: lambda i, j, k: (i * 2 + j, k))],
    [((8, 128), lambda ds: lambda i, j, k: (i * 2 + j, k))],
    args={"x": X2, "o": O2},
)
_pipeline("one-of-one", (4, 1), [TWO], [TWO], args={"x": X32, "o": O32})
_pipeline("revisited", (4, 2), [TWO], [((8, 128), lambda ds: lambda i, j: (i, 0))], args={"x": X2, "o": O32})
_pipeline("constant-map", (4,), [((8, 128), lambda ds: lambda i: (0, 0))], [ROWS], args=BOTH)
_pipeline("whole", (4,), [((8, 128), lambda ds: lambda i: (0, 0))], [ROWS], args={"x": anywhere(f32), "o": O32})
_pipeline(
    "whole-both",
    (4,),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [((8, 128), lambda ds: lambda i: (0, 0))],
    args={"x": anywhere(f32), "o": hbm((8, 128))},
)
_pipeline("no-block", (4,), [(None, None)], [ROWS], args={"x": anywhere(f32), "o": O32})
_pipeline("computed-map", (4,), [((8, 128), lambda ds: lambda i: (3 - i, 0))], [ROWS], args=BOTH)
_pipeline("dynamic", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), **BOTH})
_pipeline("dynamic-inner", (2, "n0"), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-outer", ("n0", 2), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-both", ("n0", "n1"), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-in-order", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), **BOTH}, no_pipelining=True)
_pipeline("ragged", (4,), [ROWS], [ROWS], args={"x": anywhere(f32, (28, 128)), "o": hbm((28, 128))})
_pipeline("in-vmem", (4,), [ROWS], [ROWS], args={"x": vmem(f32, (32, 128)), "o": out(f32, (32, 128))})
_pipeline("in-vmem-to-hbm", (4,), [ROWS], [ROWS], args={"x": vmem(f32, (32, 128)), "o": O32})
SQUEEZED = ((None, 8, 128), lambda ds: lambda i: (i, 0, 0))
_pipeline("squeezed", (4,), [SQUEEZED], [ROWS], args={"x": anywhere(f32, (4, 8, 128)), "o": O32})
_pipeline("squeezed-both", (4,), [SQUEEZED], [SQUEEZED], args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))})
_pipeline(
    "rank-1",
    (4,),
    [((1024,), lambda ds: lambda i: (i,))],
    [((1024,), lambda ds: lambda i: (i,))],
    args={"x": anywhere(f32, (4096,)), "o": hbm((4096,))},
)
_pipeline(
    "rank-3",
    (4,),
    [((1, 8, 128), lambda ds: lambda i: (i, 0, 0))],
    [((1, 8, 128), lambda ds: lambda i: (i, 0, 0))],
    args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))},
)
_pipeline("bounded", (4,), [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))], [ROWS], args=BOTH)
for count in (2, 3):
    _pipeline(
        f"lookahead-{count}",
        (4, 2),
        [((8, 128), lambda ds: lambda i, j: (i, 0), {"buffers": count, "lookahead": True})],
        [((8, 128), lambda ds: lambda i, j: (i, 0))],
        args=BOTH,
    )

# --- more of them ----------------------------------------------------------------------------------------------------


def twice(x: Any, o: Any, p: Any) -> None:
    """Two outputs of one input."""
    o[...] = x[...]
    p[...] = x[...] * 2.0


def nothing(*_: Any) -> None:
    """A body without an op."""


_pipeline("two-outputs", (4,), [ROWS], [ROWS, ROWS], body=twice, args={**BOTH, "p": hbm()})
_pipeline("empty-body", (4,), [ROWS], [ROWS], body=nothing, args=BOTH)
for count in (3, 4) if JAX_BUFFERS_OUTPUTS else ():
    _pipeline(f"out-buffered-{count}", (8,), [ROWS], [(*ROWS, {"buffers": count})], args=BOTH)
_pipeline(
    "mixed-buffers",
    (4,),
    [(*ROWS, {"buffers": 3}), (*ROWS, {"buffers": 1})],
    [(*ROWS, {"buffers": 1})],
    args={"x": X32, "y": X32, "o": O32},
)
_pipeline("dynamic-buffered-3", ("n0",), [(*ROWS, {"buffers": 3})], [ROWS], args={"s": smem(i32), **BOTH})
_pipeline(
    "dynamic-buffered-1", ("n0",), [(*ROWS, {"buffers": 1})], [(*ROWS, {"buffers": 1})], args={"s": smem(i32), **BOTH}
)
_pipeline("dynamic-one-of-one", ("n0", 1), [TWO], [TWO], args={"s": smem(i32), **BOTH})
_pipeline(
    "dynamic-ragged", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), "x": anywhere(f32, (28, 128)), "o": hbm((28, 128))}
)
_pipeline(
    "dynamic-whole",
    ("n0",),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [ROWS],
    args={"s": smem(i32), "x": anywhere(f32), "o": O32},
)
_pipeline(
    "dynamic-revisited",
    ("n0", 2),
    [TWO],
    [((8, 128), lambda ds: lambda i, j: (i, 0))],
    args={"s": smem(i32), "x": X2, "o": O32},
)
_pipeline("ragged-lanes", (1, 2), [TWO], [TWO], args={"x": anywhere(f32, (8, 200)), "o": hbm((8, 200))})
_pipeline(
    "ragged-bf16",
    (2,),
    [((16, 128), ROWS[1])],
    [((16, 128), ROWS[1])],
    args={"x": anywhere(bf16, (24, 128)), "o": hbm((24, 128), bf16)},
)
_pipeline(
    "ragged-i8",
    (2,),
    [((32, 128), ROWS[1])],
    [((32, 128), ROWS[1])],
    args={"x": anywhere(i8, (40, 128)), "o": hbm((40, 128), i8)},
)
_pipeline(
    "ragged-in-order",
    (4,),
    [ROWS],
    [ROWS],
    args={"x": anywhere(f32, (28, 128)), "o": hbm((28, 128))},
    no_pipelining=True,
)
_pipeline(
    "squeezed-in-order",
    (4,),
    [SQUEEZED],
    [SQUEEZED],
    args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))},
    no_pipelining=True,
)
_pipeline(
    "whole-in-order",
    (4,),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [ROWS],
    args={"x": anywhere(f32), "o": O32},
    no_pipelining=True,
)
_pipeline(
    "squeezed-constant",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0))],
    [ROWS],
    args={"x": anywhere(f32, (4, 32, 128)), "o": O32},
)
_pipeline(
    "squeezed-middle",
    (4,),
    [((8, None, 128), lambda ds: lambda i: (i, 1, 0))],
    [ROWS],
    args={"x": anywhere(f32, (32, 4, 128)), "o": O32},
)
_pipeline(
    "squeezed-two",
    (2, 2),
    [((None, None, 8, 128), lambda ds: lambda i, j: (i, j, 0, 0))],
    [((None, 8, 128), lambda ds: lambda i, j: (i * 2 + j, 0, 0))],
    args={"x": anywhere(f32, (2, 2, 8, 128)), "o": hbm((4, 8, 128))},
)
_pipeline(
    "squeezed-to-rank-1",
    (4,),
    [((None, 1024), lambda ds: lambda i: (i, 0))],
    [((1024,), lambda ds: lambda i: (i,))],
    args={"x": anywhere(f32, (4, 1024)), "o": hbm((4096,))},
)
_pipeline("squeezed-in-vmem", (4,), [SQUEEZED], [ROWS], args={"x": vmem(f32, (4, 8, 128)), "o": O32})
_pipeline(
    "bounded-both",
    (4,),
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    args=BOTH,
)
_pipeline(
    "bounded-computed",
    (4,),
    [(((16,), 128), lambda ds: lambda i: (ds(i * 8, 8 + i), 0))],
    [(((16,), 128), lambda ds: lambda i: (ds(i * 8, 8 + i), 0))],
    args=BOTH,
)
_pipeline(
    "bounded-lanes",
    (2,),
    [((8, (128,)), lambda ds: lambda i: (0, ds(i * 128, 128)))],
    [((8, 128), lambda ds: lambda i: (0, i))],
    args={"x": anywhere(f32, (8, 256)), "o": hbm((8, 256))},
)
_pipeline("bounded-static", (4,), [(((8,), 128), lambda ds: lambda i: (ds(8, 8), 0))], [ROWS], args=BOTH)
_pipeline(
    "bounded-in-vmem",
    (4,),
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    [ROWS],
    args={"x": vmem(f32, (32, 128)), "o": O32},
)
_pipeline(
    "smem-blocks",
    (4,),
    [((8, 128), ROWS[1], {"space": "smem"})],
    [ROWS],
    body=lambda x, o: nothing(),
    args={"x": anywhere(i32, (32, 128)), "o": hbm(dtype=i32)},
)
_pipeline(
    "hbm-blocks",
    (4,),
    [((8, 128), ROWS[1], {"space": "hbm"}), ROWS],
    [ROWS],
    body=lambda h, x, o: copy(x, o),
    args={"h": X32, **BOTH},
)
_pipeline("lookahead-1-d", (4,), [(*ROWS, {"buffers": 2, "lookahead": True})], [ROWS], args=BOTH)
_pipeline("lookahead-4", (4,), [(*ROWS, {"buffers": 4, "lookahead": True})], [ROWS], args=BOTH)
_pipeline(
    "lookahead-dynamic", ("n0",), [(*ROWS, {"buffers": 3, "lookahead": True})], [ROWS], args={"s": smem(i32), **BOTH}
)
_pipeline(
    "lookahead-two",
    (4,),
    [(*ROWS, {"buffers": 2, "lookahead": True}), (*ROWS, {"buffers": 3, "lookahead": True})],
    [ROWS],
    args={"x": X32, "y": X32, "o": O32},
)
for name, semantics, grid, kernel_grid in [
    ("divided", ("parallel",), (4,), (2,)),
    ("rest", ("parallel",), (3,), (2,)),
    ("second", ("arbitrary", "parallel"), (4, 2), (2,)),
    ("alone", ("parallel",), (4,), (1,)),
    ("none", ("parallel", "parallel"), (3, 2), (2,)),
]:
    windows = [ROWS] if len(grid) == 1 else [TWO]
    _pipeline(
        f"cores-{name}",
        grid,
        windows,
        windows,
        kernel_grid=kernel_grid,
        semantics=semantics,
        core_axis=0,
        args={"x": X2 if len(grid) > 1 else X32, "o": O2 if len(grid) > 1 else O32},
    )


@PAIRS.add(t=smem(i32, (8,)), x=anywhere(f32, (32, 128)), o=hbm(), uses=("load", "store"))
class pipeline_table:
    def pallas(t, x, o):
        def body(x, o):
            o[...] = x[...]

        pltpu.emit_pipeline(
            body,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (t[i], 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        )(x, o)

    def ours(b, t, x, o):
        def body(x, o):
            o[...] = x[...]

        b.pallas.emit_pipeline(
            body,
            grid=(4,),
            in_specs=[Window((8, 128), lambda i: (t[i], 0))],
            out_specs=[Window((8, 128), lambda i: (i, 0))],
        )(x, o)


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), acc=scratch(f32), uses=("add", "load", "store", "eq"))
class pipeline_scratch:
    def pallas(x, o, acc):
        def body(x, o, total):
            @pl.when(pl.program_id(0) == 0)
            def _():
                total[...] = x[...]

            total[...] = total[...] + x[...]
            o[...] = total[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o, scratches=[acc])

    def ours(b, x, o, acc):
        def body(x, o, total):
            with b.pallas.when(b.pallas.program_id(0).eq(0)):
                total[...] = x[...]
            total[...] = total[...] + x[...]
            o[...] = total[...]

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o, scratches=[acc])


@PAIRS.add(s=smem(i32), x=anywhere(f32, (4, 32, 128)), o=hbm((4, 32, 128)), uses=("at", "load", "store"))
class pipeline_of_views:
    def pallas(s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[s[0]], o.at[1])

    def ours(b, s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[s[0]], o.at[1])


@PAIRS.add(s=smem(i32), x=anywhere(f32, (32, 128)), o=hbm(), uses=("gt", "load", "store"))
class pipeline_in_control_flow:
    def pallas(s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pipeline = pltpu.emit_pipeline(body, grid=(s[1],), in_specs=[rows], out_specs=[rows])

        @pl.when(s[0] > 0)
        def _():
            pipeline(x, o)

        pipeline(x, o)

    def ours(b, s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = Window((8, 128), lambda i: (i, 0))
        pipeline = b.pallas.emit_pipeline(body, grid=(s[1],), in_specs=[rows], out_specs=[rows])
        with b.pallas.when(s[0] > 0):
            pipeline(x, o)
        pipeline(x, o)


@PAIRS.add(x=anywhere(f32, (2, 32, 128)), o=hbm((2, 32, 128)), uses=("at", "load", "store"))
class pipeline_in_a_loop:
    def pallas(x, o):
        def body(x, o):
            o[...] = x[...]

        def step(n, _):
            rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[n], o.at[n])

        jax.lax.fori_loop(0, 2, step, None)

    def ours(b, x, o):
        def body(x, o):
            o[...] = x[...]

        def step(n):
            rows = Window((8, 128), lambda i: (i, 0))
            b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[n], o.at[n])

        b.pallas.fori_loop(0, 2, step)


@PAIRS.add(x=anywhere(f32, (32, 256)), o=hbm((32, 256)), uses=("load", "store"))
class pipeline_in_a_pipeline:
    def pallas(x, o):
        def inner(x, o):
            o[...] = x[...]

        def outer(x, o):
            half = pl.BlockSpec((8, 128), lambda j: (0, j))
            pltpu.emit_pipeline(inner, grid=(2,), in_specs=[half], out_specs=[half])(x, o)

        rows = pl.BlockSpec((8, 256), lambda i: (i, 0), memory_space=pltpu.HBM)
        pltpu.emit_pipeline(outer, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def inner(x, o):
            o[...] = x[...]

        def outer(x, o):
            half = Window((8, 128), lambda j: (0, j))
            b.pallas.emit_pipeline(inner, grid=(2,), in_specs=[half], out_specs=[half])(x, o)

        rows = Window((8, 256), lambda i: (i, 0), memory_space="hbm")
        b.pallas.emit_pipeline(outer, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(s=smem(i32), x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store", "astype"))
class pipeline_ids:
    def pallas(s, x, o):
        def body(x, o):
            step = pl.program_id(0) + pl.num_programs(0) * pl.program_id(1)
            o[...] = x[...] + step.astype("float32")

        rows = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
        pltpu.emit_pipeline(body, grid=(s[0], 2), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, s, x, o):
        def body(x, o):
            step = b.pallas.program_id(0) + b.pallas.num_programs(0) * b.pallas.program_id(1)
            o[...] = x[...] + b.pallas.astype(step, f32)

        rows = Window((8, 128), lambda i, j: (i, 0))
        b.pallas.emit_pipeline(body, grid=(s[0], 2), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store"))
class pipeline_with_a_span:
    def pallas(x, o):
        def body(x, o):
            with jax.named_scope("mine"):
                o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            b.trace_start(10, "mine")
            o[...] = x[...]
            b.trace_stop()

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


#: Bodies by what they begin with: the constants of the first op come before the span of the body, or after it.
for name, theirs, ours in [
    (
        "zeros",
        lambda x, o: o.__setitem__(..., jnp.zeros((8, 128), jnp.float32)),
        lambda b, x, o: o.__setitem__(..., b.pallas.zeros((8, 128), f32)),
    ),
    (
        "addition",
        lambda x, o: o.__setitem__(pl.program_id(0) + 1, x[0]),
        lambda b, x, o: o.__setitem__(b.pallas.program_id(0) + 1, x[0]),
    ),
    (
        "difference",
        lambda x, o: o.__setitem__(7 - pl.program_id(0), x[0]),
        lambda b, x, o: o.__setitem__(7 - b.pallas.program_id(0), x[0]),
    ),
    (
        "loop",
        lambda x, o: jax.lax.fori_loop(0, 8, lambda i, _: o.__setitem__(i, x[i]), None),
        lambda b, x, o: b.pallas.fori_loop(0, 8, lambda i: o.__setitem__(i, x[i])),
    ),
    (
        "dynamic-loop",
        lambda x, o: jax.lax.fori_loop(0, pl.program_id(0), lambda i, _: o.__setitem__(i, x[i]), None),
        lambda b, x, o: b.pallas.fori_loop(0, b.pallas.program_id(0), lambda i: o.__setitem__(i, x[i])),
    ),
    (
        "copy",
        lambda x, o: pltpu.sync_copy(x.at[pl.ds(0, 4)], o.at[pl.ds(4, 4)]),
        lambda b, x, o: b.pallas.sync_copy(x.at[b.pallas.ds(0, 4)], o.at[b.pallas.ds(4, 4)]),
    ),
    ("scalar-row", lambda x, o: o.__setitem__(3, x[4]), lambda b, x, o: o.__setitem__(3, x[4])),
]:

    def _theirs_begins(x, o, theirs=theirs):
        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(theirs, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def _ours_begins(b, x, o, ours=ours):
        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(lambda x, o: ours(b, x, o), grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    PAIRS.pairs.append(
        Pair(
            f"pipeline-begins-{name}",
            "pipelines",
            _named(_theirs_begins, ["x", "o"]),
            _named(_ours_begins, ["b", "x", "o"]),
            BOTH,
            uses=("emit_pipeline",),
            texts=(name, name),
        )
    )


@PAIRS.add(
    x=anywhere(f32, (4, 32, 128)), y=anywhere(f32, (4, 32, 128)), o=hbm((4, 32, 128)), uses=("at", "load", "store")
)
class pipeline_of_static_views:
    def pallas(x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        once = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[once, rows], out_specs=[rows])(x.at[1], y.at[2], o.at[3])

    def ours(b, x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = Window((8, 128), lambda i: (i, 0))
        once = Window((8, 128), lambda i: (i, 0), pipeline_mode=Buffered(1))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[once, rows], out_specs=[rows])(x.at[1], y.at[2], o.at[3])


_pipeline(
    "squeezed-constant-in-order",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0))],
    [((None, 8, 128), lambda ds: lambda i: (2, i, 0))],
    args={"x": anywhere(f32, (4, 32, 128)), "o": hbm((4, 32, 128))},
    no_pipelining=True,
)
_pipeline(
    "squeezed-constant-buffered-1",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0), {"buffers": 1})],
    [((None, 8, 128), lambda ds: lambda i: (2, i, 0), {"buffers": 1})],
    args={"x": anywhere(f32, (4, 32, 128)), "o": hbm((4, 32, 128))},
)


# --- read and written ------------------------------------------------------------------------------------------------

COUNTS = [1, 2, *([(2, 1), (2, 2), (3, 1), (1, 2), (3, 2)] if JAX_BUFFERS_OUTPUTS else [])]
for counts in COUNTS:
    for steps, index in ((4, lambda i: (i, 0)), (8, lambda i: (i // 2, 0))):

        def _theirs_in_out(x, o, counts=counts, steps=steps, index=index):
            def body(x, o):
                o[...] = o[...] + x[...]

            rows = pl.BlockSpec((8, 128), index)

            def run(allocations):
                pltpu.emit_pipeline(body, grid=(steps,))(x, o, allocations=allocations)

            buffers = [
                pltpu.BufferedRef.input(rows, jnp.float32),
                pltpu.BufferedRef.input_output(pl.BlockSpec((8, 128), index), jnp.float32, counts),
            ]
            pl.run_scoped(run, buffers)

        def _ours_in_out(b, x, o, counts=counts, steps=steps, index=index):
            def body(x, o):
                o[...] = o[...] + x[...]

            rows, both = Window((8, 128), index), Window((8, 128), index, pipeline_mode=Buffered(counts))
            b.pallas.emit_pipeline(body, grid=(steps,), in_specs=[rows], inout_specs=[both])(x, o)

        name = f"pipeline-in-out-{counts}-{steps}".replace(", ", "-").replace("(", "").replace(")", "")
        PAIRS.pairs.append(
            Pair(
                name,
                "pipelines",
                _named(_theirs_in_out, ["x", "o"]),
                _named(_ours_in_out, ["b", "x", "o"]),
                BOTH,
                uses=("emit_pipeline", "add", "floor_divide", "load", "store"),
                texts=(
                    f"pltpu.emit_pipeline(body, …)(x, o, allocations=[…, BufferedRef.input_output(…, {counts})])",
                    f"b.pallas.emit_pipeline(body, …, inout_specs=[Window(…, pipeline_mode=Buffered({counts}))])(x, o)",
                ),
            )
        )

#: Index maps that begin with a function of their own, or with arithmetic.
for name, index in [
    ("floor-divide", lambda i: (i // 2, 0)),
    ("remainder", lambda i: (i % 4, 0)),
    ("shifted", lambda i: (i >> 1, 0)),
    ("masked", lambda i: (i & 3, 0)),
    ("sum", lambda i: (i + 0, 0)),
    ("two", lambda i: (i // 2, i % 1)),
]:
    windows = [((8, 128), lambda ds, index=index: index)]
    _pipeline(f"map-{name}", (4,), windows, windows, args=BOTH)
    mode = {"buffers": 3}
    _pipeline(f"map-{name}-3", (4,), [(*windows[0], mode)], windows, args=BOTH)


@PAIRS.add(
    x=anywhere(f32, (32, 128)), y=anywhere(f32, (32, 128)), o=hbm(), uses=("floor_divide", "add", "load", "store")
)
class pipeline_shared_window:
    def pallas(x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i // 2, 0))
        pltpu.emit_pipeline(body, grid=(8,), in_specs=[rows, rows], out_specs=[rows])(x, y, o)

    def ours(b, x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = Window((8, 128), lambda i: (i // 2, 0))
        b.pallas.emit_pipeline(body, grid=(8,), in_specs=[rows, rows], out_specs=[rows])(x, y, o)
