"""What docs and command line read of each kernel is complete and true, and every preset is a kernel."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import mosaic_tpu.zoo as package
from mosaic_tpu.builder import body_text
from mosaic_tpu.builder.errors import ModuleFormatError
from mosaic_tpu.zoo import KERNELS, KernelInfo

ROOT = Path(__file__).parents[2]
PRESETS = [
    pytest.param(info, cfg, id=f"{info.name}-{name}") for info in KERNELS.values() for name, cfg in info.presets.items()
]

each = pytest.mark.parametrize("info", KERNELS.values(), ids=KERNELS)


@each
def test_a_kernel_is_described(info: KernelInfo) -> None:
    assert KERNELS[info.name] is info and getattr(package, info.name) is info.function
    assert re.fullmatch(r"[A-Z][a-z ]+", info.title)
    assert re.fullmatch(r"[^\n]+\.", info.summary)
    assert info.tags and len(set(info.tags)) == len(info.tags)
    assert info.function.__name__ == info.reference.__name__ == info.name


def test_every_function_of_the_package_is_in_the_catalogue() -> None:
    assert {name for name in package.__all__ if inspect.isfunction(getattr(package, name))} == set(KERNELS)


@each
def test_its_twin_exists(info: KernelInfo) -> None:
    assert (ROOT / info.twin).is_file() if info.twin.endswith(".py") else find_spec(info.twin)


@each
def test_its_docstring_describes_every_parameter(info: KernelInfo) -> None:
    docstring = inspect.getdoc(info.function) or ""
    described = docstring.partition("\nArgs:\n")[2].partition("\nReturns:\n")[0]
    names = re.findall(r"^    (\w+): \S", described, re.MULTILINE)
    assert names == list(inspect.signature(info.function).parameters)
    assert (
        "\nReturns:\n" in docstring and "\nRaises:\n    InputError: " in docstring and "    ConfigError: " in docstring
    )


@each
def test_its_reference_describes_every_parameter(info: KernelInfo) -> None:
    docstring = inspect.getdoc(info.reference) or ""
    assert all(re.search(rf"\b{name}\b", docstring) for name in inspect.signature(info.reference).parameters)


@each
def test_it_has_a_default(info: KernelInfo) -> None:
    assert info.default is info.presets["default"]
    assert len(set(info.presets.values())) == len(info.presets)


def test_the_catalogue_cannot_change() -> None:
    with pytest.raises(TypeError):
        KERNELS["matmul"] = KERNELS["gated_delta_net"]  # type: ignore[index]
    with pytest.raises(TypeError):
        KERNELS["matmul"].presets["default"] = None  # type: ignore[index]


@pytest.mark.parametrize(("info", "cfg"), PRESETS)
def test_a_preset_emits(info: KernelInfo, cfg: Any) -> None:
    assert isinstance(cfg, info.kernel.config)
    assert f"func.func @{info.kernel.name}(" in info.kernel.emit(cfg)


@pytest.mark.parametrize(("info", "cfg"), PRESETS)
def test_a_presets_body_is_read_back(info: KernelInfo, cfg: Any) -> None:
    body = info.kernel.lower(cfg).body
    read = re.sub(r" attributes \{stable_mosaic\.version = \d+ : i64\}", "", body_text(body), count=1)
    assert read == info.kernel.emit(cfg, canonical=False)
    with pytest.raises(ModuleFormatError):
        body_text(body[: len(body) // 2])


@pytest.mark.parametrize(("info", "cfg"), PRESETS)
def test_ops_have_lines_of_the_kernels_body(info: KernelInfo, cfg: Any) -> None:
    files = set(re.findall(r'([^"\s]+\.py)"?:\d+', info.kernel.emit(cfg, canonical=False, locations=True)))
    bodies = Path(inspect.getfile(info.kernel.run)).parent
    assert files and all(Path(file).parent == bodies for file in files)
