"""Any op in its generic form: exact, checked, and usable beside the helpers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, Value, body_text, f32, i32, registry
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder._compat import ir
from mosaic_tpu.builder.ops.generic import GenericOp

from .conftest import Raises, declare


def _value(found: object) -> Value:
    assert isinstance(found, Value)
    return found


def test_a_generic_op_has_the_bytes_of_its_helper() -> None:
    def build(generic: bool) -> bytes:
        b = Builder("kernel")
        a = declare(b)
        x = b.vector_load(a.x, [0, 0])
        if generic:
            y = _value(b.generic_op("arith.addf", x, x, results=["vector<8x128xf32>"]))
            flags = {"predicate": "2 : i64"}
            c = _value(
                b.generic_op("arith.cmpi", a.i, a.i, attributes=flags, results=[b.scalar_ty(b.lift(True).dtype)])
            )
            with b.generic_op("scf.if", c, results=["i32"], regions=2) as choice:
                with choice.region(0):
                    b.generic_op("scf.yield", b.generic_op("tpu.device_id", results=["i32"]))  # pyright: ignore
                with choice.region(1):
                    b.generic_op("scf.yield", a.i)
        else:
            y = b.addf(x, x)
            c = b.cmpi("slt", a.i, a.i)
            b.lift(True)
            with b.if_else(c, [b.scalar_ty(i32)]) as either:
                with either.then:
                    either.yield_then(b.device_id())
                with either.otherwise:
                    either.yield_else(a.i)
        b.ref_store(a.y, y)
        return b.finish().serialize().body

    text = [body_text(build(generic), canonical=True) for generic in (True, False)]
    assert text[0] == text[1]


@pytest.mark.parametrize("text", ["tuple<i32, f32>", "i2", "vector<8x128xi2>", "memref<8xf32, strided<[2]>>", "none"])
def test_a_type_the_builder_does_not_know_is_an_operand_all_the_same(b: Builder, a: Args, text: str) -> None:
    cast = "builtin.unrealized_conversion_cast"
    strange = _value(b.generic_op(cast, a.i, results=[text]))
    assert str(strange.type) == str(strange.elem_type) == text
    assert (strange.dtype.name, strange.shape, strange.is_shaped) == ("opaque", (), False)
    assert strange.type == _value(b.generic_op(cast, a.i, results=[strange])).type
    assert _value(b.generic_op(cast, strange, results=["i32"])).dtype is i32
    with b.for_(0, 4, init=[strange]) as loop:
        loop.yield_(loop.carried[0])
    b.finish()


@pytest.mark.parametrize(
    "use",
    [
        lambda b, v: v + 1,
        lambda b, v: v.to(f32),
        lambda b, v: b.pallas.sum(v),
        lambda b, v: b.exp(v),
        lambda b, v: b.addi(v, v),
        lambda b, v: b.negf(v),
        lambda b, v: v.lt(1),
        lambda b, v: v[0],
        lambda b, v: b.broadcast_to(v, (8, 128)),
        lambda b, v: b.pallas.where(v, 1, 2),
        lambda b, v: b.scalar_store(b._a.lens, v, [0]),
        lambda b, v: b.assume_multiple(v, 8),
    ],
)
def test_a_helper_refuses_a_type_the_builder_does_not_know(b: Builder, a: Args, use: Any) -> None:
    b._a = a  # pyright: ignore[reportAttributeAccessIssue]
    strange = b.generic_op("builtin.unrealized_conversion_cast", a.i, results=["tuple<i32>"])
    with pytest.raises(e.MosaicError, match=r"tuple<i32>|opaque"):
        use(b, strange)


def test_a_type_as_text_is_the_builders_own(b: Builder, a: Args) -> None:
    x = _value(b.generic_op("vector.broadcast", b.lift(1.0), results=["vector<8x128xf32>"]))
    assert x._info is b.vector_ty((8, 128), f32)
    assert b.addf(x, b.zeros((8, 128), f32)).shape == (8, 128)


def test_a_memory_space_that_is_left_out_stays_so(b: Builder, a: Args) -> None:
    ref = _value(
        b.generic_op("memref.alloca", attributes={"operandSegmentSizes": "array<i32: 0, 0>"}, results=["memref<8xf32>"])
    )
    assert str(ref.type) == "memref<8xf32>"


def test_several_results_are_a_tuple(b: Builder, a: Args) -> None:
    found = b.generic_op("arith.mulsi_extended", a.i, a.i, results=["i32", "i32"])
    assert isinstance(found, tuple) and [v.dtype for v in found] == [i32, i32]
    assert b.generic_op("tpu.trace_stop") is None


def test_a_region_has_arguments_and_its_op_results(b: Builder, a: Args) -> None:
    loop = b.generic_op("scf.for", b.lift(0), b.lift(4), b.lift(1), a.i, results=["i32"], regions=1)
    with loop.region(0, arguments=["i32", a.i]) as (iv, carried):
        b.generic_op("scf.yield", iv + carried)
    assert (loop.results[0] + 1).dtype is i32
    with b.if_(a.i > 0):
        b.scalar_store(a.lens, loop.results[0], [0])
    b.finish()


def test_values_of_a_generic_region_end_with_it(b: Builder, a: Args, raises: Raises) -> None:
    with b.generic_op("tpu.region", regions=1) as op, op.region(0):
        inner = b.lift(1)
        b.generic_op("tpu.yield")
    with raises(e.ClosedRegionError, "arith.addi"):
        b.addi(inner, inner)


def test_an_op_of_an_unknown_dialect_is_written_on_request(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.UnsupportedOpError, "new.op", hint="allow_unregistered"):
        b.generic_op("new.op", a.i)
    attributes = {"a": "#new.attr<1>"}
    with raises(e.AttributeValueError, "arith.negf", "unregistered dialect"):
        b.generic_op("arith.negf", b.lift(1.0), attributes=attributes, results=["f32"])
    found = b.generic_op("new.op", a.i, attributes=attributes, results=["!new.type"], allow_unregistered=True)
    assert str(_value(found).type) == "!new.type"
    assert '"new.op"' in b.finish().text()
    assert not b.context.allow_unregistered_dialects


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"dim": "0 : i3x"}, "expected"),
        ({"dim": "0 : i32 x"}, "trailing"),
        ({"dim": ""}, "empty"),
        ({"dim": "loc(unknown)"}, "as text"),
        ({"dim": "#tpu.nope<1>"}, "unknown attribute"),
        ({"dim": 0}, "'dim' is 0"),
        ({"dim": '"zero"'}, "takes no"),
        ({"": "0 : i32"}, "attributes are"),
        ([], "attributes are"),
    ],
)
def test_an_attribute_that_cannot_be_is_refused(
    b: Builder, a: Args, raises: Raises, attributes: Any, words: str
) -> None:
    with raises(e.AttributeValueError, "tpu.iteration_bound", words):
        b.generic_op("tpu.iteration_bound", attributes=attributes, results=["i32"])
    b.finish()


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.AttributeValueError, "cannot read", lambda b, a: b.generic_op("tpu.device_id", results=["i3x"])),
        (e.AttributeValueError, "empty", lambda b, a: b.generic_op("tpu.device_id", results=[""])),
        (e.ArityError, "'i32'", lambda b, a: b.generic_op("tpu.device_id", results="i32")),
        (e.KindError, "not a type", lambda b, a: b.generic_op("tpu.device_id", results=[32])),
        (e.KindError, "not a value", lambda b, a: b.generic_op("math.exp", 1.0, results=["f32"])),
        (e.UnsupportedOpError, "knows no such op", lambda b, a: b.generic_op("tpu.no_such_op")),
        (e.UnsupportedOpError, "not the name", lambda b, a: b.generic_op(3)),
        (e.UnsupportedOpError, "jump", lambda b, a: b.generic_op("cf.br")),
        (e.AttributeValueError, "-1 regions", lambda b, a: b.generic_op("tpu.region", regions=-1)),
        (e.AttributeValueError, "regions", lambda b, a: b.generic_op("tpu.region", regions="one")),
        (e.ArityError, "region 1 of 1", lambda b, a: b.generic_op("tpu.region", regions=1).region(1)),
        (e.AttributeValueError, "True or", lambda b, a: b.generic_op("tpu.region", allow_unregistered=2)),
    ],
)
def test_bad_input_is_refused(b: Builder, a: Args, raises: Raises, error: Any, words: str, call: Any) -> None:
    with raises(error, words):
        call(b, a)


def test_a_region_is_built_once(b: Builder, a: Args, raises: Raises) -> None:
    op = b.generic_op("tpu.region", regions=1)
    first = op.region(0)
    with raises(e.RegionOrderError, "tpu.region", "before the regions"):
        _ = op.results
    with first:
        with raises(e.RegionOrderError, "another region"):
            op.region(0)
        b.generic_op("tpu.yield")
    with raises(e.RegionOrderError, "built already"):
        op.region(0)
    with raises(e.RegionOrderError, "entered twice"):
        first.__enter__()
    assert op.results == ()


def test_a_region_without_a_terminator_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    region = b.generic_op("tpu.region", regions=1).region(0)
    region.__enter__()
    with raises(e.YieldMissingError, "tpu.region", hint="generic_op"):
        region.__exit__(None, None, None)
    with raises(e.RegionOrderError, "incomplete"):
        b.finish()


def test_nothing_follows_a_terminator(b: Builder, a: Args, raises: Raises) -> None:
    with b.generic_op("tpu.region", regions=1).region(0):
        b.generic_op("tpu.yield")
        with raises(e.YieldTwiceError, "arith.constant"):
            b.lift(1)


def test_what_no_op_allows_is_told_by_the_verifier(b: Builder, a: Args) -> None:
    b.generic_op("arith.addf", b.lift(1.0), results=["f32"])
    with pytest.raises(e.VerificationError, match=r"arith\.addf: requires 2|expected 2 operands") as caught:
        b.finish(verify=None)
    assert __file__ in str(caught.value)


# --- whole functions -------------------------------------------------------------------------------------------------


def test_a_module_of_generic_functions_is_a_kernel() -> None:
    b = Builder("kernel")
    with b.generic_function(
        "kernel",
        ["i32", "memref<8x128xf32, #tpu.memory_space<vmem>>"],
        attributes={"tpu.core_type": "#tpu.core_type<tc>", "scratch_operands": "0 : i64", "mine": "unit"},
    ) as (i, x):
        b.pallas.store(x, b.pallas.load(x) * 2.0)
        b.generic_op("tpu.delay", i)
        b.generic_op("func.return")
    with b.generic_function("transform_0", ["i32"], ["i32", "i32"]) as (i,):
        b.generic_op("func.return", i, b.lift(0))
    module = b.finish()
    text = body_text(module.serialize().body)
    assert "func.func @kernel(" in text and "mine" in text and "func.func @transform_0(" in text
    assert module.signature.arguments == () and module.name == "kernel"


def test_a_generic_function_stands_beside_a_declared_kernel(b: Builder, a: Args) -> None:
    with b.generic_function("transform_9", ["i32"], ["i32"]) as (i,):
        b.generic_op("func.return", i)
    b.ref_store(a.y, b.ref_load(a.x))
    b.function_attributes({"window_params": None, "mine": "[1, 2]"})
    b.module_attributes({"sym_name": None, "tpu.note": '"by hand"'})
    text = b.finish().text()
    assert "@transform_9" in text and "mine = [1, 2]" in text and "window_params" not in text
    assert 'module attributes {tpu.note = "by hand"}' in text


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.AttributeValueError, "name", lambda b: b.generic_function("")),
        (e.AttributeValueError, "cannot read", lambda b: b.generic_function("f", ["i3x"])),
        (e.ArityError, "'i32'", lambda b: b.generic_function("f", "i32")),
        (e.AttributeValueError, "cannot read", lambda b: b.generic_function("f", attributes={"a": "#"})),
        (e.AttributeValueError, "takes no", lambda b: b.generic_function("f", attributes={"function_type": "1 : i32"})),
        (e.AttributeValueError, "cannot read", lambda b: b.module_attributes({"a": "#"})),
        (e.AttributeValueError, "attributes are", lambda b: b.module_attributes(3)),
        (e.BuilderStateError, "no arguments", lambda b: b.function_attributes({})),
    ],
)
def test_bad_functions_and_attributes_are_refused(
    b: Builder, raises: Raises, error: Any, words: str, call: Any
) -> None:
    with raises(error, words):
        call(b)


def test_a_function_that_does_not_return_is_refused(b: Builder, raises: Raises) -> None:
    function = b.generic_function("f")
    function.__enter__()
    with raises(e.YieldMissingError, "func.func", hint="func.return"):
        function.__exit__(None, None, None)


def test_a_finished_builder_takes_no_function(b: Builder, a: Args, raises: Raises) -> None:
    b.finish()
    with raises(e.BuilderStateError, "finished"):
        b.generic_function("f")
    with raises(e.BuilderStateError, "finished"):
        b.module_attributes({})


def test_a_terminator_with_regions_ends_its_block_too(b: Builder, a: Args, raises: Raises) -> None:
    b.generic_op("scf.reduce", regions=1)
    with raises(e.YieldTwiceError, "arith.constant"):
        b.lift(1)


def test_nothing_follows_a_terminator_made_by_hand(b: Builder, a: Args, raises: Raises) -> None:
    b.emit(ir.Operation.create("func.return", loc=ir.Location.unknown(b.context)))
    with raises(e.YieldTwiceError, "arith.constant"):
        b.lift(1)


TEXTS = ["i32", "f32", "index", "i1", "vector<8x128xf32>", "memref<8x128xf32, #tpu.memory_space<vmem>>", "none"]
ATTRIBUTES = ["unit", "0 : i32", "array<i64: 1, 2>", "array<i32: 1, 0, 0>", '"x"', "i32", "[1, 2]", "true", "@f"]
KEYS = ["dimensions", "dim", "value", "predicate", "operandSegmentSizes", "cases", "msg", "callee", "strides", "kind"]
#: Every op of the tpu dialect, and those upstream that kernels hold.
OPS = sorted({name for spec in registry().values() for name in spec.emits} | {"scf.execute_region", "func.call"})


@pytest.mark.parametrize("seed", range(300))
def test_any_op_of_anything_ends_in_a_module_or_in_our_error(seed: int) -> None:
    pick = random.Random(seed)
    b = Builder("kernel")
    a = declare(b)
    values = [a.i, a.x, a.sems, b.lift(1.0), b.c_index(0), b.zeros((8, 128), f32), b.lift(True)]
    operands = [pick.choice(values) for _ in range(pick.randrange(4))]
    attributes = {pick.choice(KEYS): pick.choice(ATTRIBUTES) for _ in range(pick.randrange(3))}
    results = [pick.choice(TEXTS) for _ in range(pick.randrange(3))]
    try:
        op = b.generic_op(
            pick.choice(OPS), *operands, attributes=attributes, results=results, regions=pick.randrange(3)
        )
        if isinstance(op, GenericOp) and pick.random() < 0.7:
            with op.region(0, results[:1]):
                b.generic_op(pick.choice(["scf.yield", "tpu.yield"]), *operands)
        assert b.finish().serialize().body
    except e.MosaicError as error:
        assert error.summary
