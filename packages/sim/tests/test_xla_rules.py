"""Every op of Pallas's TensorCore lowering has a rule or a reason; the rules that Pallas's jnp kernels do not reach."""

from __future__ import annotations

import inspect
import re
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax._src.pallas.mosaic import lowering
from jaxlib.mlir.dialects import arith, cf, func, math, memref, scf, vector
from jaxlib.mosaic.python import tpu

from mosaic_tpu.sim import _compat, _parse
from mosaic_tpu.sim.xla import RULES, UNSUPPORTED, run_xla
from mosaic_tpu.sim.xla._translation import TERMINATORS
from packages.sim.tests.rules_kit import apply

BF16 = ml_dtypes.bfloat16
DIALECTS: dict[str, Any] = dict(
    arith=arith, cf=cf, func=func, mlir_math=math, memref=memref, scf=scf, vector=vector, tpu=tpu
)


def emitted() -> list[str]:
    """The ops that the lowering's source builds, by its own spelling: ``arith.addi`` or ``scf.IfOp``."""
    found: set[str] = set()
    for dialect, name in re.findall(rf"\b({'|'.join(DIALECTS)})\.(\w+)\(", inspect.getsource(lowering)):
        built = getattr(DIALECTS[dialect], name.rstrip("_"), None) or getattr(DIALECTS[dialect], name, None)
        if isinstance(built, type):
            found.add(getattr(built, "OPERATION_NAME", ""))
        elif callable(built):
            found.add(f"{dialect.removeprefix('mlir_')}.{name.rstrip('_')}")
    return sorted(found - {"", "func.func", "vector.CombiningKind", "tpu.core_type", "math.prod"})


@pytest.mark.parametrize("op", emitted())
def test_op_of_pallas_is_known(op: str) -> None:
    assert op in RULES or op in UNSUPPORTED or op in TERMINATORS


def memref_type(shape: tuple[int, ...], element: str) -> str:
    return f"memref<{'x'.join(map(str, shape))}x{element}, #tpu.memory_space<vmem>>"


def vector_type(shape: tuple[int, ...], element: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{element}>"


ELEMENTS = {"float32": "f32", "int32": "i32", "bfloat16": "bf16", "int16": "i16", "int8": "i8"}


def run(op: str, *inputs: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """One op on whole memrefs: ``$0`` and ``T0`` are its first operand and that one's type, ``R`` the result's."""
    of = [(x.shape, ELEMENTS[x.dtype.name]) for x in inputs]
    result = shape, ELEMENTS[np.dtype(dtype).name]
    arguments = ", ".join(f"%m{i}: {memref_type(*t)}" for i, t in enumerate([*of, result]))
    zeros = [", ".join(["%c0"] * len(s)) for s, _ in [*of, result]]
    loads = [f"%v{i} = vector.load %m{i}[{zeros[i]}] : {memref_type(*t)}, {vector_type(*t)}" for i, t in enumerate(of)]
    text = re.sub(r"\$(\d)", r"%v\1", op)
    text = re.sub(r"\bT(\d)\b", lambda m: vector_type(*of[int(m[1])]), text)
    text = re.sub(r"\bR\b", vector_type(*result), text)
    store = f"vector.store %r, %m{len(of)}[{zeros[-1]}] : {memref_type(*result)}, {vector_type(*result)}"
    lines = ["%c0 = arith.constant 0 : index", *loads, text, store, "return"]
    source = f"func.func @kernel({arguments}) {{\n" + "\n".join(lines) + "\n}"
    context = _compat.new_context()
    module = _parse.parse(_compat.generic_text(_compat.ir.Module.parse(source, context=context)))
    made = run_xla(module, inputs, [(shape, dtype)])
    assert made.flag == 0
    return made.outputs[0]


def integers(shape: tuple[int, ...] = (8, 128), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape, np.int32)


def floats(shape: tuple[int, ...] = (8, 128), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(8, 128), (16, 256), (64, 128), (32, 512)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
@pytest.mark.parametrize(("kind", "numpy"), [("maximumf", np.max), ("minimumf", np.min), ("maxnumf", np.nanmax)])
def test_nan_in_an_extreme_of_many(kind: str, numpy: Any, dtype: Any, axis: int, shape: tuple[int, ...]) -> None:
    x = floats(shape)
    x[np.random.default_rng(1).random(shape) < 0.01] = np.nan
    x = x.astype(dtype)
    expected = numpy(x.astype(np.float32), axis=axis)
    neutral = {"minimumf": "7F80"}.get(kind, "FF80") + ("0000" if dtype is np.float32 else "")
    op = f"""%acc = arith.constant dense<0x{neutral}> : R
    %r = vector.multi_reduction <{kind}>, $0, %acc [{axis}] : T0 to R"""
    found = run(op, x, shape=expected.shape, dtype=dtype)
    assert np.isnan(expected).any() == (kind != "maxnumf")
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize("op", ["all_reduce", "scan"])
@pytest.mark.parametrize(("kind", "numpy"), [("maxf", np.maximum), ("minf", np.minimum)])
def test_nan_in_an_extreme_of_a_row(op: str, kind: str, numpy: Any) -> None:
    x = floats((64, 128))
    x[np.random.default_rng(1).random(x.shape) < 0.01] = np.nan
    text, expected = {
        "all_reduce": (
            '%r = "tpu.all_reduce"($0) {dim = 1 : i64, kind = #tpu.reduction_kind<KIND>} : (T0) -> R',
            np.broadcast_to(numpy.reduce(x, axis=1, keepdims=True), x.shape),
        ),
        "scan": (
            '%r = "tpu.scan"($0) {dimension = 1 : i64, kind = #tpu.reduction_kind<KIND>} : (T0) -> R',
            numpy.accumulate(x, axis=1),
        ),
    }[op]
    found = run(text.replace("KIND", kind), x, shape=expected.shape, dtype=np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("op", "wide"), [("mulsi", np.int64), ("mului", np.uint64)])
def test_extended_product(op: str, wide: Any) -> None:
    x, y = integers(), integers(seed=1)
    narrow = np.uint32 if wide is np.uint64 else np.int32
    product = x.view(narrow).astype(wide) * y.view(narrow).astype(wide)
    found = run(f"%low, %r = arith.{op}_extended $0, $1 : R", x, y, shape=(8, 128), dtype=np.int32)
    np.testing.assert_array_equal(found, (product >> wide(32)).astype(np.uint32).view(np.int32))


@pytest.mark.parametrize("op", ["maxui", "minui", "divui", "remui"])
def test_unsigned(op: str) -> None:
    x, y = integers(), integers(seed=1)
    function = {"maxui": np.maximum, "minui": np.minimum, "divui": np.floor_divide, "remui": np.remainder}[op]
    found = run(f"%r = arith.{op} $0, $1 : R", x, y, shape=(8, 128), dtype=np.int32)
    np.testing.assert_array_equal(found.view(np.uint32), function(x.view(np.uint32), y.view(np.uint32)))


def test_pack_and_unpack_elementwise() -> None:
    x, y = floats(), floats(seed=1)
    pack = '%r = "tpu.pack_elementwise"($0, $1) <{target_type = bf16}> : (T0, T1) -> R'
    packed = run(pack, x, y, shape=(8, 128), dtype=np.int32)
    halves = packed.view(np.uint32)
    low, high = (half.astype(np.uint16).view(BF16) for half in (halves & 0xFFFF, halves >> 16))
    np.testing.assert_array_equal(low, x.astype(BF16))
    np.testing.assert_array_equal(high, y.astype(BF16))
    for index, expected in enumerate((low, high)):
        unpack = f'%r = "tpu.unpack_elementwise"($0) <{{source_type = bf16, index = {index} : i32}}> : (T0) -> R'
        found = run(unpack, packed, shape=(8, 128), dtype=np.float32)
        np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_unpack_sign_extends_integers() -> None:
    x = integers()
    for index in range(4):
        unpack = f'%r = "tpu.unpack_elementwise"($0) <{{source_type = i8, index = {index} : i32}}> : (T0) -> R'
        found = run(unpack, x, shape=(8, 128), dtype=np.int32)
        np.testing.assert_array_equal(found, (x.view(np.uint32) >> (8 * index)).astype(np.uint8).view(np.int8))


@pytest.mark.parametrize("axis", [0, 1])
def test_dynamic_gather(axis: int) -> None:
    x = floats()
    indices = np.random.default_rng(0).integers(0, x.shape[axis], x.shape).astype(np.int32)
    op = f'%r = "tpu.dynamic_gather"($0, $1) <{{dimensions = array<i32: {axis}>}}> : (T0, T1) -> R'
    found = run(op, x, indices, shape=x.shape, dtype=np.float32)
    np.testing.assert_array_equal(found, np.take_along_axis(x, indices, axis))


def test_rotate_with_a_stride() -> None:
    x = floats()
    op = """%n = arith.constant 5 : i32
    %r = "tpu.dynamic_rotate"($0, %n) <{dimension = 1 : si32, stride = 3 : si32, stride_dimension = 0 : si32}> \
: (T0, i32) -> R"""
    found = run(op, x, shape=x.shape, dtype=np.float32)
    np.testing.assert_array_equal(found, np.stack([np.roll(row, 5 + 3 * i) for i, row in enumerate(x)]))


def test_batched_matmul() -> None:
    a, b = floats((2, 8, 128)).astype(BF16), floats((2, 16, 128), seed=1).astype(BF16)
    numbers = "#tpu.dot_dimension_numbers<[2], [2], [1], [1], [0, 0, 0, 1, 1, 1], [0], [0]>"
    op = f"""%acc = arith.constant dense<1.0> : R
    %r = tpu.matmul $0, $1, %acc {{dimension_numbers = {numbers}, transpose_lhs_hint = false}} : T0, T1, R -> R"""
    found = run(op, a, b, shape=(2, 8, 16), dtype=np.float32)
    wide = [x.astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(found, np.einsum("bik,bjk->bij", *wide) + 1, rtol=1e-5, atol=1e-4)


def test_convolution() -> None:
    x, w = floats((1, 8, 8, 128)), floats((3, 3, 128, 128), seed=1)
    numbers = "#tpu.conv_dimension_numbers<0, 3, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2]>"
    op = f"""%acc = arith.constant dense<0.0> : R
    %r = "tpu.conv"($0, $1, %acc) <{{dimension_numbers = {numbers}, window_strides = array<i64: 1, 1>, \
padding = array<i64: 1, 1, 1, 1>, lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, \
window_reversal = array<i1: false, false>, feature_group_count = 1 : i64, batch_group_count = 1 : i64}}> \
: (T0, T1, R) -> R"""
    if "tpu.conv" not in emitted():
        pytest.skip("this JAX does not emit it")
    found = run(op, x, w, shape=(1, 8, 8, 128), dtype=np.float32)
    near = [v.astype(BF16).astype(np.float32) for v in (x, w)]
    expected = lax.conv_general_dilated(
        *map(jnp.asarray, near), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_reductions_start_from_their_accumulator() -> None:
    x = np.abs(floats())
    op = """%acc = arith.constant dense<7.0> : vector<8xf32>
    %s = vector.multi_reduction <add>, $0, %acc [1] : T0 to vector<8xf32>
    %t = vector.shape_cast %s : vector<8xf32> to vector<8x1xf32>
    %r = vector.broadcast %t : vector<8x1xf32> to R"""
    found = run(op, x, shape=(8, 128), dtype=np.float32)
    np.testing.assert_allclose(found[:, 0], x.sum(1) + 7, rtol=1e-5)


@pytest.mark.parametrize("value", [-1, 0, 3, 9])
def test_index_switch(value: int) -> None:
    op = """%k = arith.constant dense<0> : vector<1x1xi32>
    %e = vector.extract $1[0, 0] : i32 from T1
    %i = arith.index_cast %e : i32 to index
    %r = scf.index_switch %i -> R
    case 0 { scf.yield $0 : T0 }
    case 3 { %d = arith.addf $0, $0 : T0 scf.yield %d : T0 }
    default { %z = arith.constant dense<0.0> : T0 scf.yield %z : T0 }"""
    x = floats()
    found = run(op, x, np.full((8, 128), value, np.int32), shape=x.shape, dtype=np.float32)
    np.testing.assert_array_equal(found, x * {0: 1, 3: 2}.get(value, 0))


@pytest.mark.parametrize("bits", [0, 0xFFFF, 0x8000])
def test_stochastic_convert(bits: int) -> None:
    x = floats()
    random = np.full(x.shape, bits, np.int32)
    found = run("%r = tpu.stochastic_convert $0, $1 : T0, T1 -> R", x, random, shape=x.shape, dtype=BF16)
    expected = ((x.view(np.uint32) + np.uint32(bits)) >> np.uint32(16)).astype(np.uint16).view(BF16)
    np.testing.assert_array_equal(found, expected)


# --- ops that Pallas does not emit: against NumPy, and the other engine ----------------------------------------------

NUMBERS = np.array([[-2.5, -0.0, 0.0, 0.3, 1.0, 7.0, np.inf, np.nan]], np.float32)
OTHERS = np.array([[np.nan, 3.0, -1.0, 0.3, 2.0, np.nan, 1.0, np.nan]], np.float32)
UNARY: dict[str, Any] = {
    "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh,
    "math.atanh": np.arctanh,
    "arith.flush_denormals": np.positive,
}
BINARY: dict[str, Any] = {"arith.maximumnumf": np.fmax, "arith.minimumnumf": np.fmin}
FLOATS = "vector<1x8xf32>"


@pytest.mark.parametrize("name", UNARY)
def test_function_of_one_number(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = UNARY[name](NUMBERS.astype(np.float64))
    found = apply(f"%r = {name} %a : {FLOATS}", NUMBERS, out=((1, 8), "f32"))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.skipif(not hasattr(arith, "MaximumNumFOp"), reason="this jaxlib has no such op")
@pytest.mark.parametrize("name", BINARY)
def test_extremes_that_ignore_nan(name: str) -> None:
    found = apply(f"%r = {name} %a, %b : {FLOATS}", NUMBERS, OTHERS, out=((1, 8), "f32"))
    np.testing.assert_array_equal(found, BINARY[name](NUMBERS, OTHERS))


def test_clamp() -> None:
    line = f"""%l = arith.constant dense<-1.0> : {FLOATS}
    %h = arith.constant dense<2.0> : {FLOATS}
    %r = math.clampf %a to [%l, %h] : {FLOATS}"""
    np.testing.assert_array_equal(apply(line, NUMBERS, out=((1, 8), "f32")), np.clip(NUMBERS, -1, 2))


def test_sine_and_cosine() -> None:
    x = NUMBERS[:, :6]
    line = "%s, %c = math.sincos %a : vector<1x6xf32>\n%r = arith.addf %s, %c : vector<1x6xf32>"
    found = apply(line, x, out=((1, 6), "f32"))
    np.testing.assert_allclose(found, np.sin(x.astype(float)) + np.cos(x.astype(float)), rtol=1e-6)


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_normal_numbers(element: str) -> None:
    dtype = np.float32 if element == "f32" else np.float16
    x = np.array([[0.0, 1.0, -2.0, float(np.finfo(dtype).tiny) / 4, -np.inf, np.nan]], dtype)
    found = apply(f"%r = math.isnormal %a : vector<1x6x{element}>", x, out=((1, 6), "i1"))
    np.testing.assert_array_equal(found, [[False, True, True, False, False, False]])


def test_float_to_float_of_one_width() -> None:
    x = np.array([[1.0, 1.00390625, 3e4, 1e5]], np.float32).astype(BF16)
    found = apply("%r = arith.convertf %a : vector<1x4xbf16> to vector<1x4xf16>", x, out=((1, 4), "f16"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, x.astype(np.float32).astype(np.float16))


def test_a_region_gives_its_values() -> None:
    line = """%r = scf.execute_region -> i32 {
      %d = arith.addi %a, %a : i32
      scf.yield %d : i32
    }"""
    assert apply(line, np.int32(21), out="i32") == 42


NUMERALS = np.array([[5, -5, (1 << 24) + 1, -(1 << 24) - 1, (1 << 31) - 1, -(1 << 31), (1 << 30) + 64, 0]], np.int32)


@pytest.mark.parametrize("target", ["f32", "bf16"])
@pytest.mark.parametrize("signed", [True, False])
def test_integers_toward_zero(signed: bool, target: str) -> None:
    """No float between an integer and zero is nearer to it."""
    name = "sitofp" if signed else "uitofp"
    line = f"""%r = "tpu.{name}"(%a) {{rounding_mode = #tpu.rounding_mode<towards_zero>}}
      : (vector<1x8xi32>) -> vector<1x8x{target}>"""
    wide = (NUMERALS if signed else NUMERALS.view(np.uint32)).astype(np.int64)
    kept = 24 if target == "f32" else 8
    shift = np.array([[max(0, int(abs(n)).bit_length() - kept) for n in wide[0]]])
    expected = np.sign(wide) * ((np.abs(wide) >> shift) << shift)
    found = apply(line, NUMERALS, out=((1, 8), target))
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("name", ["arith.addi", "arith.muli", "arith.shrui", "arith.divui"])
def test_integers_of_less_than_a_byte_that_are_known(name: str) -> None:
    """One operand is a splat, as the other way through a rule."""
    a = np.arange(-8, 8).reshape(1, 16).astype(ml_dtypes.int4)
    line = f"%b = arith.constant dense<3> : vector<1x16xi4>\n%r = {name} %a, %b : vector<1x16xi4>"
    wide = a.astype(np.int64)
    expected = {
        "arith.addi": wide + 3,
        "arith.muli": wide * 3,
        "arith.shrui": (wide & 15) >> 3,
        "arith.divui": (wide & 15) // 3,
    }[name]
    found = apply(line, a, out=((1, 16), "i4"))
    np.testing.assert_array_equal(found.astype(np.int64), (expected + 8) % 16 - 8)
