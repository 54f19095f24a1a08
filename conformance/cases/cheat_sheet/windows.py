# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Windows: grids, block shapes, index maps, pipeline modes, memory spaces. The same body on both sides."""

from __future__ import annotations

from jax.experimental import pallas as pl

from conformance.cases.cheat_sheet.pairs import Arg, Pairs, anywhere, out, prefetch, scratch, smem, vmem
from mosaic_tpu.builder import bf16, f32, i8, i32

PAIRS = Pairs("windows")
TRIVIAL, BLOCKS, BUFFERED, SMEM = (
    "pl.BlockSpec(memory_space=…) (trivial window)",
    "pl.BlockSpec(block_shape=(BM, BK), …)",
    "pl.BlockSpec(..., pipeline_mode=Buffered(2))",
    "pltpu.MemorySpace.SMEM",
)
COPY = {"uses": ("load", "store")}
ROWS = {"block": (8, 128), "index_map": lambda i: (i, 0)}


def _copy(id: str, x: Arg, o: Arg, **more) -> None:
    PAIRS.refs(id, "o[...] = x[...]", **COPY, x=x, o=o, **more)


# --- no window, trivial windows --------------------------------------------------------------------------------------

_copy("no-grid", vmem(f32), out(f32), grid=None)
_copy("no-grid-bf16", vmem(bf16, (32, 256)), out(bf16, (32, 256)), grid=None)
_copy("trivial", vmem(f32), out(f32), row=TRIVIAL)
_copy("trivial-grid-of-4", vmem(f32), out(f32), row=TRIVIAL, grid=(4,))
_copy("trivial-grid-of-three", vmem(f32), out(f32), grid=(2, 3, 4))
_copy("trivial-map", vmem(f32, block=(8, 128), index_map=lambda i: (0, 0)), out(f32), grid=(4,))
_copy("rank-1", vmem(f32, (128,)), out(f32, (128,)))
_copy("rank-3", vmem(f32, (2, 8, 128)), out(f32, (2, 8, 128)))
_copy("rank-4", vmem(i8, (2, 1, 32, 128)), out(i8, (2, 1, 32, 128)), grid=(2,))
PAIRS.refs("no-grid-smem", "o[...] = x[s[0]]", **COPY, s=smem(i32), x=vmem(f32), o=out(f32, (128,)), grid=None)
PAIRS.refs(
    "no-grid-scratch", "t[...] = x[...]; o[...] = t[...]", **COPY, x=vmem(f32), o=out(f32), t=scratch(f32), grid=None
)

# --- blocks and index maps -------------------------------------------------------------------------------------------

for dtype in (f32, bf16):
    rows, blocks = (64, 128), {"block": (16, 128), "index_map": lambda i: (i, 0)}
    _copy(f"rows-{dtype}", vmem(dtype, rows, **blocks), out(dtype, rows, **blocks), row=BLOCKS, grid=(4,))
for name, index_map in [
    ("ids", lambda i, j: (i, j)),
    ("swapped", lambda i, j: (j, i)),
    ("first-only", lambda i, j: (i, 0)),
    ("constant", lambda i, j: (1, 0)),
    ("plus", lambda i, j: (i + 1, j)),
    ("times", lambda i, j: (i * 2 + j, 0)),
    ("reversed", lambda i, j: (3 - i, j)),
    ("negated", lambda i, j: (-i, j)),
    ("floor-divide", lambda i, j: (i // 2, j)),
    ("remainder", lambda i, j: (i % 2, j)),
    ("both", lambda i, j: ((i * 4 + j) // 8, (i + j) % 2)),
    ("shift", lambda i, j: (i >> 1, j & 1)),
]:
    window = {"block": (8, 128), "index_map": index_map}
    _copy(f"map-{name}", vmem(f32, (64, 512), **window), out(f32, (8, 128)), row=BLOCKS, grid=(4, 4))
    _copy(f"map-{name}-of-output", vmem(f32, (8, 128)), out(f32, (64, 512), **window), grid=(4, 4))
_copy(
    "three-dimensions",
    vmem(f32, (4, 16, 256), block=(1, 8, 128), index_map=lambda i, j, k: (i, j, k)),
    out(f32, (4, 16, 256), block=(1, 8, 128), index_map=lambda i, j, k: (i, j, k)),
    grid=(4, 2, 2),
)
_copy(
    "ragged",
    vmem(f32, (60, 128), block=(16, 128), index_map=lambda i: (i, 0)),
    out(f32, (60, 128), block=(16, 128), index_map=lambda i: (i, 0)),
    grid=(4,),
)
_copy("default-map", vmem(f32, (8, 128), block=(8, 128)), out(f32), grid=(2,))

# --- index maps that read prefetched scalars -------------------------------------------------------------------------

for name, index_map in [
    ("table", lambda i, table: (table[i], 0)),
    ("table-next", lambda i, table: (table[i + 1], 0)),
    ("table-of-table", lambda i, table: (table[table[i]], 0)),
    ("table-constant", lambda i, table: (table[2], 0)),
    ("table-divided", lambda i, table: (table[i] // 2, 0)),
    ("table-sum", lambda i, table: (table[i] + i, 0)),
    ("unread", lambda i, table: (i, 0)),
]:
    _copy(
        f"map-{name}",
        vmem(f32, (64, 128), block=(8, 128), index_map=index_map),
        out(f32),
        table=prefetch(i32, (8,)),
        grid=(4,),
    )


@PAIRS.add(
    table=prefetch(i32, (8,)),
    sizes=prefetch(i32, (2, 4)),
    grid=(4,),
    uses=("add", "load", "store"),
    x=vmem(f32, (64, 128), block=(8, 128), index_map=lambda i, table, sizes: (table[i] + sizes[1, i], 0)),
    o=out(f32),
)
class two_tables:
    def both(table, x, o):
        o[...] = x[...] + 1.0


# --- pipelining ------------------------------------------------------------------------------------------------------

for count in (1, 2):
    row = BUFFERED if count == 2 else None
    for name, shape in (("rows", (64, 128)), ("whole", (8, 128))):
        window = {"block": (8, 128), "index_map": (lambda i: (i, 0)) if name == "rows" else (lambda i: (0, 0))}
        _copy(f"buffered-{count}-{name}", vmem(f32, shape, buffers=count, **window), out(f32), row=row, grid=(8,))
    _copy(f"buffered-{count}-output", vmem(f32), out(f32, (64, 128), buffers=count, **ROWS), row=row, grid=(8,))
    _copy(
        f"buffered-{count}-prefetch",
        vmem(f32, (64, 128), block=(8, 128), index_map=lambda i, t: (t[i], 0), buffers=count),
        out(f32),
        t=prefetch(i32, (8,)),
        grid=(8,),
    )

# --- squeezed dimensions ---------------------------------------------------------------------------------------------

PAGES = (4, 8, 128)
for name, block, index_map, shape in [
    ("first", (None, 8, 128), lambda i: (i, 0, 0), PAGES),
    ("middle", (2, None, 8, 128), lambda i: (0, i, 0, 0), (2, 4, 8, 128)),
    ("two", (None, None, 8, 128), lambda i: (i, 1, 0, 0), (4, 2, 8, 128)),
    ("constant", (None, 8, 128), lambda i: (1, 0, 0), PAGES),
]:
    page = {"block": block, "index_map": index_map}
    seen = tuple(size for size in block if size is not None)
    _copy(f"squeezed-{name}", vmem(f32, shape, **page), out(f32, seen), grid=(4,))
    _copy(f"squeezed-{name}-output", vmem(f32, seen), out(f32, shape, **page), grid=(4,))
# Copies of parts of them are not here: Pallas slices such a ref wrongly, and MLIR refuses the module.
PAGE = {"block": (None, 8, 128), "index_map": lambda i: (i, 0, 0)}
for name, index in (("row", "2"), ("rows", "2:6"), ("lanes", "1, 0:64"), ("id", "ID"), ("every-other", "::2")):
    theirs, ours = (index.replace("ID", f"{p}.program_id(0)") for p in ("pl", "b.pallas"))
    PAIRS.refs(
        f"squeezed-{name}",
        f"o[{theirs}] = x[{theirs}]",
        f"o[{ours}] = x[{ours}]",
        **COPY,
        x=vmem(f32, PAGES, **PAGE),
        o=out(f32, PAGES, **PAGE),
        grid=(4,),
    )
# --- element windows -------------------------------------------------------------------------------------------------

for name, padding in (("plain", ((0, 0), (0, 0))), ("padded", ((8, 8), (0, 0))), ("low", ((4, 0), (0, 0)))):
    window = {"block": (16, 128), "index_map": lambda i: (i * 8, 0), "padding": padding}
    _copy(f"element-{name}", vmem(f32, (64, 128), **window), out(f32, (16, 128)), grid=(4,))

# --- memory spaces ---------------------------------------------------------------------------------------------------

PAIRS.refs("smem-operand", "o[...] = x[s[1]]", **COPY, row=SMEM, s=smem(i32), x=vmem(f32), o=out(f32, (128,)))
PAIRS.refs(
    "smem-blocks",
    "o[...] = x[s[0, 1]]",
    **COPY,
    row=SMEM,
    s=smem(i32, (8, 128), block=(8, 128), index_map=lambda i: (0, 0)),
    x=vmem(f32),
    o=out(f32, (128,)),
    grid=(2,),
)
PAIRS.refs(
    "smem-rows",
    "o[...] = x[s[0, 1]]",
    **COPY,
    row=SMEM,
    s=smem(i32, (64, 128), block=(8, 128), index_map=lambda i: (i, 0)),
    x=vmem(f32),
    o=out(f32, (128,)),
    grid=(8,),
)
PAIRS.refs("smem-output", "o[1] = s[0]", **COPY, row=SMEM, s=smem(i32), o=out(i32, (4,), space="smem"), grid=(2,))
PAIRS.refs("any-operand", "o[...] = x[...]", **COPY, h=anywhere(f32, (64, 128)), x=vmem(f32), o=out(f32), grid=(2,))
PAIRS.refs("hbm-operand", "o[...] = x[...]", **COPY, h=Arg((64, 128), f32, "hbm"), x=vmem(f32), o=out(f32), grid=(2,))
PAIRS.refs(
    "any-output", "o[...] = x[...]", **COPY, x=vmem(f32), o=out(f32), h=out(f32, (64, 128), space="any"), grid=(2,)
)
PAIRS.refs("prefetch-only", "o[...] = x[t[0]]", **COPY, t=prefetch(i32), x=vmem(f32), o=out(f32, (128,)), grid=(2,))

# --- semantics of the grid -------------------------------------------------------------------------------------------

for semantics in (("parallel",), ("arbitrary",)):
    rows = {"block": (8, 128), "index_map": lambda i: (i, 0)}
    _copy(
        f"semantics-{semantics[0]}",
        vmem(f32, (64, 128), **rows),
        out(f32, (64, 128), **rows),
        grid=(8,),
        semantics=semantics,
    )
for semantics in (("parallel", "arbitrary"), ("arbitrary", "parallel"), ("parallel", "parallel")):
    blocks = {"block": (8, 128), "index_map": lambda i, j: (i, j)}
    _copy(
        f"semantics-{'-'.join(semantics)}",
        vmem(f32, (64, 256), **blocks),
        out(f32, (64, 256), **blocks),
        grid=(8, 2),
        semantics=semantics,
    )

# --- program ids -----------------------------------------------------------------------------------------------------

PROGRAM_ID = "pl.program_id(0)"


@PAIRS.add(row=PROGRAM_ID, x=vmem(f32), o=out(f32), grid=(4,), uses=("load", "store", "add"))
class program_id:
    def pallas(x, o):
        o[...] = x[...] + pl.program_id(0).astype("float32")

    def ours(b, i, x, o):
        o[...] = x[...] + b.pallas.astype(i, f32)


@PAIRS.add(row=PROGRAM_ID, x=vmem(f32), o=out(f32), grid=(4, 2), uses=("load", "store", "mul", "add", "at"))
class program_ids:
    def pallas(x, o):
        o[pl.program_id(0)] = x[pl.program_id(0) * 2 + pl.program_id(1)]

    def ours(b, i, j, x, o):
        o[i] = x[i * 2 + j]


@PAIRS.add(o=out(i32, (4,), space="smem"), grid=(4, 2), uses=("store",))
class num_programs:
    def pallas(o):
        o[0] = pl.num_programs(0)

    def ours(b, o):
        o[0] = 4
