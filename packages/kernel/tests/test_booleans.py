"""Booleans in calls: the program around the call is Pallas's, and the simulator gives booleans back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.harness import pallas
from mosaic_tpu.builder import Builder, Ref, Role, f32, i1, i32
from mosaic_tpu.kernel import CallExtras, Kernel
from mosaic_tpu.kernel.errors import ExtrasError, InputError
from mosaic_tpu.sim import simulate, simulate_devices

TILE = (8, 128)
ALIASED = CallExtras(output_operand_aliases={"y": "x"})
MASK = np.arange(8 * 128).reshape(TILE) % 3 == 0
FLAG = np.array([True, False, True, True])
NUMBERS = np.linspace(-1, 1, 8 * 128, dtype=np.float32).reshape(TILE)


def run(b: Builder, cfg: int) -> None:
    a = b.declare_args(
        {
            "flag": Ref((4,), i1, "smem", Role.SCALAR_PREFETCH),
            "x": Ref(TILE, i1),
            "z": Ref(TILE, f32),
            "y": Ref(TILE, i1, role=Role.OUTPUT),
            "w": Ref(TILE, f32, role=Role.OUTPUT),
            "word": Ref((2,), i1, "smem", Role.OUTPUT),
        }
    )
    a.y[...] = ~a.x[...]
    a.w[...] = b.pallas.where(a.x[...], a.z[...], 0.0)
    a.word[0] = a.flag[1]
    a.word[1] = a.flag[2]


def theirs(flag: Any, x: Any, z: Any, y: Any, w: Any, word: Any) -> None:
    y[...] = ~x[...]
    w[...] = jnp.where(x[...], z[...], 0.0)
    word[0] = flag[1]
    word[1] = flag[2]


def called(aliases: dict[int, int]) -> Callable[..., Any]:
    shapes = [jax.ShapeDtypeStruct(*s) for s in ((TILE, jnp.bool_), (TILE, jnp.float32), ((2,), jnp.bool_))]
    whole = pl.BlockSpec()
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(),
        in_specs=[whole, whole],
        out_specs=[whole, whole, pl.BlockSpec(memory_space=pltpu.SMEM)],
    )
    return pl.pallas_call(theirs, out_shape=shapes, grid_spec=grid_spec, input_output_aliases=aliases, name="mask")


@pytest.fixture
def mask() -> Kernel[int]:
    return Kernel("mask", int, inputs=("flag", "x", "z"), outputs=("y", "w", "word"), run=run)


def expected() -> tuple[Any, ...]:
    return ~MASK, np.where(MASK, NUMBERS, 0), FLAG[1:3]


def check(found: Any) -> None:
    for array, wanted in zip(found, expected(), strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def program_of(text: str) -> list[str]:
    """The program but for the call's configuration, which other tests compare, and for names."""
    return re.sub(r'backend_config = "[^"]*"|@jit_\w+', "", text).splitlines()


@pytest.mark.parametrize("aliases", [{}, {1: 0}], ids=["", "aliased"])
def test_the_program_around_the_call_is_pallas_s(mask: Any, same: Any, aliases: dict[int, int]) -> None:
    extras = ALIASED if aliases else CallExtras()

    def ours(*arrays: Any) -> Any:
        return mask(**dict(zip(mask.inputs, arrays, strict=True)), cfg=1, extras=extras)

    arrays = (FLAG, MASK, NUMBERS)
    same(ours, called(aliases), *arrays)
    made, wanted = (pallas.lower_to_stablehlo(f, *arrays) for f in (ours, called(aliases)))
    assert program_of(made) == program_of(wanted)
    assert wanted.count("stablehlo.convert") == 4  # two operands, two results


def test_a_lowered_kernel_converts_too(mask: Any) -> None:
    text = mask.lower(1).stablehlo
    assert re.search(r"@main\(%arg0: tensor<4xi1>, %arg1: tensor<8x128xi1>, %arg2: tensor<8x128xf32>\)", text)
    assert (
        "(tensor<4xi32>, tensor<8x128xi32>, tensor<8x128xf32>) -> (tensor<8x128xi32>" in mask.lower(1).custom_call_line
    )


def test_operands_say_that_they_are_booleans(mask: Any) -> None:
    assert [o.dtype for o in mask.inputs_of(1)] == [i1, i1, f32]
    assert [o.dtype for o in mask.outputs_of(1)] == [i1, f32, i1]


@pytest.mark.parametrize("extras", [CallExtras(), ALIASED], ids=["", "aliased"])
def test_the_simulator_gives_booleans_back(mask: Any, extras: CallExtras) -> None:
    inputs = {"flag": FLAG, "x": MASK, "z": NUMBERS}
    check(mask(**inputs, cfg=1, extras=extras))
    check(mask(**inputs, cfg=1, extras=extras))  # from the caches
    check(jax.jit(lambda **arrays: mask(**arrays, cfg=1, extras=extras))(**inputs))
    for engine in ("numpy", "xla"):
        report = mask.simulate(**inputs, cfg=1, extras=extras, engine=engine)
        assert report.hazards == ()
        check(report.outputs)
    check(simulate(mask.lower(1, extras=extras), *inputs.values()).outputs)
    check(simulate_devices(mask.lower(1, extras=extras), [tuple(inputs.values())] * 2).outputs_of[1])
    assert MASK[0, 0]  # nothing was written to the caller's


def test_the_program_is_simulated_as_pallas_s_is(mask: Any) -> None:
    arrays = (FLAG, MASK, NUMBERS)
    for text in (mask.lower(1).stablehlo, pallas.lower_to_stablehlo(called({}), *arrays)):
        check(simulate(text, *arrays).outputs)


def test_each_device_has_its_booleans(mask: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    call = jax.shard_map(
        lambda x: mask(flag=FLAG, x=x, z=NUMBERS, cfg=1)[0], mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    both = np.concatenate([MASK, ~MASK])
    np.testing.assert_array_equal(jax.jit(call)(both), ~both)


def test_the_program_of_several_devices_is_pallas_s(mask: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
    spec = jax.sharding.PartitionSpec("d")

    def on_devices(call: Callable[..., Any]) -> Callable[..., Any]:
        return jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)

    ours = on_devices(lambda *arrays: mask(**dict(zip(mask.inputs, arrays, strict=True)), cfg=1))
    arrays = [jax.ShapeDtypeStruct((2 * a.shape[0], *a.shape[1:]), a.dtype) for a in (FLAG, MASK, NUMBERS)]
    made, wanted = (pallas.lower_to_stablehlo(f, *arrays) for f in (ours, on_devices(called({}))))
    assert program_of(made) == program_of(wanted)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.float32])
def test_what_holds_no_booleans_is_refused(mask: Any, dtype: Any) -> None:
    with pytest.raises(InputError, match=r"'x' is \w+\[8, 128\], the config says i1\[8, 128\]"):
        mask(flag=FLAG, x=MASK.astype(dtype), z=NUMBERS, cfg=1)


def test_booleans_are_no_integers() -> None:
    def double(b: Builder, cfg: int) -> None:
        a = b.declare_args({"x": Ref(TILE, i32), "y": Ref(TILE, i32, role=Role.OUTPUT)})
        a.y[...] = a.x[...] * 2

    kernel = Kernel("double", int, inputs=("x",), outputs=("y",), run=double)
    with pytest.raises(InputError, match="'x' is i1"):
        kernel(x=MASK, cfg=1)


def test_an_alias_is_of_one_type() -> None:
    def widened(b: Builder, cfg: int) -> None:
        a = b.declare_args({"x": Ref(TILE, i1), "y": Ref(TILE, i32, role=Role.OUTPUT)})
        a.y[...] = a.x[...].to(i32)

    kernel = Kernel("widened", int, inputs=("x",), outputs=("y",), run=widened)
    assert kernel(x=MASK, cfg=1).dtype == np.int32
    with pytest.raises(ExtrasError, match="i32"):
        kernel(x=MASK, cfg=1, extras=ALIASED)
