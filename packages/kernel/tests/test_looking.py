"""`emit` and `lower`: a kernel may be read, and handed to any PJRT client, without calling it."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from typing import Any

import pytest
from jaxlib.mlir import ir

from conformance.harness import levels, pallas
from mosaic_tpu.builder import Builder
from mosaic_tpu.builder.errors import ModuleFormatError
from mosaic_tpu.kernel import CallExtras, Kernel
from mosaic_tpu.sim import read

# --- emit -----------------------------------------------------------------------------------------------------------


def test_raw_text_has_an_op_for_each_that_was_emitted(scale: Any, cfg: Any) -> None:
    raw = scale.emit(cfg, canonical=False)
    assert raw.count("vector.load") == 2  # a store reads what it overwrites, as in Pallas
    assert (
        levels.to_text(scale.lower(cfg).body).replace(" attributes {stable_mosaic.version = 15 : i64}", "").strip()
        == raw.strip()
    )


def test_canonical_text_is_the_default_and_has_no_dead_ops(scale: Any, cfg: Any) -> None:
    text = scale.emit(cfg)
    assert text == scale.emit(cfg, canonical=True)
    assert text.count("vector.load") == 1
    assert "arith.mulf" in text


def test_locations_are_shown_on_request(scale: Any, cfg: Any) -> None:
    for canonical in (False, True):
        assert "conftest.py" not in scale.emit(cfg, canonical=canonical)
        text = scale.emit(cfg, canonical=canonical, locations=True)
        assert re.search(r"conftest\.py\"?:\d+", text)
        assert read(text).name == "scale_kernel"  # MLIR reads it


def test_text_depends_on_the_config(scale: Any) -> None:
    assert "3.000000e+00" in scale.emit(scale.config(factor=3.0))
    assert "3.000000e+00" not in scale.emit(scale.config(factor=2.0))


def test_emitting_does_not_touch_what_is_kept(counted: Any, cfg: Any) -> None:
    body = counted.kernel.lower(cfg).body
    counted.kernel.emit(cfg)
    assert counted.kernel.lower(cfg).body == body


# --- lower ----------------------------------------------------------------------------------------------------------


def test_a_lowered_kernel_names_its_parts(scale: Any, cfg: Any) -> None:
    lowered = scale.lower(cfg)
    assert lowered.name == "scale_kernel"
    assert lowered.body.startswith(b"ML\xefR")
    assert lowered.ir_version == levels.ir_version(lowered.body) == 15
    assert lowered.text() == levels.to_text(lowered.body).rstrip() + "\n"
    assert lowered.text(canonical=True).count("vector.load") == 1


def test_the_backend_config_is_json(scale: Any, cfg: Any) -> None:
    extras = CallExtras(vmem_limit_bytes=9, metadata={"quote": '"'}, flags={"a": True, "b": 1e30})
    lowered = scale.lower(cfg, extras=extras)
    assert lowered.config == json.loads(lowered.backend_config)
    call = lowered.config["custom_call_config"]
    assert base64.b64decode(call["body"]) == lowered.body
    assert (call.get("debug_locations") is None) == (lowered.debug_locations is None)
    if lowered.debug_locations:
        assert base64.b64decode(call["debug_locations"]) == lowered.debug_locations


@pytest.mark.parametrize(
    "extras",
    [
        CallExtras(),
        CallExtras(vmem_limit_bytes=9, disable_bounds_checks=True, output_operand_aliases={"y": "x"}),
        CallExtras(output_memory_spaces={"y": "hbm"}, flags={"a": 1}, metadata={"a": 'b"'}),
    ],
    ids=["default", "aliased", "placed"],
)
def test_the_line_holds_the_backend_config(scale: Any, cfg: Any, extras: Any) -> None:
    lowered = scale.lower(cfg, extras=extras)
    [call] = pallas.calls_in(lowered.stablehlo)
    assert call.backend_config == lowered.config
    assert lowered.custom_call_line.startswith("stablehlo.custom_call @tpu_custom_call(%arg0)")
    assert lowered.custom_call_line in lowered.stablehlo
    assert call.line == lowered.custom_call_line


def test_a_lowered_kernel_is_compared_by_value(scale: Any, cfg: Any) -> None:
    lowered = scale.lower(cfg)
    assert lowered == scale.lower(cfg)
    assert hash(lowered) == hash(scale.lower(cfg))
    assert lowered != scale.lower(cfg, extras=CallExtras(vmem_limit_bytes=9))
    assert lowered != scale.lower(scale.config(factor=3.0))


def test_a_lowered_kernel_shows_no_bytes(scale: Any, cfg: Any) -> None:
    assert repr(scale.lower(cfg)) == "LoweredKernel(name='scale_kernel', ir_version=15)"


def test_a_program_in_another_form_has_no_line(scale: Any, cfg: Any, raises: Any) -> None:
    lowered = dataclasses.replace(scale.lower(cfg), _stablehlo=lambda: "module {}")
    with raises(ModuleFormatError, "scale_kernel", "no such line", hint="lowered.stablehlo"):
        _ = lowered.custom_call_line


def test_the_program_is_a_module_of_its_own(scale: Any, cfg: Any) -> None:
    text = scale.lower(cfg).stablehlo
    with levels.context() as context:
        pallas.stablehlo.register_dialect(context)
        module = ir.Module.parse(text)
        assert module.operation.verify()
    assert "module @jit_scale_kernel" in text
    assert "func.func public @main(%arg0: tensor<16x128xf32>)" in text
    assert "mhlo.num_partitions = 1" in text


def test_the_name_is_sanitized_as_pallas_does(scale: Any, cfg: Any) -> None:
    odd = Kernel("odd <name>", scale.config, inputs=("x",), outputs=("y",), run=scale.run)
    lowered = odd.lower(cfg)
    assert "@odd__name_" in lowered.text()
    assert 'kernel_name = "odd__name_"' in lowered.custom_call_line


def test_a_kernel_s_own_extras_may_be_replaced(scale: Any, cfg: Any) -> None:
    kernel = Kernel(
        "k", scale.config, inputs=("x",), outputs=("y",), run=scale.run, extras=CallExtras(vmem_limit_bytes=1)
    )
    assert "scoped_memory_configs" in kernel.lower(cfg).config
    assert "scoped_memory_configs" not in kernel.lower(cfg, extras=CallExtras()).config


def test_a_kernel_shows_what_it_is(scale: Any) -> None:
    assert repr(scale) == "Kernel('scale_kernel', ScaleConfig, inputs=('x',), outputs=('y',))"


def test_a_builder_s_error_keeps_the_kernel_s_line(scale: Any, cfg: Any, raises: Any) -> None:
    from mosaic_tpu.builder.errors import DTypeError

    def run(b: Builder, cfg: Any) -> None:
        scale.run(b, cfg)
        b.addf(b.lift(1), b.lift(2))

    kernel = Kernel("wrong", scale.config, inputs=("x",), outputs=("y",), run=run)
    for look in (kernel.emit, kernel.lower, kernel.outputs_of):
        with raises(DTypeError, "arith.addf"):
            look(cfg)
