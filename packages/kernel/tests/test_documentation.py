"""The examples in docstrings and in the README run."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest

import mosaic_tpu.kernel

ROOT = Path(__file__).parent.parent
MODULES = [
    "mosaic_tpu.kernel",
    *(f"mosaic_tpu.kernel.{m.name}" for m in pkgutil.iter_modules(mosaic_tpu.kernel.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_readme_s_examples_print_what_it_shows() -> None:
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```\n+```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert examples
    names = {"__name__": "readme"}
    for code, shown in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec", dont_inherit=True), names)
        assert printed.getvalue() == shown


def test_every_public_name_is_listed_and_documented() -> None:
    public = mosaic_tpu.kernel.__all__
    assert public == sorted(public)
    for name in public:
        assert getattr(mosaic_tpu.kernel, name).__doc__, name
