"""What nox's sessions leave for other sessions."""

import sys
from typing import Any
from unittest.mock import MagicMock

import pytest

from conformance.repository.repository import ROOT


@pytest.fixture(params=["linux"])
def noxfile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Its names. Nox itself is no dependency of the tests."""
    nox = MagicMock()
    nox.session = lambda function=None, **_: function or (lambda decorated: decorated)
    monkeypatch.setitem(sys.modules, "nox", nox)
    monkeypatch.setitem(sys.modules, "nox.virtualenv", MagicMock())
    monkeypatch.setattr(sys, "platform", request.param)
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


class SkippedError(Exception):
    pass


@pytest.mark.parametrize(
    ("noxfile", "skipped"), [("linux", False), ("darwin", True), ("win32", True)], indirect=["noxfile"]
)
def test_the_site_is_built_where_the_compiler_is(noxfile: dict[str, Any], skipped: bool) -> None:
    session = MagicMock(posargs=[])
    session.skip.side_effect = SkippedError
    if not skipped:
        return noxfile["docs"](session)
    with pytest.raises(SkippedError):
        noxfile["docs"](session)
    (sentence,) = session.skip.call_args.args
    assert "libtpu's wheels are for Linux" in sentence and not session.run.called
