"""Arguments are declared once, first, in Pallas's order, and everything about them is checked then."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import (
    Args,
    Builder,
    Iter,
    Ref,
    Role,
    Scalar,
    Sem,
    SemArray,
    Window,
    arbitrary,
    body_text,
    f32,
    i32,
    index,
    parallel,
    sanitize_name,
)
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder._compat import JAXLIB_VERSION

from .conftest import Raises

X = Ref((8, 128), f32)


def test_counts_follow_from_roles(b: Builder) -> None:
    b.declare_args(
        {
            "i": Scalar(i32),
            "table": Ref((4,), i32, "smem", Role.SCALAR_PREFETCH),
            "x": X,
            "y": Ref((8, 128), f32, role="output"),
            "scratch": Ref((8, 128), f32, role="scratch"),
            "sem": Sem("dma"),
            "sems": SemArray((2,), "regular"),
        },
        grid=(4,),
    )
    text = b.finish().text()
    assert "scalar_prefetch = 1 : i64" in text and "scratch_operands = 3 : i64" in text
    assert "iteration_bounds = array<i64: 4>" in text
    assert "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>" in text
    assert "memref<2x!tpu.semaphore, #tpu.memory_space<semaphore_mem>>" in text


@pytest.mark.parametrize("space", ["any", "vmem", "smem", "cmem", "hbm", "semaphore_mem", "vmem_shared", "host"])
def test_every_memory_space_can_be_declared(b: Builder, space: str) -> None:
    a = b.declare_args({"x": Ref((8, 128), f32, memory_space=space)})
    assert f"#tpu.memory_space<{space}>" in str(a.x.type)
    b.finish()


@pytest.mark.parametrize("semantics", ["parallel", "arbitrary", "core_parallel", "subcore_parallel"])
def test_every_dimension_semantics_can_be_given(b: Builder, semantics: str) -> None:
    b.declare_args({"i": Scalar(i32)}, grid=(4,), dimension_semantics=(semantics,))
    assert f"dimension_semantics = [#tpu.dimension_semantics<{semantics}>]" in b.finish().text()


@pytest.mark.parametrize("core", ["tc", "sc_scalar_subcore", "sc_vector_subcore"])
def test_every_core_type_can_be_given(b: Builder, core: str) -> None:
    b.declare_args({}, core_type=core)
    assert f"tpu.core_type = #tpu.core_type<{core}>" in b.finish().text()


def test_attributes_may_be_left_out_or_added(b: Builder) -> None:
    b.declare_args({}, core_type=None, no_inline=True)
    text = b.finish().text()
    assert "core_type" not in text and "no_inline" in text


def test_index_maps_end_with_a_constant_as_those_of_pallas_do_or_without(b: Builder) -> None:
    texts: list[str] = []
    for unused_zero in (True, False):
        built = Builder("k")
        windowed = Ref((8, 128), f32, window=Window((8, 128), index_map=lambda i: (i, 0)))
        built.declare_args(dict(i=Scalar(i32), x=windowed), grid=(4,), unused_zero=unused_zero)
        texts.append(built.finish().text(canonical=False))
    pallas, plain = (text.partition("@transform_0(")[2] for text in texts)
    assert pallas.count("arith.constant 0 : i32") == 2
    assert plain.count("arith.constant 0 : i32") == 1


def test_a_function_returns_what_was_declared(b: Builder, raises: Raises) -> None:
    b.declare_args({}, [b.scalar_ty(i32)])
    value = b.lift(1.0)
    with raises(e.ArgumentSpecError, "finish", "f32"):
        b.finish([value])
    assert "return %" in b.finish([b.lift(1)]).text()


def test_arguments_are_attributes_and_items(a: Args) -> None:
    assert a.x is a["x"]
    assert [str(v.dtype) for v in a][:3] == ["i32", "i32", "f32"]


@pytest.mark.parametrize("get", [lambda a: a.z, lambda a: a["z"], lambda a: a[0]])
def test_an_unknown_argument_lists_the_declared_ones(a: Args, raises: Raises, get: Any) -> None:
    with raises(e.UnknownArgumentError, hint="lens, x"):
        get(a)
    assert not hasattr(a, "z")


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"x": X, "i": Scalar(i32)}, "'i' stands after 'x'"),
        ({"y": Ref((8, 128), f32, role="output"), "x": X}, "'x' stands after 'y'"),
        ({"s": Sem(), "x": X}, "'x' stands after 's'"),
        ({"x": X, "t": Ref((4,), i32, "smem", "scalar_prefetch")}, "'t' stands after 'x'"),
        ({"x": Ref((0, 128), f32)}, "'x'"),
        ({"x": Ref((8, -128), f32)}, "'x'"),
        ({"x": Ref((8, 128.0), f32)}, "'x'"),  # type: ignore[arg-type]
        ({"x": Ref(128, f32)}, "'x'"),  # type: ignore[arg-type]
        ({"x": Ref((8, 128), f32, array_shape=(0, 1))}, "'x'"),
        ({"x": Ref((8, 128), index)}, "index"),
        ({"s": SemArray((0,))}, "'s'"),
        ({"x": f32}, "'x' is a DType"),
        ({"x": None}, "NoneType"),
        ({"not a name": X}, "'not a name'"),
        ({0: X}, "0"),
        ([X], "mapping"),
    ],
)
def test_a_malformed_argument_is_refused(b: Builder, raises: Raises, args: Any, text: str) -> None:
    with raises(e.ArgumentSpecError, "declare_args", text):
        b.declare_args(args)


@pytest.mark.parametrize(
    ("error", "spec"),
    [
        (e.DTypeError, Ref((8, 128), "float31")),  # type: ignore[arg-type]
        (e.DTypeError, Ref((8, 128), None)),  # type: ignore[arg-type]
        (e.DTypeError, Scalar("number")),  # type: ignore[arg-type]
        (e.MemorySpaceError, Ref((8, 128), f32, "sram")),
        (e.AttributeValueError, Ref((8, 128), f32, role="inout")),
        (e.AttributeValueError, Sem("counting")),
        (e.AttributeValueError, SemArray((2,), "counting")),
        (e.AttributeValueError, Iter("sequential")),
    ],
)
def test_an_unknown_word_in_an_argument_is_refused(
    b: Builder, raises: Raises, error: type[e.MosaicError], spec: Any
) -> None:
    with raises(error, "declare_args"):
        b.declare_args({"x": spec})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"grid": (4, 4)}, "a grid of rank 2 with 1 program ids"),
        ({"grid": ()}, "a grid of rank 0 with 1 program ids"),
        ({"grid": (-1,)}, "(-1,)"),
        ({"grid": (1.5,)}, "1.5"),
        ({"grid": 4}, "4"),
        ({"grid": (4,), "dimension_semantics": (parallel, arbitrary)}, "2 dimension semantics"),
        ({"window_params": True}, "need a grid"),
    ],
)
def test_a_grid_has_its_program_ids_and_semantics(
    b: Builder, raises: Raises, options: dict[str, Any], text: str
) -> None:
    with raises(e.ArgumentSpecError, "declare_args", text):
        b.declare_args({"i": Scalar(i32)}, **options)


def test_a_program_id_is_an_i32(b: Builder, raises: Raises) -> None:
    with raises(e.ArgumentSpecError, "f32", hint="Scalar(i32)"):
        b.declare_args({"i": Scalar(f32)}, grid=(4,))


@pytest.mark.parametrize("semantics", ["sequential", "serial", 3])
def test_unknown_semantics_are_refused(b: Builder, raises: Raises, semantics: Any) -> None:
    with raises(e.AttributeValueError, "declare_args", repr(semantics), hint="arbitrary"):
        b.declare_args({"i": Scalar(i32)}, grid=(4,), dimension_semantics=(semantics,))


def test_an_unknown_core_type_is_refused(b: Builder, raises: Raises) -> None:
    with raises(e.AttributeValueError, "declare_args", "'gpu'", hint="'tc'"):
        b.declare_args({}, core_type="gpu")


@pytest.mark.parametrize("results", [["f32"], 3, [f32]])
def test_results_are_types(b: Builder, raises: Raises, results: Any) -> None:
    with raises(e.KindError if isinstance(results, list) else e.ArityError, "declare_args"):
        b.declare_args({}, results)


# ------------------------------------------------------------------------------------------------- the builder's life


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_kernel_has_a_name(raises: Raises, name: Any) -> None:
    with raises(e.AttributeValueError, "Builder"):
        Builder(name)


def test_a_name_is_sanitized_as_pallas_does() -> None:
    assert Builder("my kernel<f32>").name == sanitize_name("my kernel<f32>") == "my_kernel_f32_"


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.lift(1),
        lambda b: b.iota((8, 128)),
        lambda b: b.sem_alloc(),
        lambda b: b.device_id(),
        lambda b: b.pallas.zeros((8, 128), f32),
        lambda b: b.region(),
        lambda b: b.for_(0, 4),
        lambda b: b.trace_stop(),
        lambda b: b.finish(),
        lambda b: b.current_block,
    ],
)
def test_nothing_is_emitted_before_the_arguments_are_declared(b: Builder, raises: Raises, use: Any) -> None:
    with raises(e.BuilderStateError, "no arguments declared yet", hint="declare_args"):
        use(b)


@pytest.mark.parametrize(
    "use",
    [
        lambda b: b.lift(1),
        lambda b: b.sem_alloc(),
        lambda b: b.trace_stop(),
        lambda b: b.region(),
        lambda b: b.finish(),
    ],
)
def test_nothing_is_emitted_after_the_end(b: Builder, a: Args, raises: Raises, use: Any) -> None:
    b.finish()
    with raises(e.BuilderStateError, "the builder is finished", hint="new Builder"):
        use(b)


def test_arguments_are_declared_once(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.BuilderStateError, "declare_args"):
        b.declare_args({})


def test_a_region_is_closed_before_the_end(b: Builder, a: Args, raises: Raises) -> None:
    with b.if_(a.i < 1), raises(e.RegionOrderError, "finish", hint="with block"):
        b.finish()
    b.finish()


def test_what_mlir_refuses_names_the_op_and_the_kernels_line(b: Builder, a: Args) -> None:
    b.assume_multiple(b.lift(3), 2)
    line = test_what_mlir_refuses_names_the_op_and_the_kernels_line.__code__.co_firstlineno + 1
    with pytest.raises(e.VerificationError) as caught:
        b.finish()
    assert f"  at: {__file__}:{line}\n" in str(caught.value)
    assert "tpu.assume_multiple: Operand is a constant 3 that is not a multiple of 2" in str(caught.value)
    assert "  operands: i32\n" in str(caught.value) and "  hint: " in str(caught.value)


def test_the_verifier_can_be_left_out(b: Builder, a: Args) -> None:
    b.assume_multiple(b.lift(3), 2)
    assert "assume_multiple" in b.finish(verify=False).text(canonical=False)


@pytest.mark.skipif(JAXLIB_VERSION < (0, 12, 0), reason="version 18 is the first that scans integers")
def test_an_op_that_an_ir_version_lacks_is_refused_when_written(b: Builder, a: Args) -> None:
    b.scan(b.zeros((8, 128), i32), "maxsi")
    module = b.finish()
    with pytest.raises(e.VerificationError, match=r"tpu\.scan") as caught:
        module.serialize(ir_version=15)
    assert f"  at: {__file__}:" in str(caught.value) and "hint: serialize(ir_version=None)" in str(caught.value)
    assert module.serialize(ir_version=None).body


@pytest.mark.parametrize("version", ["a", 3.5, -1, 0, True, 1 << 40])
def test_an_ir_version_is_a_positive_int(b: Builder, a: Args, raises: Raises, version: Any) -> None:
    module = b.finish()
    with raises(e.AttributeValueError, "serialize", repr(version), hint="newest"):
        module.serialize(ir_version=version, keep=False)
    assert module.serialize().body


def test_a_consumed_module_says_so(b: Builder, a: Args, raises: Raises) -> None:
    module = b.finish()
    module.serialize(keep=False)
    with raises(e.ModuleFormatError, hint="keep"):
        module.text()


@pytest.mark.parametrize(
    "body", [b"", b"ML\xefR", b"\x00" * 64, "module {", "nonsense", "\ud800", "func.func @f() { return %x }"]
)
def test_a_damaged_module_is_refused(raises: Raises, body: bytes | str) -> None:
    with raises(e.ModuleFormatError, hint="custom_call"):
        body_text(body)


def test_a_mark_of_utf_8_before_the_text_is_skipped() -> None:
    text = "module {\n  func.func @f() {\n    return\n  }\n}\n"
    assert body_text("\ufeff" + text) == body_text(("\ufeff" + text).encode()) == text


def test_a_truncated_body_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    body = b.finish().serialize().body
    for length in range(4, len(body) - 1, 61):
        with raises(e.ModuleFormatError):
            body_text(body[:length])
