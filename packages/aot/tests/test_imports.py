"""What needs no compiler needs neither JAX nor libtpu, nor waits for what it does not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import DOUBLE

ABSENT = """
import sys
for name in ("jax", "libtpu", "scipy"):
    sys.modules[name] = None  # whoever imports it fails
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "said",
    [
        f"aot.lint({DOUBLE!r}).findings == ()",
        f"aot.lint({DOUBLE!r}, target=['v5e', 'tpu7x:2x2']).errors == ()",
        f"aot.vmem_need({DOUBLE!r}).total == 8192",
        f"aot.roofline({DOUBLE!r}, 'v6e').work",
        "aot.find_target('v5e:2x2')",
        "aot.compiler_version() != ''",
    ],
    ids=["lint", "lint for targets", "vmem_need", "roofline", "find_target", "compiler_version"],
)
def test_it_runs_without(said: str) -> None:
    done = run(f"{ABSENT}\nfrom mosaic_tpu import aot\nassert {said}")
    assert done.returncode == 0, done.stderr


def test_what_is_hidden_cannot_be_imported() -> None:
    done = run(f"{ABSENT}\nimport scipy.special")
    assert "ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize("name", ["jax", "libtpu", "scipy", "statistics", "jaxlib.xla_client"])
def test_importing_it_imports_no_more_than_it_takes(name: str) -> None:
    done = run(f"import sys\nimport mosaic_tpu.aot\nassert {name!r} not in sys.modules")
    assert done.returncode == 0, done.stderr
