"""Programs around kernels: what XLA computes on either side, in what order, and what is refused.

The kernels are Pallas's, lowered for a TPU; a NumPy function stands for what they compute, and the expected values come
from the same function with ``interpret=True``, or from NumPy.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm, make_group_metadata
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from mosaic_tpu.sim import read, simulate
from mosaic_tpu.sim._program import KernelCall, calls_of, inputs_of, run_program
from mosaic_tpu.sim.errors import InputError, MissingJaxError, ModuleFormatError, UnsupportedOpError
from packages.sim.tests.rules_kit import kernel

BODY = base64.b64encode(b"body").decode()
CONFIG = json.dumps({"custom_call_config": {"body": BODY}}).replace('"', "\\22")
DTYPES = [
    ("f32", np.float32),
    ("f64", np.float64),
    ("f16", np.float16),
    ("bf16", ml_dtypes.bfloat16),
    ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
    ("f8E5M2", ml_dtypes.float8_e5m2),
    ("i1", np.bool_),
    ("i4", ml_dtypes.int4),
    ("i8", np.int8),
    ("i32", np.int32),
    ("i64", np.int64),
    ("ui4", ml_dtypes.uint4),
    ("ui8", np.uint8),
    ("ui32", np.uint32),
]


def double_kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def sum_and_difference_kernel(x_ref: Any, y_ref: Any, s_ref: Any, d_ref: Any) -> None:
    s_ref[...] = x_ref[...] + y_ref[...]
    d_ref[...] = x_ref[...] - y_ref[...]


def double(x: jax.Array, interpret: bool = False) -> jax.Array:
    return pl.pallas_call(double_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def sum_and_difference(x: jax.Array, y: jax.Array, interpret: bool = False) -> Sequence[jax.Array]:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(sum_and_difference_kernel, out_shape=(shape, shape), interpret=interpret)(x, y)


def in_numpy(call: KernelCall, operands: list[np.ndarray]) -> list[np.ndarray]:
    if call.kernel_name == "double_kernel":
        return [operands[0] * 2]
    x, y = operands
    return [x + y, x - y]


def lower(fn: Callable[..., Any], *arrays: Any) -> Any:
    shapes = [jax.ShapeDtypeStruct(np.shape(array), np.asarray(array).dtype) for array in arrays]
    return jax.jit(fn).trace(*shapes).lower(lowering_platforms=("tpu",))


def program(signature: str, body: str) -> str:
    """A module whose main has this signature and these lines, `CALL` in them the custom call's attributes."""
    call = f'{{backend_config = "{CONFIG}", kernel_name = "k"}}'
    return f"module {{ func.func public @main{signature} {{\n{body.replace('CALL', call)}\n}} }}"


def same(call: KernelCall, operands: list[np.ndarray]) -> list[np.ndarray]:
    return operands


def not_called(call: KernelCall, operands: list[np.ndarray]) -> list[np.ndarray]:
    raise AssertionError("the kernel must not run")


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)


def surrounded(x: jax.Array, y: jax.Array, interpret: bool = False) -> tuple[jax.Array, ...]:
    """Kernels before, after and beside one another, with ops of many kinds around them."""
    padded = jnp.pad(jnp.sort(x, axis=0), ((0, 0), (0, 128)))
    doubled = double(padded, interpret)[:, :128] + y
    total, difference = sum_and_difference(doubled, jnp.flip(x).reshape(8, 128), interpret)
    again = double(jnp.cumsum(total.sum(axis=1))[:, None] * difference, interpret)
    return again.T, difference, y, jnp.float32(3), difference.sum()


# --- what is computed ----------------------------------------------------------------------------------------------


def test_several_kernels_with_other_ops_around_them(x: np.ndarray) -> None:
    y = x[::-1] * 3
    got = run_program(lower(surrounded, x, y), [x, y], in_numpy)
    wanted = surrounded(jnp.asarray(x), jnp.asarray(y), interpret=True)
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


@pytest.mark.parametrize("form", ["text", "Lowered", "Exported"])
def test_a_program_comes_in_many_forms(form: str, x: np.ndarray) -> None:
    def around(x: jax.Array) -> jax.Array:
        return double(x + 1) - 1

    source: Any = lower(around, x)
    if form == "text":
        source = source.as_text()
    if form == "Exported":
        unchecked = [jax.export.DisabledSafetyCheck.custom_call("tpu_custom_call")]
        source = jax.export.export(jax.jit(around), platforms=["tpu"], disabled_checks=unchecked)(x)
    (got,) = run_program(source, [x], in_numpy)
    np.testing.assert_array_equal(got, (x + 1) * 2 - 1)
    np.testing.assert_array_equal(simulate(source, x).outputs[0], (x + 1) * 2 - 1)
    assert read(source).name == "double_kernel"


def test_a_function_called_twice_holds_two_kernels(x: np.ndarray) -> None:
    jitted = jax.jit(double)
    lowered = lower(lambda x: jitted(jitted(x) + 1), x)
    assert [call.kernel_name for call in calls_of(lowered)] == ["double_kernel"] * 2
    assert inputs_of(lowered) == [(x.shape, x.dtype)]
    (got,) = run_program(lowered, [x], in_numpy)
    np.testing.assert_array_equal(got, (x * 2 + 1) * 2)


def test_the_tables_of_gmm_reach_its_kernel() -> None:
    sizes = np.array([100, 0, 300, 112], np.int32)
    lhs, rhs = np.ones((512, 128), ml_dtypes.bfloat16), np.ones((4, 128, 128), ml_dtypes.bfloat16)
    seen: list[np.ndarray] = []

    def keep(call: KernelCall, operands: list[np.ndarray]) -> list[np.ndarray]:
        seen.extend(operands)
        return [np.zeros(shape, dtype) for shape, dtype in call.outputs]

    run_program(lower(lambda *arrays: gmm(*arrays), lhs, rhs, sizes), [lhs, rhs, sizes], keep)
    metadata, tiles = make_group_metadata(
        group_sizes=jnp.asarray(sizes), m=512, tm=128, start_group=0, num_nonzero_groups=4, visit_empty_groups=False
    )
    for got, wanted in zip(seen, [tiles, *metadata, [0], lhs, rhs], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_large_constant_inside(x: np.ndarray) -> None:
    table = np.random.default_rng(1).standard_normal((8, 128)).astype(np.float32)
    lowered = lower(lambda x: sum_and_difference(x, jnp.asarray(table)), x)
    got = run_program(lowered, [x], in_numpy)
    np.testing.assert_array_equal(got, [x + table, x - table])


@pytest.mark.parametrize(("element", "dtype"), DTYPES, ids=[element for element, _ in DTYPES])
def test_every_dtype_goes_through_xla_and_back(element: str, dtype: Any) -> None:
    tensor = f"tensor<6x{element}>"
    text = program(
        f"(%x: {tensor}) -> ({tensor}, {tensor})",
        f"""%0 = stablehlo.reverse %x, dims = [0] : {tensor}
        %1 = stablehlo.custom_call @tpu_custom_call(%0) CALL : ({tensor}) -> {tensor}
        %2 = stablehlo.reverse %1, dims = [0] : {tensor}
        return %1, %2 : {tensor}, {tensor}""",
    )
    # 1 + 2^-40 is lost where 64-bit arrays become 32-bit.
    array = np.array([0, 1, 3, 5, 7, 1 + 2**-40]).astype(dtype)
    got = run_program(text, [array], same)
    assert [g.dtype for g in got] == [np.dtype(dtype)] * 2
    np.testing.assert_array_equal(got[0].astype(np.float64), array[::-1].astype(np.float64))
    np.testing.assert_array_equal(got[1].astype(np.float64), array.astype(np.float64))


def test_scalars_are_given_as_numbers_or_arrays() -> None:
    text = program(
        "(%n: tensor<i32>, %f: tensor<bf16>) -> (tensor<i32>, tensor<bf16>)",
        """%0 = stablehlo.add %n, %n : tensor<i32>
        %1:2 = stablehlo.custom_call @tpu_custom_call(%0, %f) CALL :
            (tensor<i32>, tensor<bf16>) -> (tensor<i32>, tensor<bf16>)
        return %1#0, %1#1 : tensor<i32>, tensor<bf16>""",
    )
    for n, f in ((21, 1.5), (np.int32(21), ml_dtypes.bfloat16(1.5)), (jnp.int32(21), jnp.bfloat16(1.5))):
        got = run_program(text, [n, f], same)
        assert [g.tolist() for g in got] == [42, 1.5]


def test_only_ops_that_compute_need_jax() -> None:
    """Constants and reshapes do not; an addition does."""
    lines = """%c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
        %0 = stablehlo.reshape %x : (tensor<6xf32>) -> tensor<2x3xf32>
        %1:2 = stablehlo.custom_call @tpu_custom_call(%c, %0) CALL :
            (tensor<2xi32>, tensor<2x3xf32>) -> (tensor<2xi32>, tensor<2x3xf32>)
        %2 = stablehlo.reshape %1#1 : (tensor<2x3xf32>) -> tensor<3x2xf32>
        return %1#0, %2 : tensor<2xi32>, tensor<3x2xf32>"""
    plain = program("(%x: tensor<6xf32>) -> (tensor<2xi32>, tensor<3x2xf32>)", lines)
    adds = plain.replace(
        "%0 = stablehlo.reshape %x", "%s = stablehlo.add %x, %x : tensor<6xf32>\n%0 = stablehlo.reshape %s"
    )
    script = """if True:
        import sys
        import numpy as np
        from mosaic_tpu.sim._program import run_program
        c, x = run_program(sys.stdin.read(), [np.arange(6, dtype=np.float32)], lambda call, operands: operands)
        print(c.tolist(), x.tolist(), "jax" in sys.modules)"""

    def ran(text: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert ran(plain) == "[1, 2] [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] False"
    assert ran(adds) == "[1, 2] [[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]] True"


def test_without_jax_the_error_says_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)  # an import of it fails
    around = program(
        "(%x: tensor<6xf32>) -> tensor<6xf32>",
        """%0 = stablehlo.negate %x : tensor<6xf32>
        %1 = stablehlo.custom_call @tpu_custom_call(%0) CALL : (tensor<6xf32>) -> tensor<6xf32>
        return %1 : tensor<6xf32>""",
    )
    with pytest.raises(MissingJaxError, match="around its kernels needs JAX"):
        run_program(around, [np.zeros(6, np.float32)], same)
    for name in [n for n in sys.modules if n.startswith("mosaic_tpu.sim.xla")]:
        monkeypatch.delitem(sys.modules, name)
    module = kernel(["%o: memref<8x128xf32, #tpu.memory_space<vmem>>"], "")
    with pytest.raises(MissingJaxError, match="fast engine needs JAX"):
        simulate(module, engine="xla", outputs=[((8, 128), np.float32)])


def test_the_kernel_is_given_its_operands_in_order() -> None:
    pair = "tensor<2xf32>, tensor<2xf32>"
    text = program(
        f"(%x: tensor<2xf32>, %y: tensor<2xf32>) -> ({pair})",
        f"""%0 = stablehlo.negate %x : tensor<2xf32>
        %1:2 = stablehlo.custom_call @tpu_custom_call(%y, %0) CALL : ({pair}) -> ({pair})
        %2:2 = stablehlo.custom_call @tpu_custom_call(%1#1, %1#0) CALL : ({pair}) -> ({pair})
        return %2#1, %2#0 : {pair}""",
    )
    got = run_program(text, [np.float32([1, 2]), np.float32([3, 4])], same)
    assert [g.tolist() for g in got] == [[3, 4], [-1, -2]]


# --- what a call says ----------------------------------------------------------------------------------------------


def test_a_call_of_pallas_is_read_whole(x: np.ndarray) -> None:
    lowered = lower(sum_and_difference, x, x)
    (call,) = calls_of(lowered)
    assert call.body.startswith(b"ML\xefR")
    assert call.kernel_name == "sum_and_difference_kernel"
    assert call.inputs == call.outputs == (((8, 128), np.dtype(np.float32)),) * 2
    assert call.aliases == {}
    assert (call.collective_id, call.has_communication) == (None, False)
    assert call.backend_config["custom_call_config"]["needs_layout_passes"] is True


@pytest.mark.parametrize("aliases", [{}, {1: 0}, {0: 1, 2: 0}])
def test_aliases_are_output_to_input(aliases: dict[int, int]) -> None:
    shape = jax.ShapeDtypeStruct((8, 128), np.float32)

    def kernel(a: Any, b: Any, *outputs: Any) -> None:
        for output in outputs:
            output[...] = a[...] + b[...]

    call = pl.pallas_call(kernel, out_shape=(shape,) * 3, input_output_aliases={i: o for o, i in aliases.items()})
    (found,) = calls_of(jax.jit(call).trace(shape, shape).lower(lowering_platforms=("tpu",)))
    assert found.aliases == aliases


def test_an_alias_of_the_only_result() -> None:
    shape = jax.ShapeDtypeStruct((8, 128), np.float32)
    call = pl.pallas_call(double_kernel, out_shape=shape, input_output_aliases={0: 0})
    (found,) = calls_of(jax.jit(call).trace(shape).lower(lowering_platforms=("tpu",)))
    assert found.aliases == {0: 0}


def test_the_config_may_be_a_dictionary_attribute() -> None:
    config = '{custom_call_config = {body = "BODY", collective_id = 3 : i32, has_communication = true, sizes = [1, 2]}}'
    lines = f"""%0 = stablehlo.custom_call @tpu_custom_call(%x) {{api_version = 4 : i32,
            backend_config = {config.replace("BODY", BODY)}}} : (tensor<2xf32>) -> tensor<2xf32>
        return %0 : tensor<2xf32>"""
    text = program("(%x: tensor<2xf32>) -> tensor<2xf32>", lines)
    (call,) = calls_of(text)
    assert call.body == b"body"
    assert (call.kernel_name, call.collective_id, call.has_communication) == (None, 3, True)
    assert call.backend_config["custom_call_config"]["sizes"] == [1, 2]
    with pytest.raises(ModuleFormatError, match="custom_call_config"):
        calls_of(text.replace("custom_call_config", "another_config"))


# --- what is refused -----------------------------------------------------------------------------------------------

ONE = program(
    "(%x: tensor<2xf32>, %n: tensor<i32>) -> tensor<2xf32>",
    """%0 = stablehlo.custom_call @tpu_custom_call(%x, %n) CALL : (tensor<2xf32>, tensor<i32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>""",
)
GOOD = [np.float32([1, 2]), 3]


def test_a_good_program_is_the_twin_of_the_bad_ones() -> None:
    (got,) = run_program(ONE, GOOD, lambda call, operands: operands[:1])
    assert got.tolist() == [1, 2]


@pytest.mark.parametrize(
    "line",
    [
        "%1 = chlo.square %x : tensor<2xf32> -> tensor<2xf32>",
        "%1 = stablehlo.negate %x : tensor<2xf32>",
        "%1 = arith.addi %n, %n : tensor<i32>",
    ],
)
def test_the_ops_of_a_program_are_of_any_dialect_that_xla_knows(line: str) -> None:
    assert len(calls_of(ONE.replace("return", f"{line} return"))) == 1


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (ONE[:-4], "MLIR cannot read"),
        (ONE.replace("%0 : tensor<2xf32>", "%9 : tensor<2xf32>"), "undeclared SSA value"),
        ("", "holds no tpu_custom_call|no 'main'"),
        ("\x00\xff" * 10, "MLIR cannot read"),
        (ONE.replace("return", '"other.op"() : () -> () return'), "unregistered dialect"),
        (ONE.replace("tpu_custom_call", "another_call"), "holds no tpu_custom_call"),
        (ONE.replace(BODY, "%%%"), "body in the call's backend_config is no base64"),
        (ONE.replace("body\\22: ", "body\\22; "), "no JSON"),
        (ONE.replace("@main", "@f").replace("} }", "} func.func @g() { return } }"), "no 'main'.*'f', 'g'"),
        (b"bytes", "a bytes is no program"),
        (None, "a NoneType is no program"),
    ],
)
def test_what_is_no_program_with_a_kernel(source: Any, match: str) -> None:
    with pytest.raises(ModuleFormatError, match=match):
        calls_of(source)
    with pytest.raises(ModuleFormatError, match=match):
        run_program(source, GOOD, not_called)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ([], "takes 2 arrays and was given 0"),
        ([*GOOD, 1], "takes 2 arrays and was given 3"),
        ([np.zeros(3, np.float32), 3], r"argument 0 of the program is float32\[3\], not float32\[2\]"),
        ([np.zeros(2, np.float64), 3], r"argument 0 of the program is float64\[2\], not float32\[2\]"),
        ([GOOD[0], np.int32([3])], r"argument 1 of the program is int32\[1\], not int32\[\]"),
        ([GOOD[0], 3.5], "argument 1 of the program is 3.5, which is no int32"),
        ([GOOD[0], 1 << 40], "argument 1 of the program is 1099511627776, which is no int32"),
        ([GOOD[0], "3"], "argument 1 of the program is <U1"),
        ([[[1], [1, 2]], 3], "argument 0 of the program cannot be made a NumPy array"),
    ],
)
def test_arrays_that_do_not_fit(arrays: list[Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        run_program(ONE, arrays, not_called)


@pytest.mark.parametrize(
    ("results", "match"),
    [
        ([], "has 1 results and 0 were returned"),
        ([np.zeros(2)], r"result 0 of the kernel is float64\[2\], not float32\[2\]"),
        ([np.zeros(3, np.float32)], r"result 0 of the kernel is float32\[3\]"),
    ],
)
def test_results_that_do_not_fit(results: list[np.ndarray], match: str) -> None:
    with pytest.raises(InputError, match=match):
        run_program(ONE, GOOD, lambda call, operands: results)


def test_a_kernel_in_a_loop_or_a_branch_is_found_but_not_run(x: np.ndarray) -> None:
    def looped(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 3, lambda i, x: double(x), x)

    def branched(x: jax.Array) -> jax.Array:
        return jax.lax.cond(x[0, 0] > 0, double, jax.jit(double), x)

    for fn, inside in ((looped, "stablehlo.while"), (branched, "stablehlo.case")):
        lowered = lower(fn, x)
        assert {call.kernel_name for call in calls_of(lowered)} == {"double_kernel"}
        with pytest.raises(UnsupportedOpError, match=f"called inside {inside}") as caught:
            run_program(lowered, [x], not_called)
        assert caught.value.op == "double_kernel"


def test_a_loop_beside_the_kernel_runs(x: np.ndarray) -> None:
    def looped(x: jax.Array) -> jax.Array:
        return double(jax.lax.fori_loop(0, 3, lambda i, x: x + i, x))

    (got,) = run_program(lower(looped, x), [x], in_numpy)
    np.testing.assert_allclose(got, (x + 3) * 2, rtol=1e-6)


def test_a_program_for_several_devices_is_read_but_not_run() -> None:
    mesh = AbstractMesh((4,), ("d",))
    spec = PartitionSpec("d")
    mapped = jax.shard_map(double, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    array = np.zeros((32, 128), np.float32)
    shape = jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=NamedSharding(mesh, spec))
    lowered = jax.jit(mapped).trace(shape).lower(lowering_platforms=("tpu",))
    (call,) = calls_of(lowered)
    assert call.inputs == (((8, 128), np.dtype(np.float32)),)
    with pytest.raises(UnsupportedOpError, match="the program is for 4 devices"):
        run_program(lowered, [array], not_called)


def test_what_xla_cannot_compile_is_refused() -> None:
    lines = """%0 = stablehlo.custom_call @no_such_target(%x) : (tensor<2xf32>) -> tensor<2xf32>
        %1 = stablehlo.custom_call @tpu_custom_call(%0) CALL : (tensor<2xf32>) -> tensor<2xf32>
        return %1 : tensor<2xf32>"""
    with pytest.raises(UnsupportedOpError, match="no_such_target"):
        run_program(program("(%x: tensor<2xf32>) -> tensor<2xf32>", lines), GOOD[:1], not_called)


def test_shapes_that_are_not_known_are_refused() -> None:
    text = ONE.replace("tensor<2xf32>", "tensor<?xf32>")
    with pytest.raises(UnsupportedOpError, match=r"tensor<\?xf32>"):
        calls_of(text)
