"""Every example in the zoo's docstrings runs."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module

import pytest

import mosaic_tpu.zoo as package
from mosaic_tpu.zoo import KERNELS, KernelInfo

MODULES = sorted(module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


@pytest.mark.parametrize("info", KERNELS.values(), ids=KERNELS)
def test_configs_references_and_validation_have_examples(info: KernelInfo) -> None:
    described = [info.kernel.config, info.reference, *([info.validate] if info.validate else [])]
    assert all(">>> " in (inspect.getdoc(found) or "") for found in described)
