"""What is kept: one body for a config and what of JAX's state it depends on, and no more than fits."""

from __future__ import annotations

import base64
import re
from typing import Any

import jax
import jax.export
import pytest
from jax._src import config as jax_config
from jax._src import tpu_custom_call

from conformance.harness import levels, pallas
from mosaic_tpu.builder import Builder
from mosaic_tpu.kernel import Kernel, _build, _cache
from mosaic_tpu.kernel import kernel as factory

UNZIPS = hasattr(jax_config, "jax_mosaic_unzip_debug_locations")
needs_unzip = pytest.mark.skipif(not UNZIPS, reason="this JAX keeps locations inside the body")


@needs_unzip
def test_locations_stay_or_leave_as_jax_is_configured(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, tpu_text: Any, same_calls: Any
) -> None:
    outside = scale.lower(cfg)
    assert outside.debug_locations
    with jax_config.jax_mosaic_unzip_debug_locations(False):
        inside = scale.lower(cfg)
        assert inside.debug_locations is None
        assert "debug_locations" not in inside.config["custom_call_config"]
        ours = tpu_text(lambda x: scale(x=x, cfg=cfg), x)
        same_calls(ours, tpu_text(pallas_scale(), x))
        assert pallas.calls_in(ours)[0].body == inside.body
    assert inside.body != outside.body
    assert levels.stripped(inside.body) == levels.stripped(outside.body)
    assert scale.lower(cfg).body == outside.body


def _names(config: dict[str, Any]) -> set[bytes]:
    """The paths of Python files that a call's configuration names, in its body or beside it."""
    call = config["custom_call_config"]
    parts = [base64.b64decode(call[part]) for part in ("body", "debug_locations") if part in call]
    return set(re.findall(rb"[\w./-]*\.py", b"\0".join(parts)))


@pytest.mark.parametrize("pattern", ["^.*/(?=tests/)", "^.*/", "no such folder", None])
def test_files_are_named_as_jax_is_told(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, tpu_text: Any, pattern: str | None
) -> None:
    plain = scale.lower(cfg)
    with jax_config.hlo_source_file_canonicalization_regex(pattern):
        here = scale.lower(cfg)
        called, twin = (tpu_text(f, x) for f in (lambda x: scale(x=x, cfg=cfg), pallas_scale()))
    (call,), (theirs,) = pallas.calls_in(called), pallas.calls_in(twin)
    # The twin stands in the kernel's file, and every name that Pallas writes of it is ours too.
    assert _names(here.config) == _names(call.backend_config) == _names(theirs.backend_config) != set()
    assert levels.stripped(here.body) == levels.stripped(plain.body)
    assert (here.backend_config == plain.backend_config) is (pattern in ("no such folder", None))
    assert scale.lower(cfg).backend_config == plain.backend_config


def test_with_a_tpu_the_body_has_the_newest_version(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, tpu_text: Any, same_calls: Any, monkeypatch: Any
) -> None:
    without = scale.lower(cfg)
    assert without.ir_version == 15
    same_calls(tpu_text(lambda x: scale(x=x, cfg=cfg), x), tpu_text(pallas_scale(), x))
    monkeypatch.setattr(tpu_custom_call, "get_ir_version", lambda context: None)
    newest = scale.lower(cfg)
    assert newest.ir_version is None
    assert levels.ir_version(newest.body) > 15
    same_calls(tpu_text(lambda x: scale(x=x, cfg=cfg), x), tpu_text(pallas_scale(), x))
    monkeypatch.undo()
    assert scale.lower(cfg).body == without.body


def test_whether_there_is_a_tpu_is_asked_each_time(scale: Any, cfg: Any, monkeypatch: Any) -> None:
    class Backend:
        platform = "tpu"

    monkeypatch.setattr(jax.extend.backend, "get_backend", Backend)
    assert scale.lower(cfg).ir_version is None
    monkeypatch.undo()
    assert scale.lower(cfg).ir_version == 15


def test_an_export_does_not_change_what_is_lowered_next(counted: Any, cfg: Any, x: Any, tpu_text: Any) -> None:
    kernel = counted.kernel
    before = kernel.lower(cfg).body
    unchecked = [jax.export.DisabledSafetyCheck.custom_call("tpu_custom_call")]
    for _ in range(2):
        jax.export.export(jax.jit(lambda x: kernel(x=x, cfg=cfg)), platforms=["tpu"], disabled_checks=unchecked)(x)
    assert counted.runs == 1 + UNZIPS  # where they leave it, the export's body is another one
    assert kernel.lower(cfg).body == before
    assert pallas.calls_in(tpu_text(lambda x: kernel(x=x, cfg=cfg), x))[0].body == before


def test_a_body_does_not_depend_on_who_asked_first(scale: Any, cfg: Any) -> None:
    def elsewhere() -> bytes:
        return scale.build(cfg, target).module.body

    for target in (_build.Target(15, unzip=False), _build.Target(15, unzip=True), _build.Target(None, unzip=False)):
        bodies = set()
        for ask in (elsewhere, lambda target=target: scale.build(cfg, target).module.body):
            scale.clear_cache()
            bodies.add(ask())
        assert len(bodies) == 1


def test_only_the_last_configs_are_kept(counted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(factory, "CACHE_SIZE", 3)
    kernel = Kernel("scale_kernel", counted.kernel.config, inputs=("x",), outputs=("y",), run=counted.kernel.run)
    configs = [kernel.config(rows=8 * n) for n in range(1, 6)]
    for c in configs:
        kernel.lower(c)
    assert counted.runs == 5
    assert len(kernel._built) == len(kernel._built_once) == 3
    kernel.lower(configs[-1])
    assert counted.runs == 5
    kernel.lower(configs[0])
    assert counted.runs == 6


def test_the_config_used_last_is_dropped_last() -> None:
    cache: _cache.Cache[str, int] = _cache.Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    cache.clear()
    assert len(cache) == 0


def test_clearing_builds_again(counted: Any, cfg: Any) -> None:
    counted.kernel.lower(cfg)
    counted.kernel.clear_cache()
    counted.kernel.lower(cfg)
    assert counted.runs == 2


def test_looking_at_shapes_builds_once(counted: Any, cfg: Any) -> None:
    for _ in range(2):
        assert str(counted.kernel.inputs_of(cfg)[0]) == "f32[16, 128]"
        assert counted.kernel.outputs_of(cfg)[0].name == "y"
    assert counted.runs == 1


def test_a_run_that_failed_is_not_kept(scale: Any, cfg: Any) -> None:
    attempts: list[int] = []

    def run(b: Builder, cfg: Any) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("disk")
        scale.run(b, cfg)

    kernel = Kernel("scale_kernel", scale.config, inputs=("x",), outputs=("y",), run=run)
    with pytest.raises(OSError, match="disk"):
        kernel.lower(cfg)
    assert kernel.lower(cfg).body == scale.lower(cfg).body


def test_the_program_holds_the_body_that_lower_shows(scale: Any, cfg: Any) -> None:
    lowered = scale.lower(cfg)
    assert base64.b64encode(lowered.body).decode() in lowered.stablehlo
