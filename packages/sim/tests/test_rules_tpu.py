"""The tpu dialect's vectors and products: against NumPy, float64, and XLA where it has the op."""

from __future__ import annotations

import math
from typing import Any, Final

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jaxlib.mosaic.python import tpu

from mosaic_tpu.sim.errors import HazardError, UndefinedResultError, UnsupportedOpError
from packages.sim.tests.rules_kit import DTYPES, apply, equal, kernel, memref, run, vector

RNG: Final = np.random.default_rng(0)
X: Final = RNG.permutation(8 * 128).astype(np.float32).reshape(8, 128)
TILE: Final = ((8, 128), "f32")
ROTATE: Final = (
    '%r = "tpu.dynamic_rotate"(%a, %b) {{dimension = {} : si32{}}} : (vector<8x128xf32>, i32) -> vector<8x128xf32>'
)

# --- data movement ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("amount", [0, 3, 127, 200, -1])
def test_rotate_is_roll(axis: int, amount: int) -> None:
    equal(apply(ROTATE.format(axis, ""), X, np.int32(amount), out=TILE), np.roll(X, amount, axis))


@pytest.mark.parametrize("stride", [1, 5])
def test_rows_rotate_by_a_stride(stride: int) -> None:
    line = ROTATE.format(1, f", stride = {stride} : si32, stride_dimension = 0 : si32")
    wanted = np.stack([np.roll(row, 7 + i * stride) for i, row in enumerate(X)])
    equal(apply(line, X, np.int32(7), out=TILE), wanted)


def test_a_rotation_of_a_broadcast_column() -> None:
    column = np.arange(8, dtype=np.float32).reshape(8, 1)
    lines = """%w = vector.broadcast %c : vector<8x1xf32> to vector<8x128xf32>
    %s = arith.addf %w, %a : vector<8x128xf32>
    %t = "tpu.dynamic_rotate"(%w, %b) {dimension = 0 : si32} : (vector<8x128xf32>, i32) -> vector<8x128xf32>
    %u = "tpu.dynamic_rotate"(%t, %b) {dimension = 1 : si32} : (vector<8x128xf32>, i32) -> vector<8x128xf32>
    %r = arith.addf %s, %u : vector<8x128xf32>"""
    wide = np.broadcast_to(column, (8, 128))
    equal(apply(lines, X, np.int32(3), column, out=TILE), wide + X + np.roll(wide, 3, 0))


@pytest.mark.parametrize("axis", [0, 1])
def test_dynamic_gather_is_take_along_axis_modulo_the_size(axis: int) -> None:
    size = X.shape[axis]
    indices = RNG.integers(-size, 2 * size, (8, 128)).astype(np.int32)
    line = (
        f'%r = "tpu.dynamic_gather"(%a, %b) {{dimensions = array<i32: {axis}>}}'
        " : (vector<8x128xf32>, vector<8x128xi32>) -> vector<8x128xf32>"
    )
    equal(apply(line, X, indices, out=TILE), np.take_along_axis(X, indices % size, axis))


def test_iota_over_two_dimensions() -> None:
    made = apply('%r = "tpu.iota"() {dimensions = array<i32: 2, 0>} : () -> vector<4x3x2xi32>', out=((4, 3, 2), "i32"))
    equal(made, np.arange(8).reshape(2, 4).T[:, None, :] + np.zeros((1, 3, 1)))


def test_sublanes_take_lanes_one_after_the_other() -> None:
    equal_rows = np.broadcast_to(np.arange(128, dtype=np.float32), (8, 128)).copy()
    line = '%r = "tpu.broadcast_in_sublanes"(%a) {lane = 5 : i32} : (vector<8x128xf32>) -> vector<8x128xf32>'
    equal(apply(line, equal_rows, out=TILE), np.arange(5, 13)[:, None] + np.zeros((8, 128)))


def test_gather_and_shuffle_of_sublanes() -> None:
    line = (
        '%r = "tpu.gather"(%a) {indices = array<i32: 3, 1, 3>, dimension = 0 : i32}'
        " : (vector<8x128xf32>) -> vector<3x128xf32>"
    )
    equal(apply(line, X, out=((3, 128), "f32")), X[[3, 1, 3]])
    line = (
        '%r = "tpu.sublane_shuffle"(%a, %b) {pattern = array<i32: 7, 6, 5, 4, 11, 10, 9, 8>}'
        " : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>"
    )
    equal(apply(line, X, -X, out=TILE), np.concatenate([X[7:3:-1], -X[3::-1]]))


#: How the extremes of each element type are spelled: jaxlib 0.11 has one word for all types.
MAX_F, MIN_F, MAX_SI, MIN_SI = (
    ("maxf", "minf", "maxsi", "minsi") if hasattr(tpu.ReductionKind, "kMaxF") else ("max", "min", "max", "min")
)

# --- reductions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "function"), [("arg_max", np.argmax), ("arg_min", np.argmin)])
def test_reduce_index_gives_the_first(kind: str, function: Any) -> None:
    a = RNG.integers(0, 5, (8, 128)).astype(np.float32)
    a[3, 40] = np.nan
    line = (
        f'%r = "tpu.reduce_index"(%a) {{axis = 1 : i32, kind = #tpu.reduction_kind<{kind}>}}'
        " : (vector<8x128xf32>) -> vector<8xi32>"
    )
    equal(apply(line, a, out=((8,), "i32")), function(a, 1))


@pytest.mark.parametrize(
    ("kind", "function"), [("sum", np.sum), (MAX_F, np.max), (MIN_F, np.min), ("arg_max", np.argmax)]
)
@pytest.mark.parametrize("axis", [0, 1])
def test_all_reduce_repeats_the_result(kind: str, function: Any, axis: int) -> None:
    element = "i32" if kind == "arg_max" else "f32"
    line = (
        f'%r = "tpu.all_reduce"(%a) {{dim = {axis} : i64, kind = #tpu.reduction_kind<{kind}>}}'
        f" : (vector<8x128xf32>) -> vector<8x128x{element}>"
    )
    wanted = np.broadcast_to(function(X, axis, keepdims=True), (8, 128))
    equal(apply(line, X, out=((8, 128), element)), wanted)


@pytest.mark.parametrize(("kind", "ufunc"), [("sum", np.add), (MAX_SI, np.maximum), (MIN_SI, np.minimum)])
def test_scans(kind: str, ufunc: np.ufunc) -> None:
    a = RNG.integers(-9, 9, (8, 128)).astype(np.int32)
    line = (
        f'%r = "tpu.scan"(%a) {{dimension = 1 : i64, kind = #tpu.reduction_kind<{kind}>}}'
        " : (vector<8x128xi32>) -> vector<8x128xi32>"
    )
    equal(apply(line, a, out=((8, 128), "i32")), ufunc.accumulate(a, 1))


def test_a_masked_scan_repeats_what_it_has() -> None:
    a, mask = np.array([1, 2, 3, 4], np.int32), np.array([False, True, False, True])
    line = (
        '%r = "tpu.scan"(%a, %b) {dimension = 0 : i64, kind = #tpu.reduction_kind<sum>}'
        " : (vector<4xi32>, vector<4xi1>) -> vector<4xi32>"
    )
    equal(apply(line, a, mask, out=((4,), "i32"), allow_unwritten=True)[1:], [2, 2, 6])


@pytest.mark.parametrize("descending", [False, True])
def test_sorts_are_stable_and_put_the_masked_last(descending: bool) -> None:
    keys = np.array([3, 1, 2, 1, 3, 0, 2, 1], np.int32)
    values, mask = np.arange(8, dtype=np.int32), np.array([True] * 5 + [False] + [True] * 2)
    lines = (
        f'%m, %k, %r = "tpu.sort"(%a, %b, %c) {{descending = {str(descending).lower()}}}'
        " : (vector<8xi32>, vector<8xi32>, vector<8xi1>) -> (vector<8xi1>, vector<8xi32>, vector<8xi32>)"
    )
    wanted = sorted((int(v) for v in values if mask[v]), key=lambda v: -keys[v] if descending else keys[v])
    equal(apply(lines, keys, values, mask, out=((8,), "i32")), [*wanted, 5])


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_weird_is_not_finite() -> None:
    a = np.array([[np.nan, np.inf, -np.inf, 1.0, 3.4e38]], np.float32)
    line = '%r = "tpu.weird"(%a) : (vector<1x5xf32>) -> vector<1x5xi1>'
    equal(apply(line, a, out=((1, 5), "i1"))[0], [True, True, True, False, False])


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_logistic(element: str) -> None:
    a = RNG.uniform(-20, 20, (8, 128)).astype(DTYPES[element])
    made = apply(
        f'%r = "tpu.logistic"(%a) : (vector<8x128x{element}>) -> vector<8x128x{element}>', a, out=((8, 128), element)
    )
    wanted = 1 / (1 + np.exp(-a.astype(np.float64)))
    assert np.max(np.abs(made.astype(np.float64) / wanted - 1)) <= (2.0**-21 if element == "f32" else 2.0**-8)


@pytest.mark.parametrize(("exponent", "mantissa"), [(8, 7), (5, 10), (5, 2), (4, 3), (8, 23)])
def test_reduce_precision_is_xlas(exponent: int, mantissa: int) -> None:
    a = np.concatenate(
        [RNG.standard_normal(1000), RNG.standard_normal(1000) * 1e-6, [np.nan, np.inf, 1e38, -0.0, 7e4, 6.1e-5]]
    )
    a = a.astype(np.float32).reshape(1, -1)
    kind = vector(a.shape, "f32")
    line = (
        f'%r = "tpu.reduce_precision"(%a) {{exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32}}'
        f" : ({kind}) -> {kind}"
    )
    equal(apply(line, a, out=(a.shape, "f32")), lax.reduce_precision(jnp.asarray(a), exponent, mantissa))


def test_words_hold_one_element_of_each_source() -> None:
    a, b = X, -X / 8
    lines = (
        '%r = "tpu.pack_elementwise"(%a, %b) {target_type = bf16}'
        " : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xi32>"
    )
    halves = [v.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint32) for v in (a, b)]
    words = (halves[0] | halves[1] << 16).view(np.int32)
    equal(apply(lines, a, b, out=((8, 128), "i32")), words)
    for index, source in enumerate((a, b)):
        line = (
            f'%r = "tpu.unpack_elementwise"(%a) {{source_type = bf16, index = {index} : i32}}'
            " : (vector<8x128xi32>) -> vector<8x128xf32>"
        )
        equal(apply(line, words, out=TILE), source.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("index", range(4))
def test_bytes_of_words_keep_their_sign(index: int) -> None:
    parts = [RNG.integers(-(2**31), 2**31, (8, 128)).astype(np.int32) for _ in range(4)]
    kinds = ", ".join(["vector<8x128xi32>"] * 4)
    lines = f"""%w = "tpu.pack_elementwise"(%a, %b, %c, %d) {{target_type = i8}} : ({kinds}) -> vector<8x128xi32>
    %r = "tpu.unpack_elementwise"(%w) {{source_type = i8, index = {index} : i32}}
      : (vector<8x128xi32>) -> vector<8x128xi32>"""
    equal(apply(lines, *parts, out=((8, 128), "i32")), parts[index].astype(np.int8))


@pytest.mark.parametrize(
    ("element", "unit"), [("bf16", 2.0**-7), ("f8E5M2", 2.0**-2), ("f8E4M3FN", 2.0**-3), ("i4", None)]
)
def test_stochastic_rounding_goes_to_a_neighbour_and_is_right_on_average(element: str, unit: float | None) -> None:
    value = 1.3125 + 1 / 64 + 1 / 512
    a = np.full((64, 128), value, np.float32)
    bits = RNG.integers(0, 2**32, (64, 128), dtype=np.uint32).view(np.int32)
    line = (
        f'%r = "tpu.stochastic_convert"(%a, %b) : (vector<64x128xf32>, vector<64x128xi32>) -> vector<64x128x{element}>'
    )
    made = apply(line, a, bits, out=((64, 128), element)).astype(np.float64)
    step = unit or 1.0
    low = math.floor(value / step) * step
    assert set(np.unique(made)) == {low, low + step}
    assert abs(made.mean() - value) < 4 * step / 2 / math.sqrt(made.size)
    zeros = apply(line, a, np.zeros_like(bits), out=((64, 128), element)).astype(np.float64)
    assert set(np.unique(zeros)) == {low}


def test_stochastic_rounding_keeps_what_is_not_finite() -> None:
    a = np.array([[np.inf, -np.inf, np.nan]], np.float32)
    bits = np.full((1, 3), -1, np.int32)
    line = '%r = "tpu.stochastic_convert"(%a, %b) : (vector<1x3xf32>, vector<1x3xi32>) -> vector<1x3xbf16>'
    equal(apply(line, a, bits, out=((1, 3), "bf16")), a)


def test_conversions_of_the_dialect_round_as_they_are_told() -> None:
    a = np.array([[2.5, -2.5, 1e10, 0.4]], np.float32)
    line = '%r = "tpu.fptosi"(%a) {{rounding_mode = #tpu.rounding_mode<{}>}} : (vector<1x4xf32>) -> vector<1x4xi32>'
    equal(apply(line.format("towards_zero"), a, out=((1, 4), "i32"))[0], [2, -2, 2**31 - 1, 0])
    equal(apply(line.format("to_nearest_even"), a, out=((1, 4), "i32"))[0], [2, -2, 2**31 - 1, 0])
    b = np.array([[1.00390625, -1.01171875]], np.float32)
    line = '%r = "tpu.truncf"(%a) {{rounding_mode = #tpu.rounding_mode<{}>}} : (vector<1x2xf32>) -> vector<1x2xbf16>'
    equal(apply(line.format("towards_zero"), b, out=((1, 2), "bf16"))[0], [1.0, -1.0078125])
    equal(apply(line.format("to_nearest_even"), b, out=((1, 2), "bf16"))[0], [1.0, -1.015625])


# --- random numbers --------------------------------------------------------------------------------------------------

BITS: Final = '%r = "tpu.prng_random_bits"() : () -> vector<64x128xi32>'
SEED: Final = '"tpu.prng_set_seed_32"(%a, %b) : (i32, i32) -> ()\n'


def _bits(*seeds: int, lines: str = SEED + BITS, **options: Any) -> Any:
    return apply(lines, *(np.int32(s) for s in seeds), out=((64, 128), "i32"), **options)


def test_random_bits_come_from_their_seeds() -> None:
    first = _bits(1, 2)
    equal(first, _bits(1, 2))
    assert (first != _bits(1, 3)).mean() > 0.99
    assert (first != _bits(1, 2, lines=SEED + BITS.replace("%r", "%q") + "\n" + BITS)).mean() > 0.99


def test_random_bits_are_even() -> None:
    ones = np.unpackbits(_bits(1, 2).view(np.uint8)).mean()
    assert abs(ones - 0.5) < 4 * 0.5 / math.sqrt(64 * 128 * 32)


def test_without_seeds_the_simulation_has_one() -> None:
    equal(_bits(lines=BITS, seed=5), _bits(lines=BITS, seed=5))
    assert (_bits(lines=BITS, seed=5) != _bits(lines=BITS, seed=6)).any()


# --- products --------------------------------------------------------------------------------------------------------

DOT: Final = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"


def _matmul(a: Any, b: Any, acc: str, precision: str = "") -> Any:
    kinds = [
        vector(v.shape, {"float32": "f32", "bfloat16": "bf16", "int8": "i8", "int4": "i4"}[v.dtype.name])
        for v in (a, b)
    ]
    out = vector((a.shape[0], b.shape[1]), acc)
    start = "1" if acc == "i32" else "1.0"
    lines = f"""%s = arith.constant dense<{start}> : {out}
    %r = "tpu.matmul"(%a, %b, %s) {{dimension_numbers = {DOT}, transpose_lhs_hint = false{precision}}}
      : ({kinds[0]}, {kinds[1]}, {out}) -> {out}"""
    return apply(lines, a, b, out=((a.shape[0], b.shape[1]), acc))


def test_f32_operands_are_rounded_to_bf16_unless_told_otherwise() -> None:
    a, b = (RNG.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b.astype(np.float64) + 1
    halves = [v.astype(ml_dtypes.bfloat16).astype(np.float64) for v in (a, b)]
    scale = np.abs(a) @ np.abs(b) * 128 * 2.0**-24
    assert (np.abs(_matmul(a, b, "f32") - (halves[0] @ halves[1] + 1)) <= scale).all()
    assert (np.abs(_matmul(a, b, "f32", ", precision = #tpu.contract_precision<fp32>") - exact) <= scale).all()
    assert np.abs(_matmul(a, b, "f32") - exact).max() > 2.0**-8


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.int4])
def test_products_of_integers_are_exact(dtype: Any) -> None:
    low = int(ml_dtypes.iinfo(dtype).min)
    a = np.full((8, 512), low).astype(dtype)
    b = RNG.integers(low, -low, (512, 128)).astype(dtype)
    equal(_matmul(a, b, "i32"), a.astype(np.int64) @ b.astype(np.int64) + 1)


CONVOLUTIONS: Final = [
    {},
    {"window_strides": (2, 1), "padding": ((1, 1), (0, 2))},
    {"lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "padding": ((0, 0), (-1, 1))},
    {"feature_group_count": 2},
    {"batch_group_count": 2},
]


@pytest.mark.skipif(not hasattr(tpu, "conv"), reason="no such op")
@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_convolutions_are_xlas(options: dict[str, Any]) -> None:
    features = 4 // options.get("feature_group_count", 1)
    a = RNG.integers(-3, 4, (2, 9, 8, 4)).astype(np.float32)
    b = RNG.integers(-3, 4, (3, 2, features, 6)).astype(np.float32)
    full = {
        "window_strides": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
    } | options
    wanted = np.asarray(lax.conv_general_dilated(a, b, dimension_numbers=("NHWC", "HWIO", "NHWC"), **full))
    flat = ", ".join(str(p) for pair in full["padding"] for p in pair)
    numbers = {n: ", ".join(map(str, full[n])) for n in ("window_strides", "lhs_dilation", "rhs_dilation")}
    out = vector(wanted.shape, "f32")
    attributes = f"""dimension_numbers = #tpu.conv_dimension_numbers<0, 3, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2]>,
      window_strides = array<i64: {numbers["window_strides"]}>, padding = array<i64: {flat}>,
      lhs_dilation = array<i64: {numbers["lhs_dilation"]}>, rhs_dilation = array<i64: {numbers["rhs_dilation"]}>,
      window_reversal = array<i1: false, false>, feature_group_count = {full.get("feature_group_count", 1)} : i64,
      batch_group_count = {full.get("batch_group_count", 1)} : i64"""
    lines = f"""%s = arith.constant dense<0.0> : {out}
    %r = "tpu.conv"(%a, %b, %s) {{{attributes}}}
      : ({vector(a.shape, "f32")}, {vector(b.shape, "f32")}, {out}) -> {out}"""
    equal(apply(lines, a, b, out=(wanted.shape, "f32")), wanted)


# --- the MXU by hand -------------------------------------------------------------------------------------------------

A: Final = RNG.integers(-4, 5, (16, 128)).astype(ml_dtypes.bfloat16)
B: Final = RNG.integers(-4, 5, (128, 128)).astype(ml_dtypes.bfloat16)
PUSH: Final = (
    '"tpu.matmul_push_rhs"(%b) {mxu_index = 0 : i32, staging_register = 1 : i32, transpose = false}'
    " : (vector<128x128xbf16>) -> ()\n"
)
FEED: Final = (
    '"tpu.matmul_acc_lhs"(%a) {acc = 4 : i32, mxu_index = 0 : i32, load_staged_rhs = 1 : i32}'
    " : (vector<16x128xbf16>) -> ()\n"
)
AGAIN: Final = FEED.replace(", load_staged_rhs = 1 : i32", "")
POP: Final = '%r = "tpu.matmul_pop"() {acc = 4 : i32, mxu_index = 0 : i32} : () -> vector<16x128xf32>'


def _mxu(lines: str, **options: Any) -> Any:
    return apply(lines, A, B, out=((16, 128), "f32"), **options)


def test_products_gather_in_an_accumulator() -> None:
    product = A.astype(np.float64) @ B.astype(np.float64)
    equal(_mxu(PUSH + FEED + POP), product)
    equal(_mxu(PUSH + FEED + AGAIN + POP), 2 * product)
    equal(_mxu(PUSH.replace("= false", "= true") + FEED + POP), A.astype(np.float64) @ B.astype(np.float64).T)


def test_results_queue_up() -> None:
    enqueue = (
        '"tpu.matmul_lhs_fifo"(%a) {mxu_index = 0 : i32, load_staged_rhs = 1 : i32} : (vector<16x128xbf16>) -> ()\n'
    )
    dequeue = '%r = "tpu.matmul_pop_fifo"() {mxu_index = 0 : i32} : () -> vector<16x128xf32>'
    equal(_mxu(PUSH + enqueue + dequeue), A.astype(np.float64) @ B.astype(np.float64))
    with pytest.raises(UndefinedResultError, match="queue of 0"):
        _mxu(dequeue)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (FEED + POP, "nothing was pushed"),
        (AGAIN + POP, "without a right-hand side"),
        (PUSH + PUSH + FEED + POP, "written twice"),
        (PUSH + FEED + PUSH + POP, "never loaded"),
        (PUSH + FEED + POP + "\n" + AGAIN, "never taken"),
        (POP, "nothing was added"),
    ],
)
def test_the_mxu_is_not_misused(lines: str, what: str) -> None:
    with pytest.raises(UndefinedResultError, match=what):
        _mxu(lines)


# --- the grid --------------------------------------------------------------------------------------------------------


def test_a_kernel_knows_how_large_its_grid_is() -> None:
    out = memref((1,), "i32", "smem")
    text = f"""module {{ func.func @k(%i: i32, %o: {out}) attributes {{
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 3>,
      scalar_prefetch = 0 : i64, scratch_operands = 0 : i64, window_params = [{{}}]}} {{
      %c0 = arith.constant 0 : index
      %n = "tpu.iteration_bound"() {{dim = 0 : i32}} : () -> i32
      memref.store %n, %o[%c0] : {out}
      return }} }}"""
    from mosaic_tpu.sim import simulate

    assert simulate(text, outputs=[((1,), np.int32)]).outputs[0][0] == 3


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_sparse_core_op_says_so() -> None:
    with pytest.raises(UnsupportedOpError, match="SparseCore"):
        run('"tpu.barrier"(%zero) : (index) -> ()', [f"%o: {memref((8, 128), 'f32')}"], [], [((8, 128), np.float32)])


def test_an_unknown_form_says_so() -> None:
    line = '%r = "tpu.broadcast_in_sublanes"(%a) {lane = 0 : i32} : (vector<128xf32>) -> vector<8x128xf32>'
    with pytest.raises(UnsupportedOpError, match="two dimensions only"):
        apply(line, X[0], out=TILE)


def test_the_kit_makes_a_module() -> None:
    assert "func.func @k" in kernel([], "")
    assert issubclass(UndefinedResultError, HazardError)
