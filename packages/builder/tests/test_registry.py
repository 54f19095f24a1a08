"""The registry is complete and true: documented, runnable, and nothing of the guide is missing."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator

import pytest

import mosaic_tpu.builder as package
from mosaic_tpu.builder import Builder, OpSpec, Value, registry
from mosaic_tpu.builder._compat import ir
from mosaic_tpu.builder.ops.scf import For, If, IfElse, While

from .conftest import declare

SPECS = [pytest.param(spec, id=name) for name, spec in registry().items()]
#: What an example names without importing it.
NAMES = {name: getattr(package, name) for name in dir(package) if not name.startswith("_")}


def _ops(root: ir.Operation) -> Iterator[str]:
    for region in root.regions:
        for block in region:
            for op in block.operations:
                yield op.operation.name
                yield from _ops(op.operation)


def _exists(spec: OpSpec) -> bool:
    """Whether the installed jaxlib has one of the ops it emits."""
    context = Builder("any").context
    return not spec.emits or any(context.is_registered_operation(name) for name in spec.emits)


def _run_example(spec: OpSpec) -> Builder:
    b = Builder("example")
    core = "sc_vector_subcore" if spec.group == "sparsecore" else "tc"
    names = {**NAMES, "b": b, "a": declare(b, core)}
    docstring = inspect.getdoc(spec.function)
    assert docstring, f"{spec.name} has no docstring"
    example = doctest.DocTestParser().get_doctest(docstring, names, spec.name, None, None)
    assert example.examples, f"{spec.name} has no example"
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    runner.run(example, out=report.append)
    if not _exists(spec):
        assert "UnsupportedOpError" in "".join(report), f"{spec.name} runs without its op"
        return b
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    return b


@pytest.mark.parametrize("spec", SPECS)
def test_example_runs_verifies_and_emits_what_is_claimed(spec: OpSpec) -> None:
    b = _run_example(spec)
    emitted = set(_ops(b.module.operation))
    assert not spec.emits or not _exists(spec) or emitted & set(spec.emits), (
        f"{spec.name} claims {spec.emits}, emitted {sorted(emitted)}"
    )
    b.finish()


@pytest.mark.parametrize("spec", SPECS)
def test_first_line_of_a_docstring_is_one_sentence(spec: OpSpec) -> None:
    first = (inspect.getdoc(spec.function) or "").splitlines()[0]
    assert first.endswith("."), first


@pytest.mark.parametrize("spec", SPECS)
def test_signature_is_typed(spec: OpSpec) -> None:
    signature = inspect.signature(spec.function)
    untyped = [p.name for p in signature.parameters.values() if p.name != "self" and p.annotation is p.empty]
    assert not untyped and signature.return_annotation is not signature.empty


def _public(cls: type) -> set[str]:
    return {n for n, m in inspect.getmembers(cls, inspect.isfunction) if not n.startswith("_")}


#: Methods of the builder that emit nothing into the kernel's body.
LIFECYCLE = {"declare_args", "finish", "function", "fail"}


def test_every_public_method_is_registered() -> None:
    found = {spec.function.__name__ for spec in registry().values() if not spec.is_idiom}
    assert _public(Builder) - LIFECYCLE == found


def test_every_public_idiom_is_registered() -> None:
    found = {spec.function.__name__ for spec in registry().values() if spec.is_idiom}
    assert _public(type(Builder("k").pallas)) == found


def test_the_registry_cannot_be_written() -> None:
    with pytest.raises(TypeError):
        registry()["addf"] = None  # type: ignore[index]


# ------------------------------------------------------------------------------------------------- the seed guide
#: Sections 6 to 15: the guide's helper and ours. Options live in keyword arguments, so that both names emit the same.
GUIDE = {
    # constants
    "lift": "lift", "liftAs": "lift_as", "cIndex": "c_index",
    "zeros": "zeros", "ones": "ones", "full": "full", "splat": "splat", "divFloor": "div_floor",
    # loads and stores
    "refLoad": "ref_load", "vectorLoadAt": "vector_load_at", "vectorLoadShape": "vector_load_shape",
    "tpuVectorLoad": "tpu_vector_load", "refStore": "ref_store", "vectorStoreAt": "vector_store_at",
    "refStoreOpts": "ref_store_opts", "stridedLoad": "strided_load", "stridedLoadShape": "strided_load_shape",
    "stridedStore": "strided_store", "scalarLoad": "scalar_load", "scalarStore": "scalar_store",
    # vectors and shapes
    "toIndex": "to_index", "indexCast": "index_cast", "broadcastTo": "broadcast_to", "shapeCast": "shape_cast",
    "reshape": "reshape", "repeat": "repeat", "concatenate": "concatenate", "transpose": "transpose",
    "broadcastInSublanes": "broadcast_in_sublanes", "rotate": "rotate", "vectorExtract": "vector_extract",
    "iota": "iota", "arange": "arange",
    # reductions
    "multiReduction": "multi_reduction", "reduceToScalar": "reduce_to_scalar",
    "vectorReductionFlat": "vector_reduction_flat", "allReduce": "all_reduce", "reduceIndex": "reduce_index",
    "scan": "scan", "sort": "sort",
    # compute
    "exp": "exp", "exp2": "exp2", "mathExp2": "math_exp2", "log": "log", "log2": "log2", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "sin": "sin", "cos": "cos", "tanh": "tanh", "erf": "erf", "absf": "absf", "absi": "absi",
    "abs": "abs", "floor": "floor", "ceil": "ceil", "powf": "powf", "fma": "fma", "reciprocal": "reciprocal",
    "reciprocalOpts": "reciprocal_opts", "matmul": "matmul", "matmulOpts": "matmul_opts", "select": "select",
    "where": "where", "createMask": "create_mask", "rangeMask": "range_mask",
    # memrefs
    "memRefSlice": "memref_slice", "memRefSqueeze": "memref_squeeze", "memRefReshape": "memref_reshape",
    "memRefBitcast": "memref_bitcast", "memRefBitcastShape": "memref_bitcast_shape",
    "reinterpretCast": "reinterpret_cast", "assumeLayout": "assume_layout", "eraseMemRefLayout": "erase_memref_layout",
    # DMAs, semaphores, barriers
    "semAlloc": "sem_alloc", "semBarrier": "sem_barrier", "semRead": "sem_read", "semWait": "sem_wait",
    "semSignal": "sem_signal", "semSignalOpts": "sem_signal_opts", "barrier": "barrier", "enqueueDma": "enqueue_dma",
    "waitDma2": "wait_dma2", "deviceId": "device_id", "delay": "delay", "traceStart": "trace_start",
    "traceStop": "trace_stop", "dotDimensionNumbers": "dot_dimension_numbers",
    # control flow: Python's `with` takes the place of the guide's open scopes
    "openFor": "for_", "openIf": "if_", "openIfElse": "if_else", "openWhile": "while_",
    # escape hatches
    "emit": "emit", "emitMulti": "emit_multi", "scalarTy": "scalar_ty", "vectorTy": "vector_ty",
    "memRefTy": "memref_ty",
    # the cheat-sheet
    "divsi": "divsi", "remsi": "remsi", "cmpi": "cmpi", "andi": "andi", "addf": "addf", "subf": "subf", "mulf": "mulf",
    # what the issue adds
    "eraseLayout": "erase_layout", "alloca": "alloca", "assumeMultiple": "assume_multiple", "region": "region",
    "waitDma": "wait_dma", "extractStridedSlice": "extract_strided_slice",
}  # fmt: skip
#: Sections 4 and 5.
GUIDE_VALUE = {
    "inner": "ir", "kernel": "builder", "type_": "type", "elemType": "elem_type", "isVector": "is_vector",
    "isMemRef": "is_memref", "isShaped": "is_shaped", "rank": "rank", "dim": "dim", "shape": "shape",
    "isFloatElem": "is_float_elem", "isIntElem": "is_int_elem", "add": "add", "sub": "sub", "mul": "mul", "div": "div",
    "rem": "rem", "bitAnd": "bit_and", "bitOr": "bit_or", "minimum": "minimum", "maximum": "maximum", "lt": "lt",
    "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne", "to": "to", "bitcast": "bitcast", "abs": "abs",
}  # fmt: skip
GUIDE_SCOPES = [
    (For, "iv carried yield_ results"),
    (If, "yield_then results"),
    (IfElse, "yield_then yield_else results"),
    (While, "before_carried after_carried yield_before yield_after results"),
]
GUIDE_BUILDER = {
    "declareArgsOpts": "declare_args",
    "finishOpts": "finish",
    "ctx": "context",
    "currentBlock": "current_block",
}


@pytest.mark.parametrize(("guide", "ours"), GUIDE.items())
def test_every_helper_of_the_guide_is_registered(guide: str, ours: str) -> None:
    assert callable(getattr(Builder, ours))
    assert ours in {spec.function.__name__ for spec in registry().values()}, guide


@pytest.mark.parametrize(("guide", "ours"), GUIDE_VALUE.items())
def test_every_method_of_the_guides_value_exists(guide: str, ours: str) -> None:
    assert inspect.getdoc(getattr(Value, ours)), guide


@pytest.mark.parametrize(("scope", "members"), GUIDE_SCOPES)
def test_every_member_of_the_guides_scopes_exists(scope: type, members: str) -> None:
    assert all(hasattr(scope, member) for member in members.split())


@pytest.mark.parametrize(("guide", "ours"), GUIDE_BUILDER.items())
def test_every_step_of_the_guides_builder_exists(guide: str, ours: str) -> None:
    assert inspect.getdoc(getattr(Builder, ours)), guide
