"""The functions work wherever JAX calls them for a TPU, and nowhere else."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu import zoo
from mosaic_tpu.kernel import InputError, NoTPUError, TransformationError

from .conftest import ARRAYS, attention_arrays, delta_net_arrays, filled, matmul_arrays, zeros

NAMES = sorted(zoo.KERNELS)


def _hlo(function: Any, arrays: dict[str, Any], **options: Any) -> str:
    traced = jax.jit(functools.partial(function, **options)).trace(**arrays)
    return traced.lower(lowering_platforms=("tpu",)).as_text()


@pytest.mark.parametrize("name", NAMES)
def test_under_jit_it_is_one_custom_call(name: str) -> None:
    text = _hlo(zoo.KERNELS[name].function, ARRAYS[name]())
    assert text.count("@tpu_custom_call") == 1
    assert f'kernel_name = "{zoo.KERNELS[name].kernel.name}"' in text


@pytest.mark.parametrize("name", NAMES)
def test_results_have_the_shapes_and_dtypes_of_the_reference(name: str) -> None:
    info, arrays = zoo.KERNELS[name], ARRAYS[name]()
    ours = jax.tree.leaves(jax.eval_shape(info.function, **arrays))
    values = zeros(arrays)
    theirs = jax.tree.leaves(info.reference(**values))
    assert [a.shape for a in ours] == [a.shape for a in theirs]
    like = {"matmul": "x", "ragged_paged_attention": "q", "gated_delta_net": "v"}[name]
    assert ours[0].dtype == arrays[like].dtype


def test_states_keep_their_type_and_padding_is_taken_off() -> None:
    arrays = delta_net_arrays(value_dim=72)
    o, ht = jax.eval_shape(zoo.gated_delta_net, **arrays)
    assert (o.shape, o.dtype) == (arrays["v"].shape, jnp.bfloat16)
    assert (ht.shape, ht.dtype) == (arrays["h0"].shape, jnp.float32)


def test_out_dtype_is_the_results() -> None:
    arrays = matmul_arrays(dtype="int8")
    assert jax.eval_shape(functools.partial(zoo.matmul, out_dtype=jnp.int32), **arrays).dtype == jnp.int32
    assert jax.eval_shape(zoo.matmul, **arrays).dtype == jnp.int8


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_exported_from_a_machine_without_a_tpu(name: str) -> None:
    exported = jax.export.export(jax.jit(zoo.KERNELS[name].function), platforms=["tpu"])(**ARRAYS[name]())
    assert exported.platforms == ("tpu",) and "@tpu_custom_call" in exported.mlir_module()


@pytest.mark.parametrize("name", NAMES)
def test_on_a_cpu_it_is_simulated(name: str) -> None:
    info = zoo.KERNELS[name]
    arrays = filled(ARRAYS[name]())
    ours = jax.tree.leaves(info.function(**arrays))
    theirs = jax.tree.leaves(info.reference(**arrays))
    for mine, exact in zip(ours, theirs, strict=True):
        # The numerics table of the conformance suite has the derived bounds; here the results are bf16, of bf16.
        assert np.abs(np.asarray(mine, np.float64) - exact).max() <= 2**-6 * np.abs(exact).max()


@pytest.mark.parametrize("name", NAMES)
def test_exported_for_a_cpu_it_says_so(name: str) -> None:
    with pytest.raises(NoTPUError, match="cpu"):
        jax.export.export(jax.jit(zoo.KERNELS[name].function), platforms=["cpu"])(**ARRAYS[name]())


def test_it_may_stand_beside_other_ops() -> None:
    text = _hlo(lambda x, y: jnp.tanh(zoo.matmul(x * 2, y)) + 1, matmul_arrays())
    assert "@tpu_custom_call" in text and "stablehlo.tanh" in text


def test_vmap_and_grad_say_what_to_do() -> None:
    arrays = matmul_arrays(dtype="float32")
    with pytest.raises(TransformationError, match=r"jax\.lax\.map"):
        jax.eval_shape(jax.vmap(zoo.matmul), *(jax.ShapeDtypeStruct((2, *a.shape), a.dtype) for a in arrays.values()))
    with pytest.raises(TransformationError, match="custom_vjp"):
        jax.eval_shape(jax.grad(lambda x, y: zoo.matmul(x, y).sum()), *arrays.values())


def test_an_option_changes_the_program() -> None:
    arrays = attention_arrays()
    plain = _hlo(zoo.ragged_paged_attention, arrays)
    assert plain == _hlo(zoo.ragged_paged_attention, arrays)
    for option in ({"soft_cap": 3.0}, {"sliding_window": 7}, {"sm_scale": 0.5}, {"vmem_limit_bytes": 32 << 20}):
        assert plain != _hlo(zoo.ragged_paged_attention, arrays, **option)


def test_none_is_the_default_mask_value() -> None:
    arrays = attention_arrays()
    assert _hlo(zoo.ragged_paged_attention, arrays, mask_value=None) == _hlo(zoo.ragged_paged_attention, arrays)


def test_debug_prints_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    jax.eval_shape(functools.partial(zoo.matmul, debug=True), **matmul_arrays())
    assert "func.func @matmul_kernel" in capsys.readouterr().out
    jax.eval_shape(zoo.matmul, **matmul_arrays())
    assert not capsys.readouterr().out


def test_a_traced_option_is_refused() -> None:
    with pytest.raises(InputError, match=r"sm_scale.*\n.*\n.*part of the program"):
        jax.eval_shape(lambda s, **a: zoo.ragged_paged_attention(**a, sm_scale=s), jnp.float32(1), **attention_arrays())
