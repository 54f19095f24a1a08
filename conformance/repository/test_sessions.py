"""What nox's sessions leave for other sessions."""

import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

from conformance.repository.repository import ROOT


@pytest.fixture
def noxfile(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Its names. Nox itself is no dependency of the tests."""
    for name in ("nox", "nox.virtualenv"):
        monkeypatch.setitem(sys.modules, name, MagicMock())
    names = {"__file__": str(ROOT / "noxfile.py"), "__name__": "noxfile"}
    exec(compile((ROOT / "noxfile.py").read_text(encoding="utf-8"), "noxfile.py", "exec"), names)
    return names


def run(noxfile: dict[str, Any], *posargs: str) -> list[str]:
    """The arguments of each program that the session runs."""
    session = MagicMock(posargs=list(posargs))
    session.run.return_value = "No TPU"
    noxfile["_conformance"](session, "report")
    return [argument for call in session.run.call_args_list for argument in call.args]


def test_only_a_run_of_the_whole_suite_leaves_its_report(noxfile: dict[str, Any]) -> None:
    assert ".conformance/report.json" in run(noxfile)
    for some in (("conformance/test_kernels.py",), ("-k", "matmul"), ("-x",)):
        assert ".conformance/report.json" not in run(noxfile, *some)
