"""A schedule says which lines of the kernel its hot block comes from, as the compiler remarks them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from mosaic_tpu.aot import compile, diff, find_target
from mosaic_tpu.aot.schedule import Schedule, read_schedule

from .conftest import lowered
from .schedule_kit import schedule, written

V6E = find_target("v6e")


def read(*bundles: str) -> Schedule:
    return read_schedule(written(*bundles), V6E)


def test_lines_are_counted_by_instruction_the_most_first() -> None:
    found = read(
        '  :  { %1 = vadd.f32 %v1, %v2 /* loc("a/kernel.py":7:4 to :33) */ }',
        '  :  { %2 = vadd.f32 %v1, %v2 /* loc("a/kernel.py":12:4 to 13:5) */  ;;  %3 = vmul.f32 %v1, %v2'
        ' /* loc("a/kernel.py":12:8 to :9) :: combine strided load */ }',
        '  :  { %s4 = smov 0 /* copy for cssa :: loc("b.py":3:0) :: loc("a/kernel.py":12:4 to :9) */ }',
        "  :  { %s5 = smov 0 /* copy for cssa */ } /* End region 1 */",
    )
    assert list(found.kernel.lines.items()) == [("a/kernel.py:12", 2), ("a/kernel.py:7", 1), ("b.py:3", 1)]
    assert found.to_json()["kernel"]["lines"][0] == {"line": "a/kernel.py:12", "instructions": 2}  # pyright: ignore[reportIndexIssue]


def test_the_report_names_the_first_lines_and_counts_the_rest() -> None:
    rows = [f'  :  {{ %{n} = vadd.f32 %v1, %v2 /* loc("/far/away/kernel.py":{n}:4) */ }}' for n in range(8)]
    said = str(read(*rows)).splitlines()
    at = said.index("lines of the hot block, kernel, and instructions from them")
    assert [line.split() for line in said[at + 1 : at + 3]] == [["kernel.py:0", "1"], ["kernel.py:1", "1"]]
    assert said[at + 6].strip() == "and 3 lines more"


@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_where_the_compiler_remarks_none_there_are_none(target: str) -> None:
    found = schedule("matmul", target)
    assert not any(block.lines for block in found.kernel.walk())
    assert "lines of the hot block" not in str(found)


def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.zeros_like(o_ref)
    scaled = x_ref[...] * 0.5
    product = jnp.dot(scaled, y_ref[...], preferred_element_type=jnp.float32)
    o_ref[...] += product


@pytest.mark.parametrize("target", ["v5e", "v6e", "tpu7x"])
def test_the_compiler_names_the_line_that_multiplies(needs_compiler: None, target: str) -> None:
    x, y = jax.ShapeDtypeStruct((512, 256), jnp.bfloat16), jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)
    rows, whole = pl.BlockSpec((128, 256), lambda i: (i, 0)), pl.BlockSpec((256, 256), lambda i: (0, 0))
    out = jax.ShapeDtypeStruct((512, 256), jnp.float32)
    call = pl.pallas_call(kernel, out_shape=out, grid=(4,), in_specs=[rows, whole], out_specs=rows)
    found = compile(lowered(call, x, y), target, schedule=True).schedule
    lines, first = inspect.getsourcelines(kernel)
    places = {line.strip().partition(" =")[0]: f"{Path(__file__).name}:{first + n}" for n, line in enumerate(lines)}
    named = [Path(place).name for place in found.hot.lines]
    assert named[0] == places["product"]
    assert {places["product"], places["scaled"]} <= {*named} <= {*places.values()}


def test_the_remarks_change_no_bundle(needs_compiler: None, tmp_path: Path) -> None:
    from mosaic_tpu.aot.schedule import find_dumps, stripped

    x = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32))
    program = lowered(call, x, x)
    flags = {"xla_jf_dump_to": str(tmp_path), "xla_jf_dump_llo_text": True, "xla_jf_emit_annotations": True}
    compile(program, "v6e", flags={**flags, "xla_jf_dump_llo_pass_label_regex": "final"})
    ((_, without),) = find_dumps(tmp_path).items()
    assert "loc(" not in without.bundles
    assert stripped(without.bundles) == compile(program, "v6e", schedule=True).schedule.text
    assert diff(compile(program, "v6e", schedule=True).schedule, read_schedule(without, V6E)).equal
