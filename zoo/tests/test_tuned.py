"""Blocks that nobody gave come from the tables where one has the shapes, and from rules where none does."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mosaic_tpu.zoo import tuned as tables
from mosaic_tpu.zoo.api import matmul as matmul_api
from mosaic_tpu.zoo.api import ragged_paged_attention as rpa_api
from mosaic_tpu.zoo.tuned import attached_generation, tuned

ENTRIES = [
    (name, entry)
    for name in ("matmul", "ragged_paged_attention")
    for entry in json.loads((resources.files(tables) / f"{name}.json").read_text(encoding="utf-8"))["entries"]
]
SHAPES = {"bf16": jnp.bfloat16, "f32": jnp.float32}


def on(monkeypatch: pytest.MonkeyPatch, generation: str | None) -> None:
    for module in (matmul_api, rpa_api):
        monkeypatch.setattr(module, "attached_generation", lambda: generation)


def planned(name: str, key: dict[str, Any], **changes: int) -> Any:
    """The config of a call with the shapes of an entry."""
    if name == "matmul":
        shapes = ((key["m"], key["k"]), key["x_dtype"]), ((key["k"], key["n"]), key["y_dtype"])
        arrays = [jax.ShapeDtypeStruct(shape, SHAPES[dtype]) for shape, dtype in shapes]
        return matmul_api.plan(*arrays, out_dtype=SHAPES[key["out_dtype"]])
    sizes = {"tokens": 256, "pages_per_seq": 1024 // key["page_size"], **changes}
    arrays = [
        jax.ShapeDtypeStruct((sizes["tokens"], key["num_q_heads"], key["head_dim"]), SHAPES[key["q_dtype"]]),
        jax.ShapeDtypeStruct(
            (512, key["page_size"], 2 * key["num_kv_heads"], key["head_dim"]), SHAPES[key["kv_dtype"]]
        ),
        *(jax.ShapeDtypeStruct(s, jnp.int32) for s in ((8,), (8, sizes["pages_per_seq"]), (9,), (1,))),
    ]
    return rpa_api.plan(*arrays)


@pytest.mark.parametrize(("name", "entry"), ENTRIES, ids=lambda value: value if isinstance(value, str) else "")
def test_an_entry_is_taken_on_its_generation_and_on_no_other(
    name: str, entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, None)
    untuned = planned(name, entry["key"])
    on(monkeypatch, entry["target"])
    found = planned(name, entry["key"])
    assert {field: getattr(found, field) for field in entry["best"]} == entry["best"]
    on(monkeypatch, "v4")
    assert planned(name, entry["key"]) == untuned


def test_every_generation_that_is_required_has_the_same_shapes() -> None:
    for name in ("matmul", "ragged_paged_attention"):
        keys = {t: [e["key"] for n, e in ENTRIES if n == name and e["target"] == t] for t in ("v5e", "v6e", "tpu7x")}
        assert keys["v5e"] == keys["v6e"] == keys["tpu7x"] != []


def test_the_best_is_the_one_with_the_fewest_cycles() -> None:
    for _, entry in ENTRIES:
        tried = [t for t in entry["trials"] if t["cycles"] is not None]
        best = min(tried, key=lambda t: t["cycles"])
        assert best["config"] == entry["best"]
        assert entry["cycles"] == best["cycles"]


def test_a_short_batch_gets_no_larger_blocks_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    name, entry = next((n, e) for n, e in ENTRIES if n == "ragged_paged_attention")
    on(monkeypatch, entry["target"])
    found = planned(name, entry["key"], tokens=8, pages_per_seq=1)
    assert (found.num_queries_per_block, found.num_kv_pages_per_block) == (8, 1)


def test_blocks_that_are_given_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    _, entry = next((n, e) for n, e in ENTRIES if n == "matmul")
    on(monkeypatch, entry["target"])
    key = entry["key"]
    x = jax.ShapeDtypeStruct((key["m"], key["k"]), jnp.bfloat16)
    y = jax.ShapeDtypeStruct((key["k"], key["n"]), jnp.bfloat16)
    cfg = matmul_api.plan(x, y, block_shape=(128, 128))
    assert (cfg.block_m, cfg.block_n, cfg.block_k) == (128, 128, 256)


def test_without_a_tpu_there_is_no_generation() -> None:
    assert attached_generation() is None
    assert tuned("matmul", None, m=2048) is None
    assert tuned("gated_delta_net", "v6e") is None
