"""`Kernel.compile` and `Kernel.lint` are `mosaic_tpu.aot`'s, on the kernel's own call, and say what is missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.aot.errors import NoCompilerError, ScopedVmemError
from mosaic_tpu.builder import Builder, Ref, Role, f32
from mosaic_tpu.kernel import CallExtras, ConfigError, Kernel, MissingPackageError

compiler = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="the TPU compiler is not installed: pip install 'mosaic-tpu-aot[tpu]'",
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(tmp_path))


@compiler
def test_a_config_is_compiled(scale: Any, cfg: Any) -> None:
    result = scale.compile(cfg, target="v5e")
    assert (result.ok, result.name, str(result.target)) == (True, "scale_kernel", "v5e")


@compiler
def test_the_calls_extras_reach_the_compiler(scale: Any, cfg: Any) -> None:
    with pytest.raises(ScopedVmemError):
        scale.compile(cfg, extras=CallExtras(vmem_limit_bytes=4096))
    assert scale.compile(cfg, extras=CallExtras(vmem_limit_bytes=4096), vmem_limit_bytes=1 << 20).ok


def too_large_kernel(b: Builder, rows: int) -> None:
    big = Ref((rows, 1024), f32, role=Role.SCRATCH)
    a = b.declare_args(dict(x=Ref((8, 128), f32), y=Ref((8, 128), f32, role=Role.OUTPUT), big=big))
    a.y[...] = a.x[...] + a.big[0:8, 0:128]


TOO_LARGE = Kernel("too_large", int, inputs=("x",), outputs=("y",), run=too_large_kernel)


def test_lint_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "libtpu", None)
    monkeypatch.setattr("mosaic_tpu.aot._compat.compiler_version", lambda: None)
    with pytest.raises(NoCompilerError):
        TOO_LARGE.compile(8)
    report = TOO_LARGE.lint(1 << 17, target="v6e")
    assert [finding.rule for finding in report.errors]
    assert not TOO_LARGE.lint(8).errors


def test_a_bad_config_is_refused_before_anything_else(scale: Any) -> None:
    for call in (scale.compile, scale.lint):
        with pytest.raises(ConfigError):
            call(3)


def test_without_the_package_there_is_one_sentence(scale: Any, cfg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mosaic_tpu.aot", None)
    for call in (scale.compile, scale.lint):
        with pytest.raises(MissingPackageError, match="mosaic-tpu-aot") as error:
            call(cfg)
        assert "pip install" in str(error.value)
