"""Configs are values, and refuse what their kernels do not take, at the line that makes them."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from mosaic_tpu.builder import bf16, f16, f32, f64, i4, i8, i32, semaphore, u8
from mosaic_tpu.kernel import ConfigError
from mosaic_tpu.zoo import KERNELS
from mosaic_tpu.zoo.kernels.gated_delta_net import GatedDeltaNetConfig
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig
from mosaic_tpu.zoo.kernels.ragged_paged_attention import HeadBlock, RaggedPagedAttentionConfig, min_head_block

from .conftest import Refuses

MATMUL: MatmulConfig = KERNELS["matmul"].default
ATTENTION: RaggedPagedAttentionConfig = KERNELS["ragged_paged_attention"].default
DELTA_NET: GatedDeltaNetConfig = KERNELS["gated_delta_net"].default
CONFIGS = [MATMUL, ATTENTION, DELTA_NET]

each = pytest.mark.parametrize("cfg", CONFIGS, ids=lambda cfg: type(cfg).__name__)

NO_SIZES = (0, -1, 1.0, "8", True, None)
NO_NUMBERS = ("1", True, float("nan"), float("inf"), 10**400, [1.0])
#: For each config: every field → values that it refuses.
REFUSED: dict[Any, dict[str, tuple[Any, ...]]] = {
    MATMUL: {
        **dict.fromkeys(("m", "n", "k", "block_m", "block_n", "block_k"), NO_SIZES),
        **dict.fromkeys(("x_dtype", "y_dtype"), (f64, u8, i32, semaphore, "bf16", None)),
        "out_dtype": (f64, semaphore, "bf16", None),
    },
    ATTENTION: {
        **{f.name: NO_SIZES for f in dataclasses.fields(ATTENTION) if f.type == "int"},
        "q_dtype": (f16, i8, "bf16", None),
        "kv_dtype": (f64, semaphore, "bf16", None),
        "sm_scale": (*NO_NUMBERS, -float("inf"), None),
        "mask_value": (*NO_NUMBERS, None),
        **dict.fromkeys(("k_scale", "v_scale"), (*NO_NUMBERS, -float("inf"))),
        "soft_cap": (*NO_NUMBERS, -float("inf"), 0.0),
        **dict.fromkeys(("sliding_window", "vmem_limit_bytes"), NO_SIZES[:-1]),
    },
    DELTA_NET: {
        **{f.name: NO_SIZES for f in dataclasses.fields(DELTA_NET) if f.type == "int"},
        "dtype": (f16, i8, "bf16", None),
        "scale": (*NO_NUMBERS, -float("inf")),
        **dict.fromkeys(("use_qk_l2norm", "transpose_keys"), (1, None, "yes")),
        "vmem_limit_bytes": NO_SIZES[:-1],
    },
}
ROWS = [
    pytest.param(cfg, field, value, id=f"{type(cfg).__name__}-{field}-{value!s:.20}")
    for cfg, fields in REFUSED.items()
    for field, values in fields.items()
    for value in values
]


@pytest.mark.parametrize(("cfg", "field", "value"), ROWS)
def test_a_field_of_another_kind_is_refused(cfg: Any, field: str, value: Any, refuses: Refuses) -> None:
    with refuses(ConfigError, field.removesuffix("_dtype").removeprefix("block_")):
        dataclasses.replace(cfg, **{field: value})


@each
def test_every_field_is_refused_something(cfg: Any) -> None:
    assert {f.name for f in dataclasses.fields(cfg)} == set(REFUSED[cfg])


RELATIONS = [
    (MATMUL, {"block_m": 500}, "block_m=500 does not divide m=2048"),
    (MATMUL, {"block_n": 4096}, "block_n=4096 does not divide n=2048"),
    (MATMUL, {"k": 2049}, "block_k=512 does not divide k=2049"),
    (MATMUL, {"x_dtype": i8}, "x is i8, y is bf16"),
    (ATTENTION, {"num_kv_heads": 3}, "8 query heads do not divide into 3"),
    (ATTENTION, {"head_dim": 100}, "head_dim is 100"),
    (ATTENTION, {"num_kv_pages_per_block": 17}, "blocks of 17 pages"),
    (ATTENTION, {"k_scale": 1.0, "q_dtype": f32}, "give both"),
    (ATTENTION, {"v_scale": 1.0, "kv_dtype": i8}, "give both"),
    (ATTENTION, {"kv_dtype": u8, "num_kv_heads": 4}, "a cache of u8 without scales"),
    (ATTENTION, {"num_kv_heads": 1, "kv_dtype": i8}, "do not fill tiles"),
    (ATTENTION, {"num_kv_heads": 8, "num_q_heads": 8, "kv_dtype": f32}, "do not fill tiles of 8 rows"),
    (ATTENTION, {"page_size": 1, "num_kv_pages_per_block": 1}, "one page of one token"),
    (DELTA_NET, {"value_heads": 5}, "5 value heads for 2"),
    (DELTA_NET, {"key_heads": 16, "value_heads": 16, "block_heads": 4}, "block_heads=4 of 16"),
    (DELTA_NET, {"block_v": 100}, "block_v=100"),
    (DELTA_NET, {"block_tokens": 12}, "block_tokens=12"),
    (DELTA_NET, {"tokens": 100}, "block_tokens=128 of 100"),
]


@pytest.mark.parametrize(("cfg", "changes", "text"), RELATIONS)
def test_fields_that_do_not_fit_each_other_are_refused(
    cfg: Any, changes: dict[str, Any], text: str, refuses: Refuses
) -> None:
    with refuses(ConfigError, text):
        dataclasses.replace(cfg, **changes)


FITTING = [
    (MATMUL, {"m": 3, "block_m": 3}),
    (MATMUL, {"x_dtype": i8, "y_dtype": i4, "out_dtype": i32}),
    (MATMUL, {"y_dtype": i8, "out_dtype": f32}),
    (ATTENTION, {"k_scale": 0.5, "v_scale": 2, "kv_dtype": i8}),
    (ATTENTION, {"k_scale": 0.5}),
    (ATTENTION, {"kv_dtype": u8, "k_scale": 1.0, "v_scale": 1.0}),
    (ATTENTION, {"num_q_heads": 12, "num_kv_heads": 4, "kv_dtype": f32}),
    (ATTENTION, {"soft_cap": -1.0, "sliding_window": 1, "sm_scale": -2, "mask_value": float("-inf")}),
    (ATTENTION, {"page_size": 1, "num_kv_pages_per_block": 2}),
    (ATTENTION, {"num_queries_per_block": 1000}),
    (DELTA_NET, {"tokens": 100, "block_tokens": 104}),
    (DELTA_NET, {"key_heads": 24, "value_heads": 48, "block_heads": 8}),
    (DELTA_NET, {"dtype": f32, "scale": 0, "vmem_limit_bytes": 1}),
]


@pytest.mark.parametrize(("cfg", "changes"), FITTING)
def test_fields_that_fit_are_taken(cfg: Any, changes: dict[str, Any]) -> None:
    assert vars(dataclasses.replace(cfg, **changes)) == vars(cfg) | changes


@each
def test_a_config_cannot_change(cfg: Any) -> None:
    for field in dataclasses.fields(cfg):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(cfg, field.name, getattr(cfg, field.name))


@each
def test_equal_configs_are_one_key_and_others_are_another(cfg: Any) -> None:
    same = dataclasses.replace(cfg)
    other = dataclasses.replace(cfg, **({"out_dtype": f32} if cfg is MATMUL else {"vmem_limit_bytes": 1}))
    assert same is not cfg and same == cfg and hash(same) == hash(cfg)
    assert other != cfg and {cfg: 1, other: 2}[same] == 1


@each
def test_a_config_survives_pickling(cfg: Any) -> None:
    assert pickle.loads(pickle.dumps(cfg)) == cfg


@each
def test_every_field_is_documented(cfg: Any) -> None:
    described = type(cfg).__doc__.partition("Attributes:")[2].partition("Raises:")[0]
    for field in dataclasses.fields(cfg):
        assert f"\n        {field.name}: " in described


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ((32, 8, bf16, bf16), (32, 8)),
        ((64, 16, bf16, bf16), (32, 8)),
        ((64, 16, bf16, i8), (64, 16)),
        ((32, 32, f32, f32), (4, 4)),
        ((64, 32, f32, f32), (8, 4)),
        ((8, 1, bf16, bf16), (8, 1)),
    ],
)
def test_a_head_block_is_the_fewest_heads_whose_tiles_are_full(heads: Any, expected: tuple[int, int]) -> None:
    assert min_head_block(*heads) == HeadBlock(*expected)
