"""Bounds of the grid that are known at run time only are the call's first operands, as in Pallas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.builder import Builder, Ref, Role, Scalar, Window, f32, i32
from mosaic_tpu.kernel import CallExtras, InputError, Kernel, KernelDefinitionError
from mosaic_tpu.sim.errors import InputError as BadInputError
from mosaic_tpu.sim.errors import UnwrittenOutputError

type Same = Callable[..., None]

ROWS = 64
BLOCK = pl.BlockSpec((8, 128), lambda i: (i, 0))
N, X = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((ROWS, 128), jnp.float32)


def twice(b: Builder, _: int) -> None:
    block = Window((8, 128), index_map=lambda i: (i, 0))
    rows = {"window": block, "array_shape": (ROWS, 128)}
    specs = {"x": Ref((8, 128), f32, **rows), "y": Ref((8, 128), f32, role=Role.OUTPUT, **rows)}
    a = b.declare_args({"i": Scalar(i32), **specs}, grid=(None,))
    a.y[...] = a.x[...] * 2.0


def pallas_twice(**parameters: Any) -> Any:
    def body(x: Any, y: Any) -> None:
        y[...] = x[...] * 2.0

    return lambda n, x: pl.pallas_call(
        body, grid=(n,), in_specs=[BLOCK], out_specs=BLOCK, out_shape=X, name="body", **parameters
    )(x)


def define(**changes: Any) -> Kernel[int]:
    return Kernel("body", int, **{"inputs": ("n", "x"), "outputs": ("y",), "run": twice, **changes})


@pytest.mark.parametrize(
    ("extras", "parameters"),
    [
        (CallExtras(), {}),
        (CallExtras(output_operand_aliases={"y": "x"}), {"input_output_aliases": {0: 0}}),
        (
            CallExtras(allow_input_fusion=frozenset({"x"})),
            {"compiler_params": pltpu.CompilerParams(allow_input_fusion=[True])},
        ),
    ],
    ids=["plain", "aliased", "fused"],
)
def test_a_bound_is_the_first_operand(same: Same, extras: CallExtras, parameters: dict[str, Any]) -> None:
    kernel = define(extras=extras)
    same(lambda n, x: kernel(cfg=0, n=n, x=x), pallas_twice(**parameters), N, X)


def test_bounds_come_before_scalar_prefetch(same: Same) -> None:
    def gather(b: Builder, _: int) -> None:
        specs = {
            "s": Ref((4,), i32, memory_space="smem", role=Role.SCALAR_PREFETCH),
            "x": Ref((8, 128), f32, window=Window(index_map=lambda i, j, s: (s[j], 0)), array_shape=(ROWS, 128)),
            "y": Ref(
                (8, 128),
                f32,
                role=Role.OUTPUT,
                window=Window(index_map=lambda i, j, s: (i, 0)),
                array_shape=(ROWS, 128),
            ),
        }
        a = b.declare_args({"i": Scalar(i32), "j": Scalar(i32), **specs}, grid=(None, None))
        a.y[...] = a.x[...] * 2.0

    def body(s: Any, x: Any, y: Any) -> None:
        y[...] = x[...] * 2.0

    def theirs(m: Any, n: Any, s: Any, x: Any) -> Any:
        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(m, n),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j, s: (s[j], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, j, s: (i, 0)),
        )
        return pl.pallas_call(body, grid_spec=spec, out_shape=X)(s, x)

    kernel = define(inputs=("m", "n", "s", "x"), run=gather)
    starts = jax.ShapeDtypeStruct((4,), jnp.int32)
    same(lambda m, n, s, x: kernel(cfg=0, m=m, n=n, s=s, x=x), theirs, N, N, starts, X)


@pytest.mark.parametrize("steps", [8, 3, 1, 0])
def test_the_simulator_runs_as_many_steps(steps: int) -> None:
    kernel = define(partial_outputs=("y",))
    x = np.ones((ROWS, 128), np.float32)
    report = kernel.simulate(cfg=0, n=np.int32(steps), x=x)
    assert (report.steps, report.dmas) == (steps, 2 * steps)
    assert report.unwritten == ({"y": (ROWS - 8 * steps) * 128} if steps < 8 else {})
    for found in (report.outputs[0], np.asarray(kernel(cfg=0, n=np.int32(steps), x=x))):
        assert (found[: 8 * steps] == 2.0).all()
        assert np.isnan(found[8 * steps :]).all()  # the simulator's mark of what nobody wrote


def test_windows_beyond_a_bound_are_a_fault_where_the_output_is_whole() -> None:
    x = np.ones((ROWS, 128), np.float32)
    assert (np.asarray(define()(cfg=0, n=np.int32(8), x=x)) == 2.0).all()
    for steps, missing in ((3, 5120), (0, 8192)):
        with pytest.raises(
            UnwrittenOutputError, match=f"^tpu.vector_store: {missing} of 8192 elements of the output y"
        ):
            define()(cfg=0, n=np.int32(steps), x=x)


def test_a_bound_is_not_negative() -> None:
    x = np.ones((ROWS, 128), np.float32)
    with pytest.raises(BadInputError, match=r"^body: a bound of the grid is -1\n  hint: give an int32, 0 or more"):
        define(partial_outputs=("y",))(cfg=0, n=np.int32(-1), x=x)


def test_every_bound_is_named(raises: Any) -> None:
    with raises(KernelDefinitionError, "body", "(None,)", hint="before the other inputs"):
        define(inputs=()).lower(0)
    with raises(KernelDefinitionError, "body", "0 inputs are named", hint="after the bounds"):
        define(inputs=("x",)).lower(0)


@pytest.mark.parametrize(
    ("bound", "text", "hint"),
    [
        (8, "'n' is a int", "jnp.asarray(n"),
        (np.int64(8), "'n' is i64[]", "array"),
        (np.uint32(8), "'n' is u32[]", "array"),
        (np.float32(8), "'n' is f32[]", "array"),
        (np.ones((1,), np.int32), "'n' is i32[1]", "array"),
    ],
    ids=["int", "i64", "u32", "f32", "array"],
)
def test_a_bound_is_a_scalar_of_i32(raises: Any, bound: Any, text: str, hint: str) -> None:
    with raises(InputError, "body", text, "the config says i32[]", hint=hint):
        define()(cfg=0, n=bound, x=np.ones((ROWS, 128), np.float32))
