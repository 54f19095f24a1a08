"""The report: what it holds, how it reads, and what it is made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from mosaic_tpu.aot._lint import lint
from mosaic_tpu.aot.errors import SourceError, TargetError
from mosaic_tpu.aot.targets import find_target
from mosaic_tpu.sim import ir

BAD = """
func.func @bad(%x: memref<8x128xi8, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<8x128xi8, #tpu.memory_space<vmem>>, vector<8x128xi8>
  %1 = arith.muli %0, %0 : vector<8x128xi8>
  vector.store %1, %x[%c0, %c0] : memref<8x128xi8, #tpu.memory_space<vmem>>, vector<8x128xi8>
  return
}"""


def blocked(block: int = 8, rows: int = 64, grid: int = 8, kernels: int = 1) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def run(x: jax.Array) -> jax.Array:
        for _ in range(kernels):
            spec = pl.BlockSpec((block, 128), lambda i: (i, 0))
            x = pl.pallas_call(kernel, out_shape=x, grid=(grid,), in_specs=[spec], out_specs=spec, name="twice")(x)
        return x

    shape = jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    return jax.jit(run).trace(shape).lower(lowering_platforms=("tpu",))


def test_a_finding_says_where_why_and_what_to_write() -> None:
    (found,) = lint(BAD, target="v6e").findings
    assert (found.rule, found.severity, found.op, found.kernel) == ("unsupported-type", "error", "arith.muli", "bad")
    assert found.targets == ("v6e",)
    assert "i8" in found.reason
    assert "cast" in found.remedy


def test_all_generations_are_judged_unless_some_are_named() -> None:
    assert lint(BAD).targets == ("v4", "v5e", "v5p", "v6e", "tpu7x")
    assert lint(BAD, target=["v5e", "tpu7x"]).findings[0].targets == ("v5e", "tpu7x")
    with pytest.raises(TargetError):
        lint(BAD, target="v9")


def test_the_report_reads_well_and_goes_to_json() -> None:
    report = lint(BAD, target="v6e")
    assert report.to_json()["schema"] == 1
    assert str(report).startswith("bad for v6e: 1 error, 0 warnings\n-:5: error[unsupported-type] arith.muli (v6e)")
    assert json.loads(json.dumps(report.to_json()))["findings"][0]["rule"] == "unsupported-type"
    assert "nothing found" in str(lint(blocked(), target="v6e"))


def test_a_report_has_a_part_for_each_generation_that_was_asked_for() -> None:
    report = lint(BAD, target=["v5e", "v6e"])
    assert [f.rule for f in report.of("v6e").errors] == ["unsupported-type"]
    assert report.of("v5e:2x2") == report.of("v5e") == report.of(find_target("v5e:2x2"))
    assert report.of("v5e:2x2").targets == ("v5e",)


@pytest.mark.parametrize("target", ["v9", "v4", "v4:2x2x1", "v6e:0x1"])
def test_a_report_says_nothing_of_what_was_not_asked(target: str) -> None:
    with pytest.raises(TargetError):
        lint(BAD, target=["v5e", "v6e"]).of(target)


def test_a_program_says_the_arrays_shapes() -> None:
    report = lint(blocked(grid=9), target="v6e")
    (found,) = {f.rule for f in report.findings}
    assert found == "grid-range"
    assert not report.errors
    assert lint(blocked(grid=8), target="v6e").findings == ()


def test_every_kernel_of_a_program_is_judged() -> None:
    assert lint(blocked(kernels=2), target="v6e").kernels == ("twice", "twice")


def test_a_pallas_kernel_has_its_line() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.maximum(x_ref[...], -x_ref[...])

    shape = jax.ShapeDtypeStruct((64, 128), jnp.int16)
    program = jax.jit(pl.pallas_call(kernel, out_shape=shape)).trace(shape).lower(lowering_platforms=("tpu",))
    found = lint(program, target="v6e").errors
    assert found
    assert all(f.location and f.location.rpartition(":")[0].endswith(Path(__file__).name) for f in found)


def test_whatever_holds_a_module_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bad.mlir"
    file.write_text(BAD)
    for source in (BAD, file, ir.read(BAD)):
        assert len(lint(source, target="v6e").errors) == 1
    text = blocked().as_text()
    assert lint(text, target="v6e").findings == ()


def test_what_holds_none_is_refused() -> None:
    with pytest.raises(SourceError):
        lint("func.func @nothing(")
    with pytest.raises(SourceError):
        lint(jax.jit(lambda x: x + 1).trace(jnp.zeros(3)).lower())
