"""Ops that only move elements keep every bit of them, NaNs' as well, on both engines, whatever memory holds later.

Expected: the same move of the bits as unsigned integers, by NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from mosaic_tpu.sim import simulate
from mosaic_tpu.sim.xla import RULES
from packages.sim.tests.rules_kit import DTYPES, kernel, memref, vector

type Bits = np.ndarray[Any, Any]

SHAPE: Final = (16, 128)
ELEMENTS: Final = ("bf16", "f16", "f8E5M2", "f8E4M3FN", "f32")
ROWS: Final = np.random.default_rng(1).permutation(16)
INDICES: Final = ", ".join(map(str, ROWS))
#: A condition by element.
MASK: Final = np.random.default_rng(2).integers(0, 2, SHAPE).astype(np.int32)
SEMAPHORE: Final = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
PACKED: Final = {"bf16": "i16", "f16": "i16", "f8E5M2": "i8", "f8E4M3FN": "i8", "f32": "i32"}

#: By op: lines that make ``%r`` of ``%x`` and ``%y``, vectors ``V`` of 16 × 128 elements ``E``, and what they do.
#: ``%x_ref`` and ``%y_ref`` (``M``) hold them, ``%t`` is memory, from which ``R`` loads ``%r``. ``%h`` is the lower
#: half of ``%x``, a ``W``; ``%three`` and ``%three_i`` are 3, read from memory; ``I`` is the integer of ``E``'s width.
MOVES: Final[dict[str, tuple[str, Callable[[Bits, Bits], Bits]]]] = {
    "vector.load": ("%r = vector.load %x_ref[%zero, %zero] : M, V", lambda x, y: x),
    "vector.store": ("vector.store %x, %t[%zero, %zero] : M, V\nR", lambda x, y: x),
    "vector.maskedload": (
        "%r = vector.maskedload %x_ref[%zero, %zero], %mask, %y : M, vector<16x128xi1>, V into V",
        lambda x, y: np.where(MASK, x, y),
    ),
    "vector.maskedstore": (
        "vector.store %y, %t[%zero, %zero] : M, V\n"
        "vector.maskedstore %t[%zero, %zero], %mask, %x : M, vector<16x128xi1>, V\nR",
        lambda x, y: np.where(MASK, x, y),
    ),
    "vector.broadcast": (
        "%row = vector.load %x_ref[%three, %zero] : M, vector<1x128xE>\n"
        "%r = vector.broadcast %row : vector<1x128xE> to V",
        lambda x, y: np.broadcast_to(x[3], SHAPE),
    ),
    "vector.shape_cast": (
        "%s = vector.shape_cast %x : V to vector<2x8x128xE>\n%r = vector.shape_cast %s : vector<2x8x128xE> to V",
        lambda x, y: x,
    ),
    "vector.transpose": (
        "%s = vector.transpose %x, [1, 0] : V to vector<128x16xE>\n%r = vector.shape_cast %s : vector<128x16xE> to V",
        lambda x, y: x.T.reshape(SHAPE),
    ),
    "vector.bitcast": (
        "%s = vector.bitcast %x : V to vector<16x128xI>\n%r = vector.bitcast %s : vector<16x128xI> to V",
        lambda x, y: x,
    ),
    "vector.extract": (
        "%e = vector.extract %x[3, 5] : E from V\n%r = vector.broadcast %e : E to V",
        lambda x, y: np.broadcast_to(x[3, 5], SHAPE),
    ),
    "vector.insert": (
        "%row = vector.extract %y[3] : vector<128xE> from V\n%r = vector.insert %row, %x[5] : vector<128xE> into V",
        lambda x, y: np.concatenate([x[:5], y[3:4], x[6:]]),
    ),
    "vector.extract_strided_slice": (
        '%s = "vector.extract_strided_slice"(%x) {offsets = [8, 0], sizes = [8, 128], strides = [1, 1]} '
        ': (V) -> W\n%r = "tpu.concatenate"(%s, %s) {dimension = 0 : i32} : (W, W) -> V',
        lambda x, y: np.concatenate([x[8:], x[8:]]),
    ),
    "vector.insert_strided_slice": (
        '%r = "vector.insert_strided_slice"(%h, %y) {offsets = [3, 0], strides = [1, 1]} : (W, V) -> V',
        lambda x, y: np.concatenate([y[:3], x[8:], y[11:]]),
    ),
    "vector.from_elements": (
        "%e = vector.extract %x[3, 5] : E from V\n%f = vector.extract %y[3, 5] : E from V\n"
        "%p = vector.from_elements %e, %f : vector<2xE>\n%g = vector.extract %p[1] : E from vector<2xE>\n"
        "%r = vector.broadcast %g : E to V",
        lambda x, y: np.broadcast_to(y[3, 5], SHAPE),
    ),
    "vector.to_elements": (
        '%s = "vector.extract_strided_slice"(%x) {offsets = [3, 4], sizes = [1, 2], strides = [1, 1]} '
        ": (V) -> vector<1x2xE>\n%e:2 = vector.to_elements %s : vector<1x2xE>\n%r = vector.broadcast %e#1 : E to V",
        lambda x, y: np.broadcast_to(x[3, 5], SHAPE),
    ),
    "vector.shuffle": (
        f"%r = vector.shuffle %x, %y [{', '.join(str(2 * n) for n in ROWS)}] : V, V",
        lambda x, y: np.concatenate([x, y])[2 * ROWS],
    ),
    "vector.interleave": (
        "%s = vector.interleave %x, %y : V -> vector<16x256xE>\n"
        '%r = "vector.extract_strided_slice"(%s) {offsets = [0, 64], sizes = [16, 128], strides = [1, 1]} '
        ": (vector<16x256xE>) -> V",
        lambda x, y: np.stack([x, y], -1).reshape(16, 256)[:, 64:192],
    ),
    "vector.deinterleave": (
        "%s, %u = vector.deinterleave %x : V -> vector<16x64xE>\n"
        '%r = "tpu.concatenate"(%u, %s) {dimension = 1 : i32} : (vector<16x64xE>, vector<16x64xE>) -> V',
        lambda x, y: np.concatenate([x[:, 1::2], x[:, ::2]], 1),
    ),
    "memref.load": (
        "%e = memref.load %x_ref[%three, %zero] : M\n%r = vector.broadcast %e : E to V",
        lambda x, y: np.broadcast_to(x[3, 0], SHAPE),
    ),
    "memref.store": (
        "%e = vector.extract %x[3, 5] : E from V\nvector.store %y, %t[%zero, %zero] : M, V\n"
        "memref.store %e, %t[%three, %zero] : M\nR",
        lambda x, y: np.where(np.arange(16 * 128).reshape(SHAPE) == 3 * 128, x[3, 5], y),
    ),
    "tpu.strided_load": (
        '%s = "tpu.strided_load"(%x_ref, %zero, %zero) {strides = array<i32: 2, 1>} : (M, index, index) -> W\n'
        '%r = "tpu.concatenate"(%s, %s) {dimension = 0 : i32} : (W, W) -> V',
        lambda x, y: np.concatenate([x[::2], x[::2]]),
    ),
    "tpu.strided_store": (
        "vector.store %y, %t[%zero, %zero] : M, V\n"
        '"tpu.strided_store"(%h, %t, %zero, %zero) {strides = array<i32: 2, 1>} : (W, M, index, index) -> ()\nR',
        lambda x, y: np.stack([x[8:], y[1::2]], 1).reshape(SHAPE),
    ),
    "tpu.vector_load": (
        '%r = "tpu.vector_load"(%x_ref, %zero, %zero) '
        "{operandSegmentSizes = array<i32: 1, 2, 0>, strides = array<i32>} : (M, index, index) -> V",
        lambda x, y: x,
    ),
    "tpu.vector_store": (
        '"tpu.vector_store"(%x, %t, %zero, %zero) '
        "{operandSegmentSizes = array<i32: 1, 1, 2, 0>, strides = array<i32>, add = false} "
        ": (V, M, index, index) -> ()\nR",
        lambda x, y: x,
    ),
    "tpu.enqueue_dma": (
        '"tpu.enqueue_dma"(%x_ref, %t, %sem) {operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>} '
        ": (M, M, SEM) -> ()\n"
        '"tpu.wait_dma2"(%sem, %x_ref, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (SEM, M, M) -> ()\nR',
        lambda x, y: x,
    ),
    "tpu.concatenate": (
        "%g = vector.load %y_ref[%three, %zero] : M, W\n"
        '%r = "tpu.concatenate"(%h, %g) {dimension = 0 : i32} : (W, W) -> V',
        lambda x, y: np.concatenate([x[8:], y[3:11]]),
    ),
    "tpu.broadcast_in_sublanes": (
        "%w = vector.load %x_ref[%zero, %zero] : M, vector<1x128xE>\n"
        '%r = "tpu.broadcast_in_sublanes"(%w) {lane = 5 : i32} : (vector<1x128xE>) -> V',
        lambda x, y: np.broadcast_to(x[0, 5:21, None], SHAPE),
    ),
    "tpu.dynamic_rotate": (
        '%r = "tpu.dynamic_rotate"(%x, %three_i) {dimension = 1 : si32} : (V, i32) -> V',
        lambda x, y: np.roll(x, 3, 1),
    ),
    "tpu.dynamic_gather": (
        "%places = vector.broadcast %three_i : i32 to vector<16x128xi32>\n"
        '%r = "tpu.dynamic_gather"(%x, %places) {dimensions = array<i32: 1>} : (V, vector<16x128xi32>) -> V',
        lambda x, y: np.broadcast_to(x[:, 3:4], SHAPE),
    ),
    "tpu.gather": (
        f'%r = "tpu.gather"(%x) {{indices = array<i32: {INDICES}>, dimension = 0 : i32}} : (V) -> V',
        lambda x, y: x[ROWS],
    ),
    "tpu.sublane_shuffle": (
        f'%r = "tpu.sublane_shuffle"(%x, %y) {{pattern = array<i32: {INDICES}>}} : (V, V) -> V',
        lambda x, y: x[ROWS],
    ),
    "tpu.bitcast": (
        '%s = "tpu.bitcast"(%x) : (V) -> vector<16x128xI>\n%r = "tpu.bitcast"(%s) : (vector<16x128xI>) -> V',
        lambda x, y: x,
    ),
    "arith.select": ("%r = arith.select %mask, %x, %y : vector<16x128xi1>, V", lambda x, y: np.where(MASK, x, y)),
    "arith.bitcast": (
        "%s = arith.bitcast %x : V to vector<16x128xI>\n%r = arith.bitcast %s : vector<16x128xI> to V",
        lambda x, y: x,
    ),
    # Not of those rules, and yet what is made may be what was loaded:
    "tpu.assume_layout": ('%r = "tpu.assume_layout"(%x) : (V) -> V', lambda x, y: x),
    "scf.if": (
        "%is = arith.cmpi eq, %three_i, %three_i : i32\nvector.store %y, %t[%zero, %zero] : M, V\n"
        "scf.if %is {\nvector.store %x, %t[%zero, %zero] : M, V\n}\nR",
        lambda x, y: x,
    ),
}
OTHERS: Final = {"scf.if", "tpu.assume_layout"}
#: The same rule under another name.
SAME: Final = {
    "vector.splat": "vector.broadcast",
    "tpu.reshape": "vector.shape_cast",
    "tpu.transpose": "vector.transpose",
    "tpu.rotate": "tpu.dynamic_rotate",
}
#: Rules without a case, and why.
LEFT_OUT: Final = {
    "tpu.repeat": "the newest dialect has lost it",
    "tpu.load": "the reference engine knows it for 32-bit elements only",
    "tpu.store": "the reference engine knows it for 32-bit elements only",
}


def test_every_rule_that_moves_elements_is_here() -> None:
    moving = {name for name, rule in RULES.items() if rule.moves}
    assert moving == (MOVES.keys() | SAME.keys() | LEFT_OUT.keys()) - OTHERS
    assert all(RULES[name].apply is RULES[like].apply for name, like in SAME.items())


def patterns(element: str, seed: int) -> Bits:
    """Half of them NaNs with bits of all kinds, the others anything."""
    dtype = DTYPES[element]
    bits = np.random.default_rng(seed).integers(0, 1 << 8 * dtype.itemsize, SHAPE, np.uint64)
    nan = np.array(np.nan, dtype).view(f"u{dtype.itemsize}").astype(np.uint64)
    chosen = np.where(np.random.default_rng(seed + 1).integers(0, 2, SHAPE), bits | nan, bits)
    return chosen.astype(f"u{dtype.itemsize}")


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("op", MOVES)
def test_bits_survive(op: str, element: str) -> None:
    lines, move = MOVES[op]
    whole = memref(SHAPE, element)
    words = {
        "R": "%r = vector.load %t[%zero, %zero] : M, V",
        "M": whole,
        "V": vector(SHAPE, element),
        "W": vector((8, 128), element),
        "E": element,
        "I": PACKED[element],
        "SEM": SEMAPHORE,
    }
    loads = """
        %x_given = vector.load %x_in[%zero, %zero] : M, V
        %y_given = vector.load %y_in[%zero, %zero] : M, V
        vector.store %x_given, %x_ref[%zero, %zero] : M, V
        vector.store %y_given, %y_ref[%zero, %zero] : M, V
        %x = vector.load %x_ref[%zero, %zero] : M, V
        %y = vector.load %y_ref[%zero, %zero] : M, V
        %h = "vector.extract_strided_slice"(%x) {offsets = [8, 0], sizes = [8, 128], strides = [1, 1]} : (V) -> W
        %m = vector.load %mask_ref[%zero, %zero] : memref<16x128xi32, #tpu.memory_space<vmem>>, vector<16x128xi32>
        %zeros = arith.constant dense<0> : vector<16x128xi32>
        %mask = arith.cmpi ne, %m, %zeros : vector<16x128xi32>
        %three_i = memref.load %three_ref[%zero] : memref<1xi32, #tpu.memory_space<smem>>
        %three = arith.index_cast %three_i : i32 to index
    """
    stores = """
        %blank = arith.constant dense<0.0> : V
        vector.store %blank, %x_ref[%zero, %zero] : M, V
        vector.store %blank, %y_ref[%zero, %zero] : M, V
        vector.store %blank, %t[%zero, %zero] : M, V
        vector.store %r, %o[%zero, %zero] : M, V
    """
    text = f"{loads}\n{lines}\n{stores}"
    for word, meant in words.items():
        text = re.sub(rf"(?<![%\w]){word}\b|(?<=x){word}(?=>)", meant, text)
    arguments = [
        "%three_ref: memref<1xi32, #tpu.memory_space<smem>>",
        "%mask_ref: memref<16x128xi32, #tpu.memory_space<vmem>>",
        *(f"%{name}: {whole}" for name in ("x_in", "y_in", "o", "x_ref", "y_ref", "t")),
        f"%sem: {SEMAPHORE}",
    ]
    scratch = "attributes {scratch_operands = 4 : i64}"
    source = kernel(arguments, text).replace(") {", f") {scratch} {{", 1)
    x, y = patterns(element, 0), patterns(element, 7)
    dtype = DTYPES[element]
    given = (np.array([3], np.int32), MASK, x.view(dtype), y.view(dtype))
    for engine in ("numpy", "xla"):
        made = simulate(source, *given, outputs=[(SHAPE, dtype)], engine=engine).outputs[0]
        np.testing.assert_array_equal(made.view(x.dtype), move(x, y), err_msg=engine)
