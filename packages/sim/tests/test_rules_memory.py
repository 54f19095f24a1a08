"""Memory: bitcast, strided, masked and register-wise access, views, against NumPy's own views of the same bytes."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mosaic.python import tpu

from mosaic_tpu.sim.errors import OutOfBoundsError, UnsupportedOpError
from packages.sim.tests.rules_kit import DTYPES, equal, memref, run, vector

RNG: Final = np.random.default_rng(0)
HALF: Final = RNG.integers(-100, 100, (16, 128)).astype(ml_dtypes.bfloat16)


def _words(x: Any) -> Any:
    """Rows 2r in the low and 2r+1 in the high half of a word's row r: by its definition."""
    bits = x.view(np.uint16).astype(np.uint32)
    return (bits[..., 0::2, :] | (bits[..., 1::2, :] << 16)).view(np.int32)


WORDS: Final = _words(HALF)


def _cast(source: str, name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], elements: tuple[str, str]) -> str:
    types = f"({memref(shapes[0], elements[0])}) -> {memref(shapes[1], elements[1])}"
    return f'%{name} = "tpu.memref_bitcast"(%{source}) : {types}'


TO_WORDS: Final = _cast("x", "w", ((16, 128), (8, 128)), ("bf16", "i32"))
TO_HALVES: Final = _cast("x", "w", ((8, 128), (16, 128)), ("i32", "bf16"))


def _go(lines: str, x: Any, out: tuple[tuple[int, ...], str], **options: Any) -> Any:
    """Run lines on ``%x`` and ``%o``, with indices ``%c0`` to ``%c9``."""
    element = {"bfloat16": "bf16", "int32": "i32", "float32": "f32", "int4": "i4", "int8": "i8"}[x.dtype.name]
    constants = "\n".join(f"%c{i} = arith.constant {i} : index" for i in range(10))
    arguments = [f"%x: {memref(x.shape, element)}", f"%o: {memref(*out)}"]
    report = run(f"{constants}\n{lines}", arguments, [x], [(out[0], DTYPES[out[1]])], **options)
    return report.outputs[0]


def _load(shape: tuple[int, ...], element: str, base: tuple[int, ...], indices: str) -> str:
    lines = f"%v = vector.load %w[{indices}] : {memref(base, element)}, {vector(shape, element)}\n"
    zeros = ", ".join(["%c0"] * len(shape))
    return lines + f"vector.store %v, %o[{zeros}] : {memref(shape, element)}, {vector(shape, element)}"


# --- memory in another element width ---------------------------------------------------------------------------------


def test_halves_are_loaded_as_words() -> None:
    equal(_go(f"{TO_WORDS}\n{_load((8, 128), 'i32', (8, 128), '%c0, %c0')}", HALF, ((8, 128), "i32")), WORDS)
    equal(_go(f"{TO_WORDS}\n{_load((3, 128), 'i32', (8, 128), '%c2, %c0')}", HALF, ((3, 128), "i32")), WORDS[2:5])


@pytest.mark.parametrize(("start", "size"), [(0, 16), (2, 4), (3, 1), (3, 4), (5, 3)])
def test_words_are_loaded_as_halves_from_any_row(start: int, size: int) -> None:
    lines = f"{TO_HALVES}\n{_load((size, 128), 'bf16', (16, 128), f'%c{start}, %c0')}"
    equal(_go(lines, WORDS, ((size, 128), "bf16")), HALF[start : start + size])


@pytest.mark.parametrize("start", [2, 3])
def test_rows_are_found_at_run_time(start: int) -> None:
    lines = f"""{TO_HALVES}
    %f = vector.load %x[%c0, %c0] : {memref((8, 128), "i32")}, vector<1x1xi32>
    %s = vector.extract %f[0, 0] : i32 from vector<1x1xi32>
    %z = arith.subi %s, %s : i32
    %n = arith.constant {start} : i32
    %m = arith.addi %z, %n : i32
    %i = arith.index_cast %m : i32 to index
    {_load((4, 128), "bf16", (16, 128), "%i, %c0")}"""
    equal(_go(lines, WORDS, ((4, 128), "bf16")), HALF[start : start + 4])


def test_a_row_of_words_of_halves() -> None:
    lines = f"""{TO_WORDS}
    %row = "tpu.memref_slice"(%w, %i3, %i0) {{operandSegmentSizes = array<i32: 1, 2, 0>}}
      : ({memref((8, 128), "i32")}, i32, i32) -> {memref((1, 128), "i32")}
    %flat = "tpu.memref_squeeze"(%row) : ({memref((1, 128), "i32")}) -> {memref((128,), "i32")}
    %v = vector.load %flat[%c0] : {memref((128,), "i32")}, vector<128xi32>
    vector.store %v, %o[%c0] : {memref((128,), "i32")}, vector<128xi32>"""
    lines = "%i0 = arith.constant 0 : i32\n%i3 = arith.constant 3 : i32\n" + lines
    equal(_go(lines, HALF, ((128,), "i32")), WORDS[3])


def test_scalars_of_a_bitcast() -> None:
    kind, target = memref((16, 128), "bf16"), memref((1, 1), "bf16")
    lines = f"{TO_HALVES}\n%v = memref.load %w[%c7, %c9] : {kind}\nmemref.store %v, %o[%c0, %c0] : {target}"
    equal(_go(lines, WORDS, ((1, 1), "bf16")), HALF[7:8, 9:10])
    kind, target = memref((8, 128), "i32"), memref((1, 1), "i32")
    lines = f"{TO_WORDS}\n%v = memref.load %w[%c5, %c2] : {kind}\nmemref.store %v, %o[%c0, %c0] : {target}"
    equal(_go(lines, HALF, ((1, 1), "i32")), WORDS[5:6, 2:3])


@pytest.mark.parametrize(("start", "size"), [(0, 16), (3, 1), (3, 4), (2, 2)])
def test_halves_are_stored_into_words(start: int, size: int) -> None:
    word = memref((8, 128), "i32")
    lines = f"""%all = vector.load %x[%c0, %c0] : {word}, vector<8x128xi32>
    vector.store %all, %o[%c0, %c0] : {word}, vector<8x128xi32>
    {_cast("o", "w", ((8, 128), (16, 128)), ("i32", "bf16"))}
    %n = arith.constant dense<7.0> : {vector((size, 128), "bf16")}
    vector.store %n, %w[%c{start}, %c0] : {memref((16, 128), "bf16")}, {vector((size, 128), "bf16")}"""
    wanted = HALF.copy()
    wanted[start : start + size] = 7
    equal(_go(lines, WORDS, ((8, 128), "i32")), _words(wanted))


def test_a_masked_store_into_a_bitcast() -> None:
    half, word = memref((16, 128), "bf16"), memref((8, 128), "i32")
    lines = f"""%all = vector.load %x[%c0, %c0] : {half}, vector<16x128xbf16>
    vector.store %all, %o[%c0, %c0] : {half}, vector<16x128xbf16>
    {_cast("o", "w", ((16, 128), (8, 128)), ("bf16", "i32"))}
    %n = arith.constant dense<0> : vector<8x128xi32>
    %m = "tpu.create_mask"(%c1, %c0, %c3, %c4) : (index, index, index, index) -> vector<8x128xi1>
    "tpu.vector_store"(%n, %w, %c0, %c0, %m)
      {{operandSegmentSizes = array<i32: 1, 1, 2, 1>, strides = array<i32>, add = false}}
      : (vector<8x128xi32>, {word}, index, index, vector<8x128xi1>) -> ()"""
    wanted = HALF.copy()
    wanted[2:6, :4] = 0
    equal(_go(lines, HALF, ((16, 128), "bf16")), wanted)


def test_a_bitcast_is_reshaped_by_whole_words() -> None:
    lines = f"""{TO_WORDS}
    %t = "tpu.memref_reshape"(%w) : ({memref((8, 128), "i32")}) -> {memref((4, 2, 128), "i32")}
    %v = vector.load %t[%c1, %c0, %c0] : {memref((4, 2, 128), "i32")}, vector<1x2x128xi32>
    vector.store %v, %o[%c0, %c0, %c0] : {memref((1, 2, 128), "i32")}, vector<1x2x128xi32>"""
    equal(_go(lines, HALF, ((1, 2, 128), "i32")), WORDS.reshape(4, 2, 128)[1:2])


def test_a_bitcast_and_back() -> None:
    lines = f"""{_cast("x", "t", ((16, 128), (8, 128)), ("bf16", "i32"))}
    {_cast("t", "w", ((8, 128), (16, 128)), ("i32", "bf16"))}
    {_load((16, 128), "bf16", (16, 128), "%c0, %c0")}"""
    equal(_go(lines, HALF, ((16, 128), "bf16")), HALF)


def test_nibbles_are_loaded_as_words() -> None:
    x = RNG.integers(-8, 8, (16, 128)).astype(ml_dtypes.int4)
    lines = f"{_cast('x', 'w', ((16, 128), (2, 128)), ('i4', 'i32'))}\n{_load((2, 128), 'i32', (2, 128), '%c0, %c0')}"
    bits = x.astype(np.int64).reshape(2, 8, 128) & 15
    wanted = sum(bits[:, i] << (4 * i) for i in range(8)).astype(np.uint32).view(np.int32)
    equal(_go(lines, x, ((2, 128), "i32")), wanted)


def test_a_load_past_a_bitcast_is_outside() -> None:
    with pytest.raises(OutOfBoundsError, match="dimension 0"):
        _go(f"{TO_WORDS}\n{_load((4, 128), 'i32', (8, 128), '%c5, %c0')}", HALF, ((4, 128), "i32"))


# --- strides, masks, registers ---------------------------------------------------------------------------------------

X: Final = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)


def test_strided_access() -> None:
    kind = memref((16, 128), "f32")
    lines = f"""%v = "tpu.strided_load"(%x, %c1, %c0) {{strides = array<i32: 3, 1>}}
      : ({kind}, index, index) -> vector<5x128xf32>
    "tpu.strided_store"(%v, %o, %c0, %c0) {{strides = array<i32: 2, 1>}}
      : (vector<5x128xf32>, {memref((9, 128), "f32")}, index, index) -> ()"""
    made = _go(lines, X, ((9, 128), "f32"), allow_unwritten=True)
    equal(made[::2], X[1:16:3])


def test_the_whole_span_of_a_stride_is_checked() -> None:
    kind = memref((16, 128), "f32")
    lines = f"""%v = "tpu.strided_load"(%x, %c4, %c0) {{strides = array<i32: 3, 1>}}
      : ({kind}, index, index) -> vector<5x128xf32>
    vector.store %v, %o[%c0, %c0] : {memref((5, 128), "f32")}, vector<5x128xf32>"""
    with pytest.raises(OutOfBoundsError, match="13 long"):
        _go(lines, X, ((5, 128), "f32"))


SUBLANES: Final = "sublane_mask = array<i1: false, true, true, false, true, false, false, true>"


def test_registers_are_loaded_by_sublanes() -> None:
    lines = f"""%v = "tpu.load"(%x, %c1, %c0) {{{SUBLANES}, sublane_stride = 2 : i32}}
      : ({memref((16, 128), "f32")}, index, index) -> vector<8x128xf32>
    "tpu.store"(%v, %o, %c0, %c0) {{operandSegmentSizes = array<i32: 1, 1, 2, 0>, {SUBLANES}}}
      : (vector<8x128xf32>, {memref((8, 128), "f32")}, index, index) -> ()"""
    made = _go(lines, X, ((8, 128), "f32"), allow_unwritten=True)
    equal(made[[1, 2, 4, 7]], X[[3, 5, 9, 15]])


def test_a_sublane_outside_is_reported() -> None:
    lines = f"""%v = "tpu.load"(%x, %c2, %c0) {{{SUBLANES}, sublane_stride = 2 : i32}}
      : ({memref((16, 128), "f32")}, index, index) -> vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {memref((8, 128), "f32")}, vector<8x128xf32>"""
    with pytest.raises(OutOfBoundsError):
        _go(lines, X, ((8, 128), "f32"))


def test_masked_access() -> None:
    kind = memref((16, 128), "f32")
    lines = f"""%m = "tpu.create_mask"(%c1, %c0, %c3, %c4) : (index, index, index, index) -> vector<16x128xi1>
    %n = arith.constant dense<-1.0> : vector<16x128xf32>
    %v = vector.maskedload %x[%c0, %c0], %m, %n : {kind}, vector<16x128xi1>, vector<16x128xf32> into vector<16x128xf32>
    vector.store %v, %o[%c0, %c0] : {kind}, vector<16x128xf32>
    %z = arith.constant dense<5.0> : vector<16x128xf32>
    %k = "tpu.create_mask"(%c0, %c0, %c1, %c2) : (index, index, index, index) -> vector<16x128xi1>
    vector.maskedstore %o[%c0, %c0], %k, %z : {kind}, vector<16x128xi1>, vector<16x128xf32>"""
    wanted = np.full_like(X, -1)
    wanted[1:3, :4] = X[1:3, :4]
    wanted[0, :2] = 5
    equal(_go(lines, X, ((16, 128), "f32")), wanted)


def test_a_store_that_adds() -> None:
    kind = memref((16, 128), "f32")
    lines = f"""%v = vector.load %x[%c0, %c0] : {kind}, vector<16x128xf32>
    vector.store %v, %o[%c0, %c0] : {kind}, vector<16x128xf32>
    "tpu.vector_store"(%v, %o, %c0, %c0)
      {{operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>, add = true}}
      : (vector<16x128xf32>, {kind}, index, index) -> ()"""
    equal(_go(lines, X, ((16, 128), "f32")), 2 * X)


# --- views -----------------------------------------------------------------------------------------------------------


def test_a_memref_of_another_shape() -> None:
    lines = f"""%w = memref.reinterpret_cast %x to offset: [0], sizes: [2048], strides: [1]
      : {memref((16, 128), "f32")} to {memref((2048,), "f32")}
    {_load((256,), "f32", (2048,), "%c9")}"""
    equal(_go(lines, X, ((256,), "f32")), X.reshape(-1)[9:265])


def test_a_memref_of_a_part_is_refused() -> None:
    lines = f"""%w = memref.reinterpret_cast %x to offset: [0], sizes: [1024], strides: [1]
      : {memref((16, 128), "f32")} to {memref((1024,), "f32")}
    %v = vector.load %w[%c0] : {memref((1024,), "f32")}, vector<256xf32>
    vector.store %v, %o[%c0] : {memref((256,), "f32")}, vector<256xf32>"""
    with pytest.raises(UnsupportedOpError, match="part of the elements"):
        _go(lines, X, ((256,), "f32"))


@pytest.mark.skipif(not hasattr(tpu, "memref_memory_space_is"), reason="this jaxlib has no such op")
@pytest.mark.parametrize(("space", "wanted"), [("vmem", 1), ("smem", 0)])
def test_memory_spaces_are_known(space: str, wanted: int) -> None:
    lines = f"""%b = "tpu.memref_memory_space_is"(%x) {{memory_space = #tpu.memory_space<{space}>}}
      : ({memref((16, 128), "f32")}) -> i1
    %n = arith.extui %b : i1 to i32
    %v = vector.broadcast %n : i32 to vector<1xi32>
    vector.store %v, %o[%c0] : {memref((1,), "i32")}, vector<1xi32>"""
    equal(_go(lines, X, ((1,), "i32")), [wanted])


# --- what was loaded stays as it was ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keep",
    [
        "%k = arith.addf %v, %v : vector<1x128xf32>",
        "%k = vector.broadcast %v : vector<1x128xf32> to vector<1x128xf32>",
        '%k = "tpu.dynamic_rotate"(%v, %n) {dimension = 0 : si32} : (vector<1x128xf32>, i32) -> vector<1x128xf32>',
        "%k = vector.shape_cast %v : vector<1x128xf32> to vector<1x128xf32>",
        '%k = "tpu.transpose"(%v) {permutation = array<i64: 0, 1>} : (vector<1x128xf32>) -> vector<1x128xf32>',
        "%k = arith.select %t, %v, %v : vector<1x128xf32>",
        "%k = arith.bitcast %v : vector<1x128xf32> to vector<1x128xf32>",
    ],
)
def test_a_later_store_does_not_change_what_was_loaded(keep: str) -> None:
    kind = memref((16, 128), "f32")
    lines = f"""%all = vector.load %x[%c0, %c0] : {kind}, vector<16x128xf32>
    vector.store %all, %o[%c0, %c0] : {kind}, vector<16x128xf32>
    %n = arith.constant 1 : i32
    %t = arith.constant true
    %v = vector.load %o[%c1, %c0] : {kind}, vector<1x128xf32>
    {keep}
    %z = arith.constant dense<-7.0> : vector<1x128xf32>
    vector.store %z, %o[%c1, %c0] : {kind}, vector<1x128xf32>
    vector.store %k, %o[%c2, %c0] : {kind}, vector<1x128xf32>"""
    wanted = X.copy()
    wanted[2] = X[1] * (2 if "addf" in keep else 1)
    wanted[1] = -7
    equal(_go(lines, X, ((16, 128), "f32")), wanted)


def test_a_later_store_does_not_change_a_lane_of_a_bitcast() -> None:
    x = np.arange(8, dtype=np.int32).reshape(8, 1)
    lines = f"""%all = vector.load %x[%c0, %c0] : {memref((8, 1), "i32")}, vector<8x1xi32>
    vector.store %all, %o[%c0, %c0] : {memref((8, 1), "i32")}, vector<8x1xi32>
    {_cast("o", "w", ((8, 1), (16, 1)), ("i32", "bf16"))}
    %v = vector.load %w[%c0, %c0] : {memref((16, 1), "bf16")}, vector<16x1xbf16>
    %z = arith.constant dense<-1> : vector<8x1xi32>
    vector.store %z, %o[%c0, %c0] : {memref((8, 1), "i32")}, vector<8x1xi32>
    vector.store %v, %w[%c0, %c0] : {memref((16, 1), "bf16")}, vector<16x1xbf16>"""
    equal(_go(lines, x, ((8, 1), "i32")), x)
