"""Whole kernels on the fast engine against their references; the ways a grid treats its windows."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import flash_attention, paged_attention

from conformance.cases import ragged_paged_attention as rpa_cases
from conformance.harness import pallas
from conformance.twins import gated_delta_net as gdn
from conformance.twins import matmul
from mosaic_tpu.sim import _compat, _parse
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim.xla import XlaResult, _cost, run_xla
from mosaic_tpu.zoo.references import gated_delta_net as gdn_reference
from mosaic_tpu.zoo.references import ragged_paged_attention as rpa_reference

BF16 = ml_dtypes.bfloat16
F32 = np.float32


def module_of(fn: Any, *args: Any) -> Module:
    context = _compat.new_context()
    module = _compat.ir.Module.parse(pallas.lower(fn, *args).body, context=context)
    _compat.deserialize(module)
    return _parse.parse(_compat.generic_text(module))


def normal(*shape: int, dtype: Any = F32, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(dtype)


def rounded(x: Any) -> np.ndarray:
    return np.asarray(x).astype(BF16).astype(np.float64)


def close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance)


# --- kernels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_matmul(checks: bool) -> None:
    x, y = normal(256, 384, dtype=BF16), normal(384, 256, dtype=BF16, seed=1)
    module = module_of(functools.partial(matmul.matmul, out_dtype=F32), x, y)
    result = run_xla(module, [x, y], [((256, 256), F32)], checks=checks)
    assert result.flag == 0
    close(result.outputs[0], rounded(x) @ rounded(y), 1e-4)


def test_flash_attention() -> None:
    q, k, v = (normal(1, 2, 256, 128, seed=s) for s in range(3))
    module = module_of(functools.partial(flash_attention.flash_attention, causal=True, sm_scale=128**-0.5), q, k, v)
    result = run_xla(module, [q, k, v], [((1, 2, 256, 128), F32)])
    logits = rounded(q) @ rounded(k).swapaxes(-1, -2)
    logits = np.where(np.tri(256, dtype=bool), logits * 128**-0.5, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    expected = weights @ rounded(v) / weights.sum(-1, keepdims=True)
    assert result.flag == 0
    close(result.outputs[0], expected, 8e-3)


def test_grouped_matmul_with_a_dynamic_grid() -> None:
    gmm = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.gmm")
    lhs, rhs = normal(512, 256, dtype=BF16), normal(4, 256, 256, dtype=BF16)
    sizes = np.array([100, 200, 12, 200], np.int32)
    module = module_of(functools.partial(gmm.gmm, preferred_element_type=F32), lhs, rhs, sizes)
    metadata, steps = gmm.make_group_metadata(
        group_sizes=sizes, m=512, tm=128, start_group=jnp.int32(0), num_nonzero_groups=4, visit_empty_groups=False
    )
    inputs = [steps, *metadata, np.zeros(1, np.int32), lhs, rhs]
    result = run_xla(module, inputs, [((512, 256), F32)])
    starts = np.cumsum(sizes) - sizes
    rows = [rounded(lhs[a : a + n]) @ rounded(rhs[g]) for g, (a, n) in enumerate(zip(starts, sizes, strict=True))]
    assert result.flag == 0
    close(result.outputs[0], np.concatenate(rows), 1e-4)


LENGTHS = np.array([40, 130, 64, 17], np.int32)
PAGES = np.random.default_rng(0).permutation(64).reshape(4, 16).astype(np.int32)


def paged(lengths: np.ndarray, pages: np.ndarray) -> tuple[XlaResult, np.ndarray]:
    q, k, v = normal(4, 8, 128), normal(4, 64, 16, 128, seed=1), normal(4, 64, 16, 128, seed=2)
    call = functools.partial(paged_attention.paged_attention, pages_per_compute_block=4)
    module = module_of(call, q, k, v, lengths, pages)
    inputs = [lengths, pages.reshape(-1), np.zeros(1, np.int32), np.ones(1, np.int32), q[:, :, None], k, v]
    result = run_xla(module, inputs, [((4, 8, 1, 128), F32), ((4, 8, 1, 1), F32), ((4, 8, 1, 1), F32)])
    expected = np.zeros((4, 8, 128))
    for b, length in enumerate(lengths):
        for h in range(8):
            keys, values = (rounded(x[h // 2][pages[b] % 64]).reshape(-1, 128)[:length] for x in (k, v))
            logits = keys @ rounded(q[b, h])
            weights = np.exp(logits - logits.max())
            expected[b, h] = weights @ values / weights.sum()
    return result, expected


def test_paged_attention() -> None:
    result, expected = paged(LENGTHS, PAGES)
    assert result.flag == 0
    close(result.outputs[0][:, :, 0], expected, 2e-2)


def test_a_page_out_of_range_is_flagged() -> None:
    pages = PAGES.copy()
    pages[1, 2] = 64
    result, _ = paged(LENGTHS, pages)
    assert result.failed is not None and result.failed.name == "tpu.enqueue_dma"


@pytest.mark.parametrize("bounds", [[0, 100, 256], [3, 3, 250], [0, 0, 0]], ids=str)
def test_gated_delta_net(bounds: list[int]) -> None:
    q, k = (normal(1, 256, 2, 128, dtype=BF16, seed=s) for s in range(2))
    v = normal(1, 256, 4, 128, dtype=BF16)
    g = -np.abs(normal(1, 256, 4, scale=0.1))
    beta = 1 / (1 + np.exp(normal(1, 256, 4, seed=1)))
    h0 = normal(2, 4, 128, 128, scale=0.1)
    cu = np.array(bounds, np.int32)
    plan = gdn.plan_gated_delta_net(q.shape, v.shape, 2)
    inputs = [np.asarray(x) for x in gdn.prepare_operands(plan, *map(jnp.asarray, (q, k, v, g, beta, h0, cu)))]
    module = module_of(gdn.gated_delta_net_call(plan, jnp.bfloat16, scale=128**-0.5), *inputs)
    result = run_xla(module, inputs, [((256, 4, 128), BF16), ((2, 4, 128, 128), F32)])
    wide = [np.asarray(x, np.float64) for x in (q, k, v, g, beta, h0)]
    o, ht = gdn_reference.gated_delta_net(*wide, cu)
    assert result.flag == 0
    close(result.outputs[0], o[0], 4e-3)
    close(result.outputs[1], ht, 1e-5)


@pytest.mark.parametrize("options", [{}, {"sliding_window": 24, "soft_cap": 8.0}], ids=["plain", "window and cap"])
def test_ragged_paged_attention(options: dict[str, Any]) -> None:
    """A kernel that Pallas's own interpreters cannot run: prefill, decode, a page's edge, fewer sequences than fit."""
    config = rpa_cases.RpaConfig("simulated", tokens=64, seqs=4, sm_scale=128**-0.5, **options)
    shapes = rpa_cases.args(config)
    q = normal(*shapes["q"].shape, dtype=BF16)
    kv = normal(*shapes["kv_pages"].shape, dtype=BF16, seed=1)
    pages, per_seq = kv.shape[0], shapes["page_indices"].shape[1]
    table = np.random.default_rng(0).integers(0, pages, (4, per_seq)).astype(np.int32)
    lengths, starts, seqs = np.array([40, 130, 64, 1], np.int32), np.array([0, 8, 40, 41, 64], np.int32), 3
    module = module_of(rpa_cases.pallas_fn(config), q, kv, lengths, table, starts, np.array([seqs], np.int32))
    prefetch = [lengths, table, starts, np.zeros(2, np.int32), np.array([seqs], np.int32)]
    result = run_xla(module, [*prefetch, q, kv], [(q.shape, BF16)])
    expected = rpa_reference.ragged_paged_attention(
        q, kv, lengths, table, starts, [seqs], sm_scale=config.sm_scale, **options
    )
    assert result.flag == 0
    used = slice(0, int(starts[seqs]))  # the kernel leaves the rest as it was
    close(result.outputs[0][used], expected[used], 1.5e-2)


# --- the grid --------------------------------------------------------------------------------------------------------


def test_edge_blocks() -> None:
    """What is outside the arrays is poison when read and dropped when written."""

    def kernel(x: Any, o: Any, sums: Any) -> None:
        o[...] = x[...] + 1
        sums[...] = jnp.sum(x[...], axis=0, keepdims=True) + jnp.zeros((8, 128), F32)

    call = pl.pallas_call(
        kernel,
        grid=(3,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))] * 2,
        out_shape=[jax.ShapeDtypeStruct((20, 128), F32), jax.ShapeDtypeStruct((24, 128), F32)],
    )
    x = normal(20, 128)
    result = run_xla(module_of(call, x), [x], [((20, 128), F32), ((24, 128), F32)])
    assert result.flag == 0
    np.testing.assert_array_equal(result.outputs[0], x + 1)
    assert np.isnan(result.outputs[1][16:]).all() and np.isfinite(result.outputs[1][:16]).all()


@pytest.mark.parametrize("unroll_up_to", [0, 1000], ids=["loop", "unrolled"])
@pytest.mark.parametrize(("initialised", "steps"), [(True, 3), (True, 40), (False, 3)])
def test_an_output_block_is_kept_while_it_is_revisited(
    initialised: bool, steps: int, unroll_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cost, "UNROLL_GRID_UP_TO", unroll_up_to)

    def kernel(x: Any, o: Any) -> None:
        if initialised:

            @pl.when(pl.program_id(1) == 0)
            def _() -> None:
                o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    call = pl.pallas_call(
        kernel,
        grid=(2, steps),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i * steps + j, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((16, 128), F32),
    )
    x = normal(2 * steps * 8, 128)
    found = run_xla(module_of(call, x), [x], [((16, 128), F32)]).outputs[0]
    if initialised:
        close(found, x.reshape(2, steps, 8, 128).astype(np.float64).sum(1).reshape(16, 128), 1e-4)
    else:
        assert np.isnan(found).all()


def test_scratch_and_prefetch_live_through_the_grid() -> None:
    def kernel(n: Any, x: Any, o: Any, total: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += x[...] * n[0].astype(F32)
        n[0] = n[0] + 1
        o[...] = total[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(5,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, n: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, n: (i, 0)),
        scratch_shapes=[pltpu.VMEM((8, 128), F32)],
    )
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((40, 128), F32))
    x, n = normal(40, 128), np.array([2], np.int32)
    result = run_xla(module_of(call, n, x), [n, x], [((40, 128), F32)])
    weighted = x.reshape(5, 8, 128) * np.arange(2, 7, dtype=F32)[:, None, None]
    assert result.flag == 0
    close(result.outputs[0], np.cumsum(weighted, 0).reshape(40, 128), 1e-4)


@pytest.mark.parametrize(("block", "op"), [(1, None), (2, "func.return"), (-1, "func.return")])
def test_a_window_outside_its_array_is_flagged(block: int, op: str | None) -> None:
    def kernel(n: Any, x: Any, o: Any) -> None:
        o[...] = x[...]

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i, n: (n[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, n: (i, 0)),
    )
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((16, 128), F32))
    x, n = normal(16, 128), np.array([0, block], np.int32)
    result = run_xla(module_of(call, n, x), [n, x], [((16, 128), F32)])
    assert (result.failed.name if result.failed else None) == op
    if op is None:
        np.testing.assert_array_equal(result.outputs[0], x)


def test_aliased_output_starts_as_its_input() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    call = pl.pallas_call(
        kernel,
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((32, 128), F32),
        input_output_aliases={0: 0},
    )
    x = normal(32, 128)
    module = module_of(call, x)
    module.call.aliases[0] = 0
    found = run_xla(module, [x], [((32, 128), F32)]).outputs[0]
    np.testing.assert_array_equal(found, np.concatenate([x[:16] * 2, x[16:]]))


def test_element_windows_overlap() -> None:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[8:16] - x[0:8]

    call = pl.pallas_call(
        kernel,
        grid=(3,),
        in_specs=[pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (i * 8, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((24, 128), F32),
    )
    x = normal(32, 128)
    result = run_xla(module_of(call, x), [x], [((24, 128), F32)])
    assert result.flag == 0
    np.testing.assert_array_equal(result.outputs[0], x[8:] - x[:-8])


def test_run_scoped_dma_and_semaphores() -> None:
    def kernel(x: Any, o: Any) -> None:
        def body(buffer: Any, sem: Any, count: Any) -> None:
            copy = pltpu.make_async_copy(x.at[pl.ds(8, 8)], buffer, sem)
            copy.start()
            copy.wait()
            pl.semaphore_signal(count, 3)
            o[...] = buffer[...] + pl.semaphore_read(count).astype(F32)
            pl.semaphore_wait(count, 3)

        pl.run_scoped(body, pltpu.VMEM((8, 128), F32), pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.REGULAR)

    call = pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=jax.ShapeDtypeStruct((8, 128), F32),
    )
    x = normal(16, 128)
    result = run_xla(module_of(call, x), [x], [((8, 128), F32)])
    assert result.flag == 0
    np.testing.assert_array_equal(result.outputs[0], x[8:] + 3)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_dynamic_grid_may_be_empty(steps: int) -> None:
    """No step leaves an aliased output as it was."""

    def call(n: Any, x: Any) -> Any:
        def kernel(x: Any, o: Any) -> None:
            @pl.when(pl.program_id(0) < 8)
            def _() -> None:
                o[...] = x[...] + 1

        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct((32, 128), F32)
        return pl.pallas_call(
            kernel, grid=(n,), in_specs=[spec], out_specs=spec, out_shape=out, input_output_aliases={0: 0}
        )(x)

    x = normal(32, 128)
    module = module_of(call, np.int32(0), x)
    module.call.aliases[0] = 1
    found = run_xla(module, [np.int32(steps), x], [((32, 128), F32)]).outputs[0]
    np.testing.assert_array_equal(found, np.concatenate([x[: 8 * steps] + 1, x[8 * steps :]]))
