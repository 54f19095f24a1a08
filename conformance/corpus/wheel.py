"""The kernels of JAX's wheel, `jax.experimental.pallas.ops.tpu`, over configs that reach their branches."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops import tpu as wheel
from jax.experimental.pallas.ops.tpu import all_gather, example_kernel, flash_attention, matmul, megablox
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.paged_attention.quantization_utils import QuantizedTensor
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import kernel as ragged
from jax.experimental.pallas.ops.tpu.random import philox, threefry
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from conformance.corpus.case import Cases, arrays

CASES = Cases("wheel")

#: Modules of the wheel that hold no kernel, and what they are for.
WITHOUT_KERNELS = {
    "megablox.common": "asks what the TPU is",
    "megablox.ops": "the gradient of megablox.gmm, made of its kernels: the case `gmm-gradient`",
    "paged_attention.quantization_utils": "functions of jnp around the kernel",
    "paged_attention.util": "functions of jnp for the tests of the wheel",
    "ragged_paged_attention.tuned_block_sizes": "a table",
    "random.prng_utils": "functions that the kernels of philox and threefry call",
    "splash_attention.splash_attention_mask": "masks in NumPy",
    "splash_attention.splash_attention_mask_info": "masks in NumPy, as blocks",
}


def modules() -> Iterator[str]:
    """The modules of the wheel's package, by the names after it; a package itself has no kernel."""
    for module in pkgutil.walk_packages(wheel.__path__, wheel.__name__ + "."):
        if not module.ispkg:
            yield module.name.removeprefix(wheel.__name__ + ".")


def callers(module: str) -> dict[str, str]:
    """The functions of a module that call `pallas_call`, each with the file it is in."""
    source = inspect.getsource(found := importlib.import_module(f"{wheel.__name__}.{module}"))
    return {name: str(found.__file__) for name in _calling(ast.parse(source), "")}


def _calling(node: ast.AST, function: str) -> Iterator[str]:
    """The innermost functions around the calls of `pallas_call`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute) and child.attr == "pallas_call":
            yield function
        yield from _calling(child, child.name if isinstance(child, ast.FunctionDef) else function)


# --- small ones ------------------------------------------------------------------------------------------------------

CASES.add("double", ("mul",), example_kernel.double, arrays("f32[8,128]"))
for _dtype, _block, _k in (("f32", (128, 128), 128), ("bf16", (256, 256), 256), ("bf16", (128, 256), 512)):
    CASES.add(
        f"matmul-{_dtype}-{_block[0]}x{_block[1]}x{_k}",
        ("dot_general",),
        functools.partial(matmul.matmul, block_shape=_block, block_k=_k),
        arrays(f"{_dtype}[256,512]", f"{_dtype}[512,256]"),
    )
CASES.add(
    "matmul-to-f32",
    ("dot_general",),
    functools.partial(matmul.matmul, block_shape=(128, 128), out_dtype=jnp.float32),
    arrays("bf16[128,256]", "bf16[256,128]"),
)


def _add_all_gather(name: str, operand: str, axes: dict[str, int], axis: Any, space: Any) -> None:
    mesh = AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))
    (array,) = arrays(operand)
    placed = jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=NamedSharding(mesh, PartitionSpec(axis)))
    function = functools.partial(all_gather.all_gather, mesh=mesh, axis_name=axis, memory_space=space)
    CASES.add(f"all_gather-{name}", ("dma_start",), function, (placed,))


_add_all_gather("vmem", "f32[32,128]", {"x": 4}, "x", pltpu.VMEM)
_add_all_gather("hbm", "bf16[128,256]", {"x": 4}, "x", pltpu.HBM)
_add_all_gather("two-axes", "f32[32,128]", {"x": 2, "y": 2}, "x", pltpu.VMEM)

for _name, _shape in (("whole", (256, 256)), ("padded", (100, 100)), ("row", (200,)), ("batch", (2, 256, 256))):
    CASES.add(
        f"philox-{_name}",
        ("mul", "xor"),
        lambda key, s=_shape: philox.philox_random_bits(key, 32, s),
        arrays("u32[2]"),
    )
    CASES.add(
        f"threefry-{_name}",
        ("threefry2x32",),
        lambda key, s=_shape: threefry.plthreefry_random_bits(key, 32, s),
        arrays("u32[2]"),
    )
CASES.add("philox-split", (), lambda key: philox.philox_split(key, (2,)), arrays("u32[2]"))
CASES.add("philox-fold_in", (), lambda key, n: philox.philox_fold_in(key, n[0]), arrays("u32[2]", "u32[1]"))

# --- grouped products ------------------------------------------------------------------------------------------------

_GMM = ("bf16[256,128]", "bf16[4,128,256]", "s32[4]")
_gmm = importlib.import_module(f"{wheel.__name__}.megablox.gmm")
for _name, _operands, _options in (
    ("plain", _GMM, {}),
    ("f32", ("f32[256,128]", "f32[4,128,128]", "s32[4]"), {}),
    ("transposed", ("bf16[256,128]", "bf16[4,256,128]", "s32[4]"), {"transpose_rhs": True}),
    ("ragged-k", ("bf16[256,200]", "bf16[4,200,128]", "s32[4]"), {}),
    ("wide", ("bf16[512,256]", "bf16[4,256,256]", "s32[4]"), {"tiling": (256, 128, 256)}),
    ("to-bf16", _GMM, {"preferred_element_type": jnp.bfloat16}),
):
    CASES.add(f"gmm-{_name}", ("dot_general",), functools.partial(_gmm.gmm, **_options), arrays(*_operands))
CASES.add(
    "gmm-of-a-shard",
    ("dot_general",),
    lambda x, y, sizes, offset: _gmm.gmm(x, y, sizes, group_offset=offset[0]),
    arrays("bf16[256,128]", "bf16[2,128,256]", "s32[4]", "s32[1]"),
)
CASES.add(
    "gmm-into",
    ("dot_general",),
    lambda x, y, sizes, out: _gmm.gmm(x, y, sizes, existing_out=out),
    arrays(*_GMM, "f32[256,256]"),
)
for _name, _options in (
    ("plain", {}),
    ("to-bf16", {"preferred_element_type": jnp.bfloat16}),
    ("two-groups", {"num_actual_groups": 2}),
):
    CASES.add(
        f"tgmm-{_name}",
        ("dot_general",),
        functools.partial(_gmm.tgmm, **_options),
        arrays("bf16[128,256]", "bf16[256,128]", "s32[4]"),
    )
CASES.add(
    "gmm-gradient",
    ("dot_general",),
    jax.grad(lambda x, y, sizes: jnp.sum(megablox.gmm(x, y, sizes)), argnums=(0, 1)),
    arrays("f32[256,128]", "f32[4,128,128]", "s32[4]"),
)

# --- flash attention -------------------------------------------------------------------------------------------------


def _add_flash(
    name: str,
    dtype: str = "bf16",
    batch: int = 1,
    queries: int = 256,
    keys: int = 256,
    head_dim: int = 128,
    blocks: tuple[int, int, int, int] = (128, 128, 128, 1),
    bias: bool = False,
    segments: bool = False,
    gradient: bool = False,
    **options: Any,
) -> None:
    q, major, k, batches = blocks
    sizes = flash_attention.BlockSizes(
        block_q=q,
        block_k_major=major,
        block_k=k,
        block_b=batches,
        block_q_major_dkv=q,
        block_k_major_dkv=major,
        block_k_dkv=k,
        block_q_dkv=q,
        block_k_major_dq=major,
        block_k_dq=k,
        block_q_dq=q,
    )

    def function(q: Any, k: Any, v: Any, *more: Any) -> Any:
        ids = flash_attention.SegmentIds(*more[-2:]) if segments else None
        return flash_attention.flash_attention(q, k, v, more[0] if bias else None, ids, block_sizes=sizes, **options)

    def gradients(*arrays: Any) -> Any:
        wanted = (0, 1, 2, 3) if bias else (0, 1, 2)
        return jax.grad(lambda *xs: jnp.sum(function(*xs).astype(jnp.float32)), argnums=wanted)(*arrays)

    row, column = f"{dtype}[{batch},2,{queries},{head_dim}]", f"{dtype}[{batch},2,{keys},{head_dim}]"
    operands = [row, column, column]
    operands += [f"f32[{batch},2,{queries},{keys}]"] if bias else []
    operands += [f"s32[{batch},{queries}]", f"s32[{batch},{keys}]"] if segments else []
    CASES.add(f"flash-{name}", ("dot_general", "exp"), gradients if gradient else function, arrays(*operands))


for _gradient in (False, True):
    _tail = "-gradient" if _gradient else ""
    _add_flash(f"bf16{_tail}", gradient=_gradient)
    _add_flash(f"f32{_tail}", dtype="f32", gradient=_gradient)
    _add_flash(f"causal{_tail}", causal=True, gradient=_gradient)
    _add_flash(f"bias{_tail}", bias=True, gradient=_gradient, dtype="f32")
    _add_flash(f"segments{_tail}", segments=True, gradient=_gradient)
    _add_flash(f"everything{_tail}", bias=True, segments=True, causal=True, gradient=_gradient, sm_scale=0.5)
    _add_flash(f"two-steps{_tail}", keys=512, blocks=(128, 256, 128, 1), gradient=_gradient)
    _add_flash(f"head-256{_tail}", head_dim=256, gradient=_gradient)
_add_flash("one-step", blocks=(128, 256, 256, 1))
_add_flash("one-step-causal", blocks=(128, 256, 256, 1), causal=True, segments=True)
_add_flash("two-batches-a-block", batch=2, blocks=(128, 128, 128, 2))
_add_flash("head-64", head_dim=64)

# --- splash attention ------------------------------------------------------------------------------------------------

_LENGTH = 256


def _add_splash(
    name: str,
    mask: Any,
    heads: int = 2,
    dtype: str = "bf16",
    is_mqa: bool = False,
    fused: bool = False,
    gradient: bool = False,
    segments: bool = False,
    layouts: tuple[Any, Any, Any] = (splash.QKVLayout.HEAD_DIM_MINOR,) * 3,
    keys_at_once: int = 128,
    **options: Any,
) -> None:
    sizes = splash.BlockSizes(
        block_q=128, block_kv=128, block_kv_compute=keys_at_once,
        block_q_dkv=128, block_kv_dkv=128, block_kv_dkv_compute=keys_at_once,
        block_q_dq=None if fused else 128, block_kv_dq=None if fused else 128,
        use_fused_bwd_kernel=fused, q_layout=layouts[0], k_layout=layouts[1], v_layout=layouts[2],
    )  # fmt: skip

    def function(q: Any, k: Any, v: Any, *ids: Any) -> Any:
        make = splash.make_splash_mqa if is_mqa else splash.make_splash_mha
        attend = make(masks.MultiHeadMask([mask] * heads), block_sizes=sizes, head_shards=1, q_seq_shards=1, **options)
        return attend(q, k, v, segment_ids=splash.SegmentIds(*ids) if segments else None)

    def gradients(*xs: Any) -> Any:
        return jax.grad(lambda *ys: jnp.sum(function(*ys).astype(jnp.float32)), argnums=(0, 1, 2))(*xs)

    keys = f"{dtype}[{_LENGTH},128]" if is_mqa else f"{dtype}[{heads},{_LENGTH},128]"
    operands = [f"{dtype}[{heads},{_LENGTH},128]", keys, keys]
    operands += [f"s32[{_LENGTH}]"] * 2 if segments else []
    CASES.add(f"splash-{name}", ("dot_general", "exp"), gradients if gradient else function, arrays(*operands))


_SQUARE = (_LENGTH, _LENGTH)
_CAUSAL = masks.CausalMask(_SQUARE)
_RANDOM = masks.NumpyMask(np.random.default_rng(0).random(_SQUARE) > 0.5)
_add_splash("full", masks.FullMask(_SQUARE))
_add_splash("causal", _CAUSAL)
_add_splash("causal-offset", masks.CausalMask(_SQUARE, offset=8))
_add_splash("local", masks.LocalMask(_SQUARE, (64, 64), 0))
_add_splash("chunked", masks.ChunkedCausalMask(_SQUARE, 64))
_add_splash("numpy", _RANDOM)
_add_splash("or", masks.LogicalOr(_CAUSAL, masks.LocalMask(_SQUARE, (16, 16), 0)))
_add_splash("f32", _CAUSAL, dtype="f32")
_add_splash("mqa", _CAUSAL, is_mqa=True)
_add_splash("segments", _CAUSAL, segments=True)
_add_splash("soft-cap", _CAUSAL, attn_logits_soft_cap=30.0)
_add_splash("residuals", _CAUSAL, save_residuals=True)
_add_splash("sequence-minor", _CAUSAL, layouts=(splash.QKVLayout.SEQ_MINOR,) * 3)
for _fused in (False, True):
    _how = "fused" if _fused else "gradient"
    _add_splash(f"full-{_how}", masks.FullMask(_SQUARE), gradient=True, fused=_fused)
    _add_splash(f"causal-{_how}", _CAUSAL, gradient=True, fused=_fused)
    _add_splash(f"numpy-{_how}", _RANDOM, gradient=True, fused=_fused)
    _add_splash(f"everything-{_how}", _CAUSAL, gradient=True, fused=_fused, segments=True, attn_logits_soft_cap=30.0)
_add_splash("mqa-gradient", _CAUSAL, gradient=True, is_mqa=True)

# --- paged attention -------------------------------------------------------------------------------------------------


def _add_paged(
    name: str, dtype: str = "bf16", q_heads: int = 8, kv_heads: int = 4, quantized: bool = False, **options: Any
) -> None:
    pages, page_size = 16, 16

    def function(q: Any, k: Any, v: Any, lengths: Any, tables: Any, *scales: Any) -> Any:
        if quantized:
            k, v = QuantizedTensor(k, scales[0]), QuantizedTensor(v, scales[1])
        return paged_attention(q, k, v, lengths, tables, pages_per_compute_block=4, **options)

    cache = f"{'s8' if quantized else dtype}[{kv_heads},{pages},{page_size},128]"
    operands = [f"{dtype}[2,{q_heads},128]", cache, cache, "s32[2]", "s32[2,8]"]
    operands += [f"f32[{kv_heads},{pages},{page_size},1]"] * 2 if quantized else []
    CASES.add(f"paged-{name}", ("dma_start", "dot_general"), function, arrays(*operands))


_add_paged("bf16")
_add_paged("f32", dtype="f32")
_add_paged("group-of-8", q_heads=16, kv_heads=2)
_add_paged("soft-cap", attn_logits_soft_cap=1.0)
_add_paged("s8", dtype="f32", quantized=True)
_add_paged("a-step-a-block", inline_seq_dim=False)
_add_paged("s8-a-step-a-block", dtype="f32", quantized=True, inline_seq_dim=False)
_add_paged("megacore-heads", megacore_mode="kv_head")
_add_paged("megacore-batch", megacore_mode="batch")


def _add_ragged(
    name: str, dtype: str = "bf16", kv_dtype: str | None = None, q_heads: int = 8, kv_heads: int = 2, **options: Any
) -> None:
    function = functools.partial(
        ragged.ragged_paged_attention,
        num_kv_pages_per_block=2,
        num_queries_per_block=8,
        vmem_limit_bytes=32 << 20,
        **options,
    )
    operands = (
        f"{dtype}[32,{q_heads},128]", f"{kv_dtype or dtype}[16,16,{2 * kv_heads},128]",
        "s32[4]", "s32[4,8]", "s32[5]", "s32[1]",
    )  # fmt: skip
    CASES.add(f"ragged-{name}", ("dma_start", "dot_general", "while"), function, arrays(*operands))


_add_ragged("bf16")
_add_ragged("f32", dtype="f32")
_add_ragged("one-kv-head", q_heads=4, kv_heads=1)
_add_ragged("window-and-cap", sliding_window=5, soft_cap=50.0)
_add_ragged("scaled", k_scale=0.5, v_scale=2.0, sm_scale=0.1)
_add_ragged("s8", kv_dtype="s8", kv_heads=4, k_scale=0.5, v_scale=0.5)
