"""Small kernels in twins: one that the compiler should refuse, one close to it that it should take.

Both are lines for the builder over refs, as in `conformance.cases.cheat_sheet`. What the compiler says of either is
not written here: the test asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.cases.cheat_sheet.pairs import Arg, Pairs, anywhere, out, prefetch, scratch, sem, smem, vmem
from conformance.harness import pallas
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f16, f32, i4, i8, i16, i32

_MIB_ROWS: Final = 2048  # rows of 128 f32 in a MiB


@dataclass(frozen=True)
class LintCase:
    """A kernel.

    Attributes:
        id: of the row in the report.
        topic: one of those that lint is for.
        line: its body.
        args: operands by name.
        grid: its bounds.
    """

    id: str
    topic: str
    line: str = field(repr=False)
    args: Mapping[str, Arg] = field(repr=False)
    grid: tuple[int, ...] | None = (1,)

    def stablehlo(self) -> str:
        """The program that calls it."""
        pairs = Pairs(self.topic)
        pairs.refs(self.id, self.line, self.line, grid=self.grid, **self.args)
        (pair,) = pairs
        roles = ("scalar_prefetch", "input")
        arrays = [a.to_array() for role in roles for a in self.args.values() if a.role == role]
        return pallas.lower_to_stablehlo(pair.our_call(), *arrays)


CASES: Final[list[LintCase]] = []


def _case(id: str, topic: str, line: str, grid: tuple[int, ...] | None = (1,), **args: Arg) -> None:
    CASES.append(LintCase(id, topic, line, args, grid))


# --- block shapes against tiling -------------------------------------------------------------------------------------


def _window(
    id: str,
    array: tuple[int, ...],
    block: tuple[int, ...],
    dtype: DType = f32,
    index_map: Any = lambda i: (i, 0),
    grid: tuple[int, ...] = (4,),
    **more: Any,
) -> None:
    operand = vmem(dtype, array, block=block, index_map=index_map, **more)
    _case(id, "block shapes", "o[...] = x[...]", grid, x=operand, o=out(dtype, block))


def _columns(i: Any) -> tuple[Any, ...]:
    return 0, i


_window("block-rows-4", (64, 128), (4, 128))
_window("block-rows-8", (64, 128), (8, 128))
_window("block-rows-12-i8", (96, 128), (12, 128), i8)
_window("block-rows-24-i8", (96, 128), (24, 128), i8)
_window("block-rows-7-of-3d", (4, 21, 128), (1, 7, 128), index_map=lambda i: (i, 1, 0))
_window("block-rows-8-of-3d", (4, 21, 128), (1, 8, 128), index_map=lambda i: (i, 1, 0))
_window("block-lanes-64", (64, 256), (64, 64), index_map=_columns)
_window("block-lanes-128", (64, 512), (64, 128), index_map=_columns)
_window("block-lanes-192-bf16", (64, 768), (64, 192), bf16, _columns)
_window("block-lanes-all-192-bf16", (64, 192), (16, 192), bf16)
_window("block-1d-64", (256,), (64,), index_map=lambda i: (i,))
_window("block-1d-128", (512,), (128,), index_map=lambda i: (i,))
_window("block-1d-128-bf16", (512,), (128,), bf16, lambda i: (i,))
_window("block-1d-256-bf16", (1024,), (256,), bf16, lambda i: (i,))
_window("block-small-2-of-4", (4, 128), (2, 128), grid=(2,))
_window("block-small-4-of-4", (4, 128), (4, 128), grid=(1,))
_window("block-fixed-4", (64, 128), (4, 128), index_map=lambda i: (0, 0))
_window("element-window-3", (64, 128), (8, 128), index_map=lambda i: (i * 3, 0), padding=((0, 0), (0, 0)))
_window("element-window-8", (64, 128), (8, 128), index_map=lambda i: (i * 8, 0), padding=((0, 0), (0, 0)))
_window("element-window-low", (64, 128), (8, 128), index_map=lambda i: (i * 8, 0), padding=((8, 0), (0, 0)))
_window("element-window-high", (64, 128), (8, 128), index_map=lambda i: (i * 8, 0), padding=((0, 8), (0, 0)))

# --- out-of-range grid -----------------------------------------------------------------------------------------------

_window("grid-beyond", (64, 128), (32, 128))
_window("grid-within", (128, 128), (32, 128))
_window("grid-ragged", (100, 128), (32, 128))

# --- dynamic rows and lanes ------------------------------------------------------------------------------------------


def _load(id: str, index: str, shape: tuple[int, ...], dtype: DType = f32, of: tuple[int, ...] = (64, 256)) -> None:
    _case(f"load-{id}", "dynamic indices", f"o[...] = x[{index}]", s=smem(i32), x=vmem(dtype, of), o=out(dtype, shape))


def _store(id: str, index: str, shape: tuple[int, ...], dtype: DType = f32, of: tuple[int, ...] = (64, 256)) -> None:
    line = f"o[{index}] = x[...]"
    _case(f"store-{id}", "dynamic indices", line, s=smem(i32), x=vmem(dtype, shape), o=out(dtype, of))


_load("lane", ":, b.pallas.ds(s[0], 128)", (64, 128))
_load("lane-of-64", ":, b.pallas.ds(s[0] * 64, 64)", (64, 64))
_load("lane-of-128", ":, b.pallas.ds(s[0] * 128, 128)", (64, 128))
_load("lane-multiple", ":, b.pallas.ds(b.pallas.multiple_of(s[0], 128), 128)", (64, 128))
_load("lane-static-3", ":, b.pallas.ds(3, 128)", (64, 128))
_store("lane", ":, b.pallas.ds(s[0], 128)", (64, 128), bf16)
_store("lane-of-128", ":, b.pallas.ds(s[0] * 128, 128)", (64, 128), bf16)
_load("rows", "b.pallas.ds(s[0], 8)", (8, 256))
_load("rows-of-4", "b.pallas.ds(s[0] * 4, 8)", (8, 256))
_load("rows-of-8", "b.pallas.ds(s[0] * 8, 8)", (8, 256))
_load("rows-of-8-i8", "b.pallas.ds(s[0] * 8, 8)", (8, 256), i8)
_load("rows-of-32-i8", "b.pallas.ds(s[0] * 32, 32)", (32, 256), i8)
_load("rows-narrow", "b.pallas.ds(s[0], 4)", (4, 128), of=(64, 128))
_load("rows-shifted", "b.pallas.ds(b.shli(s[0], b.constant(3)), 8)", (8, 256))
_load("rows-minimum", "b.pallas.ds(b.minsi(s[0] * 8, b.constant(32)), 8)", (8, 256))
_load("row", "s[0]", (256,))
_load("row-bf16", "s[0]", (256,), bf16)
_load("row-leading-bf16", "s[0], 0", (256,), bf16, (64, 16, 256))
_load("middle-bf16", ":, s[0], :", (4, 256), bf16, (4, 64, 256))
_store("row-bf16", "s[0], :", (256,), bf16)
_store("row", "s[0], :", (256,))
_load("1d", "b.pallas.ds(s[0], 128)", (128,), of=(1024,))
_load("1d-of-128", "b.pallas.ds(s[0] * 128, 128)", (128,), of=(1024,))
_load("stride-2-of-256-lanes", "b.pallas.ds(0, 8, 2)", (8, 256))
_load("stride-2-of-128-lanes", "b.pallas.ds(0, 8, 2)", (8, 128), of=(64, 128))

# --- copies ----------------------------------------------------------------------------------------------------------


def _copy(
    id: str, source: str, shape: tuple[int, ...], dtype: DType = f32, of: tuple[int, ...] = (256, 512), to: str = "v"
) -> None:
    line = f"c = b.pallas.async_copy({source}, {to}, q); c.start(); c.wait(); o[...] = o[...]"
    operands = {"s": smem(i32), "h": anywhere(dtype, of), "o": out(dtype), "v": scratch(dtype, shape), "q": sem()}
    _case(f"copy-{id}", "copies", line, **operands)


_copy("rows-at-3", "h.at[b.pallas.ds(3, 8)]", (8, 512))
_copy("rows-at-8", "h.at[b.pallas.ds(8, 8)]", (8, 512))
_copy("rows-at-3-narrow", "h.at[b.pallas.ds(3, 8)]", (8, 128), of=(256, 128))
_copy("rows-12", "h.at[b.pallas.ds(0, 12)]", (12, 512))
_copy("rows-16", "h.at[b.pallas.ds(0, 16)]", (16, 512))
_copy("row-at-3", "h.at[3]", (512,))
_copy("row-at-3-bf16", "h.at[3]", (512,), bf16)
_copy("rows-2-at-2-bf16", "h.at[b.pallas.ds(2, 2)]", (2, 512), bf16)
_copy("rows-7-bf16", "h.at[b.pallas.ds(0, 7)]", (7, 512), bf16)
_copy("rows-dynamic", "h.at[b.pallas.ds(s[0], 8)]", (8, 512))
_copy("rows-dynamic-of-8", "h.at[b.pallas.ds(s[0] * 8, 8)]", (8, 512))
_copy("rows-dynamic-size", "h.at[b.pallas.ds(0, s[0])]", (256, 512), to="v.at[b.pallas.ds(0, s[0])]")
_copy("rows-dynamic-size-of-8", "h.at[b.pallas.ds(0, s[0] * 8)]", (256, 512), to="v.at[b.pallas.ds(0, s[0] * 8)]")
_copy("to-rows-at-3", "h.at[b.pallas.ds(0, 8)]", (256, 512), to="v.at[b.pallas.ds(3, 8)]")
_copy("to-rows-at-4", "h.at[b.pallas.ds(0, 8)]", (256, 512), to="v.at[b.pallas.ds(4, 8)]")
_copy("lanes-at-64", "h.at[:, b.pallas.ds(64, 128)]", (256, 128))
_copy("lanes-at-128", "h.at[:, b.pallas.ds(128, 128)]", (256, 128))
_copy("lanes-64", "h.at[:, b.pallas.ds(0, 64)]", (256, 64))
_copy("lanes-dynamic", "h.at[:, b.pallas.ds(b.pallas.multiple_of(s[0], 64), 128)]", (256, 128))
_copy("lanes-dynamic-of-128", "h.at[:, b.pallas.ds(s[0] * 128, 128)]", (256, 128))
_copy("lane", "h.at[:, 3]", (256,))
_copy("page-of-100-lanes", "h.at[s[0]]", (32, 100), of=(4, 32, 100))
_copy("head-bf16", "h.at[s[0], b.pallas.ds(0, 8), 1]", (8, 128), bf16, (4, 16, 2, 128))
_copy("head-f32", "h.at[s[0], b.pallas.ds(0, 8), 1]", (8, 128), f32, (4, 16, 2, 128))
_copy("1d-at-64", "h.at[b.pallas.ds(64, 128)]", (128,), of=(4096,))
_copy("1d-at-128", "h.at[b.pallas.ds(128, 128)]", (128,), of=(4096,))
_copy("1d-at-128-bf16", "h.at[b.pallas.ds(128, 256)]", (256,), bf16, (4096,))
_copy("f16", "h", (256, 512), f16)

# --- 1-D vectors -----------------------------------------------------------------------------------------------------

_case("iota-1d", "1-D vectors", "o[...] = b.iota((128,), i32, (0,))", o=out(i32, (128,)))
_case("iota-2d", "1-D vectors", "o[...] = b.iota((1, 128), i32, (1,))", o=out(i32, (1, 128)))
_case("add-1d", "1-D vectors", "o[...] = x[...] + x[...]", x=vmem(f32, (512,)), o=out(f32, (512,)))
_MASK: Final = "b.extui(b.{}, i32)"
_case(
    "mask-column-of-1d",
    "1-D vectors",
    f"o[...] = {_MASK.format('shape_cast(b.cmpi("slt", x[...], y[...]), (8, 1))')}",
    x=vmem(i32, (8,)),
    y=vmem(i32, (8,)),
    o=out(i32, (8, 1)),
)
_case(
    "mask-of-column",
    "1-D vectors",
    "o[...] = b.extui(b.cmpi('slt', b.shape_cast(x[...], (8, 1)), b.shape_cast(y[...], (8, 1))), i32)",
    x=vmem(i32, (8,)),
    y=vmem(i32, (8,)),
    o=out(i32, (8, 1)),
)


def _column(id: str, mask: str) -> None:
    """A mask of one dimension as a column."""
    value = _MASK.format(f"shape_cast({mask}, (8, 1))")
    refs = {"x": vmem(f32, (8, 128)), "y": vmem(f32, (8,)), "z": vmem(f32, (8, 1)), "w": vmem(f32, (1, 8))}
    used = {name: ref for name, ref in refs.items() if f"{name}[" in mask}
    _case(id, "1-D vectors", f"o[...] = {value}", **used, o=out(i32, (8, 1)))


_MAX: Final = "b.pallas.max(x[...], {})"
_column("mask-of-max-of-rows", f"{_MAX.format(1)} > 0.5")
_column("mask-of-max-of-columns", "b.pallas.max(x[:, 0:8], 0) > 0.5")
_column("mask-of-max-and-load", f"{_MAX.format(1)} > y[...]")
_column("mask-of-load-and-max", f"y[...] < {_MAX.format(1)}")
_column("mask-of-sum-with-load", f"{_MAX.format(1)} + y[...] > 0.5")
_column("mask-of-load-with-sum", f"y[...] + {_MAX.format(1)} > 0.5")
_column("masks-of-max-and-load", f"b.andi({_MAX.format(1)} > 0.5, y[...] > 0.5)")
_column("masks-of-load-and-max", f"b.andi(y[...] > 0.5, {_MAX.format(1)} > 0.5)")
_column("mask-of-column-reshaped", "b.shape_cast(z[...], (8,)) > 0.5")
_column("mask-of-row-reshaped", "b.shape_cast(w[...], (8,)) > 0.5")
_column("mask-of-one-number", "b.broadcast_to(b.pallas.max(x[...]), (8,)) > 0.5")
_column("mask-of-number-and-max", f"b.broadcast_to(b.pallas.max(x[...]), (8,)) > {_MAX.format(1)}")

# --- dtype and op ----------------------------------------------------------------------------------------------------


def _op(id: str, value: str, dtype: DType, result: tuple[int, ...] = (64, 128), to: DType | None = None) -> None:
    _case(id, "dtypes", f"o[...] = {value}", x=vmem(dtype, (64, 128)), o=out(to or dtype, result))


_op("add-i8", "b.addi(x[...], x[...])", i8)
_op("add-i16", "b.addi(x[...], x[...])", i16)
_op("add-f8", "b.addf(x[...], x[...])", f8e4m3fn)
_op("add-bf16", "b.addf(x[...], x[...])", bf16)
_op("max-i16", "b.maxsi(x[...], b.shli(x[...], x[...]))", i16)
_op("max-i32", "b.maxsi(x[...], b.shli(x[...], x[...]))", i32)
_op("max-u32", "b.maxui(x[...], b.shli(x[...], x[...]))", i32)
_op("remainder-bf16", "b.remf(x[...], b.exp(x[...]))", bf16)
_op("remainder-f32", "b.remf(x[...], b.exp(x[...]))", f32)
_op("fma-f32", "b.fma(x[...], x[...], x[...])", f32)
_op("multiply-add-f32", "b.addf(b.mulf(x[...], x[...]), x[...])", f32)
_op("reciprocal-bf16", "b.reciprocal(x[...])", bf16)
_op("reciprocal-f32", "b.reciprocal(x[...])", f32)
_op("load-f16", "x[...]", f16)
_op("sum-i16", "b.reshape(b.multi_reduction('add', x[...], b.zeros((128,), i16), (0,)), (1, 128))", i16, (1, 128))
_op("sum-i32", "b.reshape(b.multi_reduction('add', x[...], b.zeros((128,), i32), (0,)), (1, 128))", i32, (1, 128))
_op("to-f8", "b.truncf(x[...], f8e4m3fn)", f32, to=f8e4m3fn)
_op("to-i4", "b.trunci(x[...], i4)", i32, to=i4)
for _name, _dtype in (("bf16", bf16), ("f32", f32)):
    _case(
        f"extract-{_name}",
        "dtypes",
        "o[0] = b.vector_extract(x[...], (0, 0))",
        x=vmem(_dtype),
        o=out(_dtype, (4,), space="smem"),
    )

# --- matmuls ---------------------------------------------------------------------------------------------------------


def _matmul(lhs: DType, rhs: DType, accumulator: DType) -> None:
    _case(
        f"matmul-{lhs}-{rhs}",
        "matmuls",
        f"o[...] = b.matmul(x[...], y[...], b.zeros((256, 256), {accumulator}))",
        x=vmem(lhs, (256, 256)),
        y=vmem(rhs, (256, 256)),
        o=out(accumulator, (256, 256)),
    )


for _lhs, _rhs, _accumulator in [
    (i8, i8, i32),
    (i4, i4, i32),
    (i8, i4, i32),
    (i16, i16, i32),
    (i32, i32, i32),
    (f8e4m3fn, f8e4m3fn, f32),
    (bf16, i8, f32),
    (bf16, f8e4m3fn, f32),
    (f16, f16, f32),
    (f32, bf16, f32),
]:
    _matmul(_lhs, _rhs, _accumulator)

# --- memory ----------------------------------------------------------------------------------------------------------


def _blocks(id: str, mib: float, **more: Any) -> None:
    rows = int(mib * _MIB_ROWS)
    x = vmem(f32, (rows * 4, 128), block=(rows, 128), index_map=lambda i: (i, 0), **more)
    _case(id, "VMEM", "o[...] = x[0:8]", (4,), x=x, o=out(f32))


_blocks("vmem-2-blocks-of-7", 7)
_blocks("vmem-2-blocks-of-12", 12)
_blocks("vmem-1-block-of-12", 12, buffers=1)
_blocks("vmem-2-blocks-of-20", 20)
_blocks("vmem-1-block-of-36", 36, buffers=1)
_case(
    "vmem-scratch-28-and-arrays",
    "VMEM",
    "o[...] = t[0:8] + x[0:8] + y[0:8]",
    x=vmem(f32, (3 * _MIB_ROWS, 128)),
    y=vmem(f32, (3 * _MIB_ROWS, 128)),
    t=scratch(f32, (28 * _MIB_ROWS, 128)),
    o=out(f32),
)
for _id, _of in (("one-after-the-other", "t[0:8]"), ("interleaved", "t[0:8]; o[8:16] = t[8:16] + x[0:8]")):
    _case(
        f"vmem-{_id}",
        "VMEM",
        f"t[...] = x[...]; o[0:8] = {_of}",
        x=vmem(f32, (6 * _MIB_ROWS, 128)),
        t=scratch(f32, (6 * _MIB_ROWS, 128)),
        o=out(f32, (6 * _MIB_ROWS, 128)),
    )
for _mib in (12, 24, 40, 140):
    _rows = _mib * _MIB_ROWS
    _case(f"vmem-scratch-{_mib}", "VMEM", "o[...] = t[0:8]", t=scratch(f32, (_rows, 128)), o=out(f32))
_case("smem-prefetch-1200-kb", "SMEM", "o[...] = x[...]", s=prefetch(i32, (300_000,)), x=vmem(f32), o=out(f32))
_case("smem-prefetch-900-kb", "SMEM", "o[...] = x[...]", s=prefetch(i32, (225_000,)), x=vmem(f32), o=out(f32))
_case("smem-rows-of-8", "SMEM", "o[...] = x[...]", s=smem(i32, (2200, 8)), x=vmem(f32), o=out(f32))
_case("smem-rows-of-2200", "SMEM", "o[...] = x[...]", s=smem(i32, (8, 2200)), x=vmem(f32), o=out(f32))
_case("semaphores-600", "SMEM", "o[...] = x[...]", x=vmem(f32), o=out(f32), q=sem("dma", (600,)))
_case("semaphores-300", "SMEM", "o[...] = x[...]", x=vmem(f32), o=out(f32), q=sem("dma", (300,)))

# --- what lint does not know -----------------------------------------------------------------------------------------

_case(
    "load-rows-of-a-tile-i8",
    "other",
    "o[...] = b.vector_load(b.memref_slice(x, (s[0] * 8, 0), (8, 256)))",
    s=smem(i32),
    x=vmem(i8, (64, 256)),
    o=out(i8, (8, 256)),
)
_case(
    "flat-mask",
    "other",
    f"o[...] = {_MASK.format('shape_cast(b.cmpi("slt", x[...], y[...]), (1024,))')}",
    x=vmem(i32),
    y=vmem(i32),
    o=out(i32, (1024,)),
)
_case(
    "column-of-lanes-bf16",
    "other",
    "o[...] = b.shape_cast(x[...], (16, 256, 1))",
    x=vmem(bf16, (16, 256)),
    o=out(bf16, (16, 256, 1)),
)
