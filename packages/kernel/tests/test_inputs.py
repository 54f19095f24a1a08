"""Arrays and configs are checked before anything is emitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from mosaic_tpu.builder import Builder, DType, Ref, Role, bf16, f32, i4, i8, i32, u8
from mosaic_tpu.kernel import ConfigError, InputError, Kernel
from mosaic_tpu.kernel.extras import FrozenMapping


def test_a_missing_input(scale: Any, cfg: Any, raises: Any) -> None:
    with raises(InputError, "scale_kernel", "missing input 'x'", hint="inputs: x"):
        scale(cfg=cfg)


def test_an_unexpected_input(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(InputError, "scale_kernel", "unexpected input 'z'", hint="inputs: x"):
        scale(x=x, z=x, cfg=cfg)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.ones((16, 64), np.float32), "f32[16, 64]"),
        (np.ones((2, 8, 128), np.float32), "f32[2, 8, 128]"),
        (np.float32(1), "f32[]"),
        (np.ones((16, 128), np.float64), "f64[16, 128]"),
        (np.ones((16, 128), np.int32), "i32[16, 128]"),
        (np.ones((16, 128), ml_dtypes.bfloat16), "bf16[16, 128]"),
        (np.ones((16, 128), bool), "i1[16, 128]"),
        (np.ones((16, 128), np.complex64), "complex64[16, 128]"),
        (np.full((16, 128), "a"), "<U1[16, 128]"),
        (np.full((16, 128), None), "object[16, 128]"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_another_shape_or_dtype(scale: Any, cfg: Any, given: Any, found: str, raises: Any) -> None:
    with raises(InputError, "scale_kernel", f"'x' is {found}, the config says f32[16, 128]", hint="change the config"):
        scale(x=given, cfg=cfg)


def test_another_shape_in_a_jitted_function(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(InputError, "scale_kernel", "'x' is f32[8, 128]"):
        jax.jit(lambda x: scale(x=x[:8], cfg=cfg))(x)


def test_a_random_key(scale: Any, cfg: Any, raises: Any) -> None:
    with raises(InputError, "scale_kernel", "'x' is key<fry>[16]"):
        scale(x=jax.random.split(jax.random.key(0), 16), cfg=cfg)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([[1.0] * 128] * 16, "list"),
        ([[1.0], []], "list"),
        (1.0, "float"),
        (None, "NoneType"),
        ("x", "str"),
        (jax.ShapeDtypeStruct((16, 128), jnp.float32), "ShapeDtypeStruct"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_is_no_array(scale: Any, cfg: Any, given: Any, kind: str, raises: Any) -> None:
    with raises(
        InputError, "scale_kernel", f"'x' is a {kind}, the config says f32[16, 128]", hint="jnp.asarray(x, 'float32')"
    ):
        scale(x=given, cfg=cfg)


def test_what_turns_itself_into_an_array(scale: Any, cfg: Any, x: Any) -> None:
    class Wrapped:
        def __jax_array__(self) -> Any:
            return x

    assert jax.eval_shape(lambda: scale(x=Wrapped(), cfg=cfg)).shape == (16, 128)


@pytest.mark.parametrize("dtype", [f32, bf16, i8, i32, u8, i4], ids=str)
def test_every_dtype_is_told_apart(dtype: DType, raises: Any) -> None:
    def copy_kernel(b: Builder, rows: int) -> None:
        hbm = {"memory_space": "any"}
        b.declare_args({"x": Ref((rows, 128), dtype, **hbm), "y": Ref((rows, 128), dtype, role=Role.OUTPUT, **hbm)})

    copy = Kernel("copy_kernel", int, inputs=("x",), outputs=("y",), run=copy_kernel)
    out = jax.eval_shape(lambda x: copy(x=x, cfg=64), jax.ShapeDtypeStruct((64, 128), dtype.numpy))
    assert out.dtype == dtype.numpy
    other = np.uint16 if dtype is not u8 else np.int8
    with raises(InputError, "copy_kernel", f"the config says {dtype}[64, 128]"):
        copy(x=np.zeros((64, 128), other), cfg=64)


# --- configs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deep:
    rows: int = 8
    anything: Any = None


def deep_kernel(b: Builder, cfg: Deep) -> None:
    a = b.declare_args({"x": Ref((cfg.rows, 128), f32), "y": Ref((cfg.rows, 128), f32, role=Role.OUTPUT)})
    a.y[...] = a.x[...]


@pytest.fixture
def deep() -> Kernel[Deep]:
    return Kernel("deep_kernel", Deep, inputs=("x",), outputs=("y",), run=deep_kernel)


@dataclass
class Loose:
    rows: int = 8


class Options(Flag):
    FAST = 1
    SMALL = 2


@dataclass(frozen=True)
class Nested:
    sizes: list[int] = field(default_factory=list)


@pytest.mark.parametrize("call", ["emit", "lower", "inputs_of", "outputs_of", "extras_of"])
def test_a_config_of_another_class(scale: Any, call: str, raises: Any) -> None:
    with raises(ConfigError, "scale_kernel", "cfg is a Deep", hint="cfg=ScaleConfig(…)"):
        getattr(scale, call)(Deep())


def test_a_call_with_a_config_of_another_class(scale: Any, x: Any, raises: Any) -> None:
    with raises(ConfigError, "scale_kernel", "cfg is a NoneType"):
        scale(x=x, cfg=None)


@pytest.mark.parametrize(
    ("member", "found"),
    [
        ([1], "cfg.anything is a list, which can change"),
        ((1, {2: 3}), "cfg.anything[1] is a dict, which can change"),
        (Nested(), "cfg.anything.sizes is a list, which can change"),
        (Loose(), "cfg.anything is a Loose, which can change"),
        (np.zeros(2), "cfg.anything is a ndarray, which can change"),
        (jnp.zeros(2), "cfg.anything is an array"),
        (FrozenMapping({"a": np.zeros(2)}), "cfg.anything is a FrozenMapping, which can change"),
        (frozenset({range(2)}), "a member of cfg.anything is a range, whose members are not told apart"),
        (FrozenMapping({range(2): 1}), "a key of cfg.anything is a range"),  # type: ignore[dict-item]
    ],
    ids=lambda v: type(v).__name__,
)
def test_a_config_with_a_member_that_can_change(deep: Any, member: Any, found: str, raises: Any) -> None:
    for look in (deep.emit, deep.lower, lambda cfg: deep(x=jnp.ones((8, 128)), cfg=cfg)):
        with raises(ConfigError, "deep_kernel", found):
            look(Deep(anything=member))


def test_a_config_with_a_traced_member(deep: Any, raises: Any) -> None:
    with raises(ConfigError, "deep_kernel", "cfg.rows is an array", hint="inputs of the call"):
        jax.jit(lambda n: deep.lower(Deep(rows=n)))(8)
    with raises(ConfigError, "deep_kernel", "cfg.rows is an array", hint="inputs of the call"):
        jax.jit(lambda n: deep.emit(Deep(rows=n)))(8)


@pytest.mark.parametrize(
    "member",
    [
        None,
        True,
        1,
        1.5,
        float("nan"),
        "text",
        b"bytes",
        (1, (2.0,)),
        frozenset({1}),
        jnp.float32,
        np.dtype("int8"),
        f32,
        Role.INPUT,
        Options.FAST | Options.SMALL,
        Options,
        FrozenMapping({"a": (1, 2)}),
        Deep(),
        int,
        len,
        np.float32(2),
        slice(1, 2),
    ],
    ids=str,
)
def test_a_config_with_members_that_cannot_change(deep: Any, member: Any) -> None:
    assert deep.lower(Deep(anything=member)).body == deep.lower(Deep()).body


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (np.float32(1), 1.0),
        (np.float32(0), np.float32(-0.0)),
        ((0,), (False,)),
        (frozenset({1}), frozenset({1.0})),
        (frozenset({1}), frozenset({True})),
        (frozenset({(0,)}), frozenset({(-0.0,)})),
        (FrozenMapping({1: "a"}), FrozenMapping({True: "a"})),  # type: ignore[dict-item]
        (FrozenMapping({"a": 1}), FrozenMapping({"a": 1.0})),
    ],
    ids=str,
)
def test_configs_that_are_equal_but_not_the_same_are_built_apart(one: Any, other: Any) -> None:
    assert one == other
    configs = [Deep(anything=one), Deep(anything=other), Deep(anything=one)]
    runs: list[Any] = []

    def run(b: Builder, cfg: Deep) -> None:
        runs.append(cfg.anything)
        deep_kernel(b, cfg)

    kernel = Kernel("deep", Deep, inputs=("x",), outputs=("y",), run=run)
    for cfg in configs:
        kernel.lower(cfg)
    assert [repr(r) for r in runs] == [repr(one), repr(other)]


def test_a_set_is_the_same_in_any_order(deep: Any) -> None:
    one, other = frozenset([8, 16]), frozenset([16, 8])  # 8 and 16 meet in one slot, so that the first comes first
    assert list(one) != list(other)
    assert deep._key(Deep(anything=one)) == deep._key(Deep(anything=other))


def test_a_nan_is_the_same_nan(scale: Any) -> None:
    nans = [scale.config(factor=float("nan")) for _ in range(2)]
    scale.lower(nans[0])
    assert scale._key(nans[0]) == scale._key(nans[1])
