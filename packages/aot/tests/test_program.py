"""Whatever holds kernels becomes a program; what does not is refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import _compat
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import ir

from .conftest import DOUBLE, doubled, lowered

F32 = np.dtype(np.float32)


def specs(program: Any) -> tuple[Any, Any]:
    (call,) = program.calls
    return call.inputs, call.outputs


def test_a_lowered_function_is_taken_as_it_is() -> None:
    given = doubled()
    program = program_of(given)
    assert program.text == given.as_text() == program_of(given.as_text()).text
    assert program.name == "doubled"
    assert specs(program) == ((((64, 128), F32),), (((64, 128), F32),))


def test_an_exported_function_is_taken_too() -> None:
    call = pl.pallas_call(
        lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        name="copied",
    )
    exported = jax.export.export(jax.jit(call), platforms=("tpu",))(jax.ShapeDtypeStruct((8, 128), jnp.float32))
    for source in (exported, bytes(exported.serialize()), exported.mlir_module_serialized):
        assert program_of(source).name == "copied"


@pytest.mark.parametrize("form", ["text", "bytecode", "path", "named path", "object"])
def test_the_arrays_behind_windows_are_found(form: str, tmp_path: Path) -> None:
    body = program_of(doubled(rows=40)).calls[0].body
    file = tmp_path / "kernel.mlirbc"
    file.write_bytes(body)
    source: Any = {"bytecode": body, "path": file, "named path": str(file)}.get(form)
    if form == "text":
        source, expected = DOUBLE, (8, 128)
    elif form == "object":
        from jaxlib.mlir import ir as mlir

        source = mlir.Module.parse(DOUBLE, context=ir.new_context())
        expected = (8, 128)
    else:
        expected = (40, 128)
    assert specs(program_of(source)) == (((expected, F32),), ((expected, F32),))


def windowed(index_map: str, *, prefetch: bool = False) -> str:
    """A kernel over a grid of (4, 3) whose input's window moves as an index map says."""
    table = "%t: memref<4xi32, #tpu.memory_space<smem>>, " if prefetch else ""
    more = ", %t: memref<4xi32, #tpu.memory_space<smem>>" if prefetch else ""
    return f"""
func.func @windowed(%i: i32, %j: i32, {table}%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %o: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {{
    dimension_semantics = [#tpu.dimension_semantics<arbitrary>, #tpu.dimension_semantics<arbitrary>],
    iteration_bounds = array<i64: 4, 3>, scalar_prefetch = {int(prefetch)} : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>,
    window_params = [{{transform_indices = @moves, window_bounds = array<i64: 8, 128>}},
                     {{transform_indices = @stays, window_bounds = array<i64: 8, 128>}}]}} {{
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %0, %o[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  return
}}
func.func @moves(%i: i32, %j: i32{more}) -> (i32, i32) {{
  {index_map}
}}
func.func @stays(%i: i32, %j: i32{more}) -> (i32, i32) {{
  %z = arith.constant 0 : i32
  return %z, %z : i32, i32
}}"""


@pytest.mark.parametrize(
    ("index_map", "shape"),
    [
        ("return %i, %j : i32, i32", (32, 384)),
        ("%c = arith.constant 2 : i32 %r = arith.muli %i, %c : i32 return %r, %j : i32, i32", (56, 384)),
        ("%c = arith.constant 3 : i32 %r = arith.subi %c, %i : i32 return %r, %r : i32, i32", (32, 512)),
        ("%c = arith.constant 2 : i32 %r = arith.divsi %i, %c : i32 return %r, %j : i32, i32", (16, 384)),
        ("%c = arith.constant 1 : i32 %r = arith.minsi %i, %c : i32 return %j, %r : i32, i32", (24, 256)),
        (
            "%p = arith.cmpi sgt, %i, %j : i32 %r = arith.select %p, %i, %j : i32 return %r, %i : i32, i32",
            (32, 512),
        ),
    ],
)
def test_index_maps_are_evaluated_over_the_grid(index_map: str, shape: tuple[int, ...]) -> None:
    text = windowed(index_map.replace(" %r", "\n  %r").replace(" return", "\n  return"))
    assert specs(program_of(text)) == (((shape, F32),), (((8, 128), F32),))


READS = (
    "%c = arith.index_cast %i : i32 to index\n  %r = memref.load %t[%c] : memref<4xi32, #tpu.memory_space<smem>>\n  "
)


def test_an_index_map_that_reads_scalars_needs_to_be_told_the_shape() -> None:
    text = windowed(READS + "return %r, %j : i32, i32", prefetch=True)
    with pytest.raises(SourceError, match="'arg3' cannot be found: its index map reads scalars") as error:
        program_of(text)
    assert "inputs=[(shape, dtype), …]" in str(error.value)
    told = program_of(text, inputs=[((4,), "int32"), jax.ShapeDtypeStruct((80, 384), jnp.float32)])
    assert specs(told)[0] == (((4,), np.dtype(np.int32)), ((80, 384), F32))


@pytest.mark.parametrize("inputs", [[], [((8, 128), "float32")] * 2, [((8, 128), "nothing")], [8], 3])
def test_shapes_that_do_not_fit_are_refused(inputs: Any) -> None:
    with pytest.raises(SourceError, match="inputs"):
        program_of(DOUBLE, inputs=inputs)


def test_a_program_has_its_shapes_and_takes_none() -> None:
    with pytest.raises(SourceError, match="says itself"):
        program_of(doubled(), outputs=[((8, 128), "float32")])


def test_outputs_are_the_last_operands_that_are_written() -> None:
    text = DOUBLE.replace("vector.store %1, %y", "vector.store %1, %x")
    with pytest.raises(SourceError, match="writes none of its last operands"):
        program_of(text)


def test_a_kernel_that_copies_to_other_devices_communicates() -> None:
    def kernel(x_ref: Any, o_ref: Any, sent: Any, received: Any) -> None:
        copy = pltpu.make_async_remote_copy(
            x_ref, o_ref, sent, received, device_id=1, device_id_type=pl.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait()

    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(
        kernel,
        out_shape=shape,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
    )
    program = program_of(lowered(call, shape))
    assert program.communicates
    assert program_of(program.calls[0].body).communicates
    assert not program_of(doubled()).communicates


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (3, "holds no Mosaic module"),
        (None, "holds no Mosaic module"),
        ("", "empty"),
        ("nonsense\n", "not a Mosaic module"),
        (b"\x00\xff\xfe", "neither MLIR text nor bytecode"),
        (b"ML\xefR damaged", "not a Mosaic module"),
        (Path("nowhere.mlir"), "cannot read nowhere.mlir"),
        ("nowhere.mlir", "cannot read nowhere.mlir"),
        ("module { stablehlo.add tpu_custom_call", "MLIR cannot read the program"),
        (ir.read(DOUBLE), "read already"),
    ],
)
def test_what_holds_no_kernel_is_refused(source: Any, said: str) -> None:
    with pytest.raises(SourceError, match=said) as error:
        program_of(source)
    assert error.value.hint


def test_a_program_without_a_kernel_is_refused() -> None:
    with pytest.raises(SourceError, match="holds no tpu_custom_call"):
        program_of(lowered(lambda x: x + 1, jax.ShapeDtypeStruct((8, 128), jnp.float32)))


def test_a_module_that_has_left_the_serialized_form_and_keeps_its_mark() -> None:
    marked = f"module attributes {{stable_mosaic.version = 15 : i64}} {{{DOUBLE}}}"
    assert _compat.body_of(marked).data == _compat.body_of(f"module {{{DOUBLE}}}").data
