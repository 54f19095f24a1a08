"""Extras that make no sense are refused, by name, where they are written or where they meet the kernel."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.builder import Builder, Ref, Role, bf16, f32
from mosaic_tpu.kernel import CallExtras, CostEstimate, ExtrasError, Kernel, SideEffects


@pytest.mark.parametrize(
    ("knobs", "found"),
    [
        ({"vmem_limit_bytes": 0}, "vmem_limit_bytes=0"),
        ({"vmem_limit_bytes": 1.5}, "vmem_limit_bytes=1.5"),
        ({"vmem_limit_bytes": True}, "vmem_limit_bytes=True"),
        ({"vmem_limit_bytes": "64"}, "vmem_limit_bytes='64'"),
        ({"collective_id": -1}, "collective_id=-1"),
        ({"collective_id": "ring"}, "collective_id='ring'"),
        ({"internal_scratch_in_bytes": -1}, "internal_scratch_in_bytes=-1"),
        ({"serialization_format": "1"}, "serialization_format='1'"),
        ({"disable_bounds_checks": 1}, "disable_bounds_checks=1"),
        ({"disable_semaphore_checks": None}, "disable_semaphore_checks=None"),
        ({"has_communication": "yes"}, "has_communication='yes'"),
        ({"skip_device_barrier": 0}, "skip_device_barrier=0"),
        ({"allow_collective_id_without_custom_barrier": 2}, "allow_collective_id_without_custom_barrier=2"),
        ({"needs_layout_passes": None}, "needs_layout_passes=None"),
        ({"shape_invariant_numerics": 1}, "shape_invariant_numerics=1"),
        ({"needs_hlo_passes": 1}, "needs_hlo_passes=1"),
        ({"side_effects": True}, "side_effects=True"),
        ({"cost_estimate": {"flops": 1}}, "cost_estimate={'flops': 1}"),
        ({"metadata": {"a": 1}}, "metadata={'a': 1}"),
        ({"metadata": "a"}, "metadata='a'"),
        ({"metadata": None}, "metadata=None"),
        ({"additional_attributes": {1: "a"}}, "additional_attributes={1: 'a'}"),
        ({"additional_attributes": {"kernel_name": "a"}}, "the attribute 'kernel_name' is the call's own"),
        ({"additional_attributes": {"backend_config": "a"}}, "the attribute 'backend_config' is the call's own"),
        ({"additional_attributes": {"": "a"}}, "an additional attribute has no name"),
        ({"flags": {"f": "on"}}, "flag 'f' is 'on'"),
        ({"flags": {"f": float("nan")}}, "flag 'f' is nan"),
        ({"flags": {"f": 2**63}}, "flag 'f' is beyond 64 bits"),
        ({"flags": {"f": -(2**63) - 1}}, "flag 'f' is beyond 64 bits"),
        ({"flags": {"f": 10**400}}, "flag 'f' is beyond 64 bits"),
        ({"flags": {'f"': 1}}, "is not the name of a flag"),
        ({"flags": [("f", 1)]}, "flags=[('f', 1)]"),
        ({"kernel_name": ""}, "kernel_name=''"),
        ({"kernel_name": 3}, "kernel_name=3"),
        ({"input_memory_spaces": {"x": "cmem"}}, "input 'x' in 'cmem'"),
        ({"output_memory_spaces": {"y": "any"}}, "output 'y' in 'any'"),
        ({"output_operand_aliases": {"y": "x", "z": "x"}}, "two outputs reuse the buffer of 'x'"),
        ({"output_operand_aliases": {0: 0}}, "output_operand_aliases={0: 0}"),
        ({"allow_input_fusion": "x"}, "allow_input_fusion='x'"),
        ({"allow_input_fusion": True}, "allow_input_fusion=True"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_malformed_knob(knobs: Any, found: str, raises: Any) -> None:
    with raises(ExtrasError, "CallExtras", found):
        CallExtras(**knobs)


@pytest.mark.parametrize("number", [-1, 1.0, True, None, np.int64(3)])
def test_a_malformed_cost(number: Any, raises: Any) -> None:
    with raises(ExtrasError, "CostEstimate", f"bytes_accessed={number!r}", hint="int"):
        CostEstimate(1, 2, number)


@pytest.mark.parametrize(
    ("extras", "found", "known"),
    [
        (CallExtras(output_operand_aliases={"z": "x"}), "output_operand_aliases names 'z'", "y"),
        (CallExtras(output_operand_aliases={"y": "z"}), "output_operand_aliases names 'z'", "x"),
        (CallExtras(input_memory_spaces={"y": "hbm"}), "input_memory_spaces names 'y'", "x"),
        (CallExtras(output_memory_spaces={"x": "hbm"}), "output_memory_spaces names 'x'", "y"),
        (CallExtras(allow_input_fusion=frozenset({"y"})), "allow_input_fusion names 'y'", "x"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_name_the_kernel_does_not_have(
    scale: Any, cfg: Any, x: Any, extras: Any, found: str, known: str, raises: Any
) -> None:
    for use in (
        lambda: scale(x=x, cfg=cfg, extras=extras),
        lambda: scale.lower(cfg, extras=extras),
        lambda: Kernel("scale_kernel", scale.config, inputs=("x",), outputs=("y",), run=scale.run, extras=extras),
    ):
        with raises(ExtrasError, "scale_kernel", found, hint=f"known names: {known}"):
            use()


@pytest.mark.parametrize("out", [{"shape": (8, 128), "dtype": bf16}, {"shape": (16, 128), "dtype": f32}], ids=str)
def test_an_alias_of_another_shape_or_dtype(out: Any, raises: Any) -> None:
    def cast_kernel(b: Builder, cfg: int) -> None:
        b.declare_args({"x": Ref((8, 128), f32), "y": Ref(**out, role=Role.OUTPUT)})

    cast = Kernel("cast_kernel", int, inputs=("x",), outputs=("y",), run=cast_kernel)
    with raises(ExtrasError, "cast_kernel", "'y' is", "cannot reuse the buffer of 'x', f32[8, 128]", hint="alias"):
        cast.lower(1, extras=CallExtras(output_operand_aliases={"y": "x"}))


def test_what_is_no_extras(scale: Any, cfg: Any, raises: Any) -> None:
    with raises(ExtrasError, "scale_kernel", "extras is a dict", hint="CallExtras"):
        scale.lower(cfg, extras={"vmem_limit_bytes": 1})


def test_an_alias_in_two_memories(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    spaces = {"input_memory_spaces": {"x": "hbm"}, "output_memory_spaces": {"y": "vmem"}}
    scale.lower(cfg, extras=CallExtras(**spaces))
    with raises(
        ExtrasError, "scale_kernel", "'x' and its alias 'y' are placed in hbm and vmem", hint="one memory space"
    ):
        scale.lower(cfg, extras=CallExtras(**spaces, output_operand_aliases={"y": "x"}))


def test_an_operand_in_two_memories(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    import jax

    def program(x: Any) -> Any:
        there = pltpu.with_memory_space_constraint(x, pltpu.HBM)
        return scale(x=there, cfg=cfg, extras=CallExtras(input_memory_spaces={"x": "vmem"}))

    with raises(ExtrasError, "scale_kernel", "'x' is constrained to hbm and placed in vmem", hint="one memory space"):
        jax.jit(program).trace(x).lower(lowering_platforms=("tpu",))


def test_a_collective_id_without_a_barrier(scale: Any, cfg: Any, raises: Any) -> None:
    with raises(ExtrasError, "scale_kernel", "no barrier semaphore", hint="leave it out"):
        scale.lower(cfg, extras=CallExtras(collective_id=1))


def test_a_barrier_without_a_collective_id(raises: Any) -> None:
    def wait_kernel(b: Builder, cfg: int) -> None:
        a = b.declare_args({"y": Ref((8, 128), f32, role=Role.OUTPUT)})
        b.pallas.semaphore_wait(b.sem_barrier(), 1)
        a.y[...] = b.zeros((8, 128), f32)

    wait = Kernel("wait_kernel", int, inputs=(), outputs=("y",), run=wait_kernel)
    with raises(ExtrasError, "wait_kernel", "without a collective_id", hint="collective_id=…"):
        wait.lower(1)
    assert wait.lower(1, extras=CallExtras(collective_id=1)).body


def test_extras_are_compared_by_value_and_cannot_change() -> None:
    metadata = {"a": "b"}
    one, other = (CallExtras(metadata=dict(metadata), flags={"f": 1}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != CallExtras(metadata=metadata)
    mine = CallExtras(metadata=metadata)
    metadata["a"] = "c"
    assert dict(mine.metadata) == {"a": "b"}
    with pytest.raises(TypeError):
        mine.metadata["a"] = "c"  # type: ignore[index]
    assert pickle.loads(pickle.dumps(one)) == one
    assert CallExtras(allow_input_fusion={"x"}) == CallExtras(allow_input_fusion=("x",))  # type: ignore[arg-type]


def test_flags_that_are_equal_but_not_the_same_write_their_own_lines(
    scale: Any, cfg: Any, x: Any, tpu_text: Any
) -> None:
    def program(x: Any) -> Any:
        return [scale(x=x, cfg=cfg, extras=CallExtras(flags={"f": value})) for value in (1, True, 1.0)]

    text = tpu_text(program, x)
    assert all(kind in text for kind in ("integer_value", "boolean_value", "double_value"))


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_a_flag_may_take_all_of_64_bits(scale: Any, cfg: Any, number: int) -> None:
    config = scale.lower(cfg, extras=CallExtras(flags={"f": number})).config
    assert config["flag_configs"] == [{"flag_type": "f", "value": {"integer_value": number}}]


def test_additional_attributes_are_on_the_call(scale: Any, cfg: Any) -> None:
    assert 'mine = "yes"' in scale.lower(cfg, extras=CallExtras(additional_attributes={"mine": "yes"})).custom_call_line


def test_every_kind_of_side_effect_has_another_line(scale: Any, cfg: Any) -> None:
    lines = {scale.lower(cfg, extras=CallExtras(side_effects=e)).custom_call_line for e in SideEffects}
    assert len(lines) == len(SideEffects)
