"""`mosaic-tpu conformance`: reports where there are some, and where to get them where there are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .cli_kit import cli, refused, same_shape, same_text

REPORT = {
    "schema": 1,
    "date": "2026-01-02T03:04:05+00:00",
    "versions": {"python": "3.12.1", "jax": "0.12", "libtpu": None},
    "outcome": "level",
    "tables": {
        "identity": [
            {"kernel": "matmul", "config": "bf16", "level": "identical", "detail": ""},
            {"kernel": "matmul", "config": "f32", "level": "canonical", "detail": "line 3\nand more"},
            {"kernel": "other", "config": "bf16", "level": "identical", "detail": None},
        ],
        "numerics": [{"kernel": "matmul", "share": 0.25}],
    },
}


@pytest.fixture
def report(alone: None) -> None:
    Path(".conformance").mkdir()
    Path(".conformance/report.json").write_text(json.dumps(REPORT))
    Path(".conformance/bench.json").write_text("{}")


@pytest.mark.usefixtures("report")
def test_reports_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    same_text("conformance", cli("conformance", ".conformance/report.json"))
    Path("below").mkdir()
    monkeypatch.chdir("below")
    said = cli("conformance", "--json")
    assert said.code == 0
    assert said.json["reports"][0]["tables"][0]["outcomes"] == {"identical": 2, "canonical": 1}
    same_shape("conformance", said)


@pytest.mark.usefixtures("report")
def test_a_table_is_shown_in_full() -> None:
    same_text("conformance-table", cli("conformance", ".conformance/report.json", "--table", "identity"))
    said = cli("conformance", "--table", "identity", "--json")
    assert said.json["reports"][0]["rows"] == REPORT["tables"]["identity"]
    same_shape("conformance-table", said)
    refused(cli("conformance", "--table", "nothing"), "no table 'nothing'", "identity, numerics")


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        ("level", [{"identical": 2, "canonical": 1}, {}]),
        ("config", [{"bf16": 2, "f32": 1}, {}]),
        ("kernel", [{"matmul": 2, "other": 1}, {"matmul": 1}]),
        ("nothing", [{}, {}]),
        (None, [{}, {}]),
    ],
)
def test_the_report_says_which_column_has_the_outcomes(outcome: str | None, counted: list[dict[str, int]]) -> None:
    Path("report.json").write_text(json.dumps(REPORT | {"outcome": outcome}))
    tables = cli("conformance", "report.json", "--json").json["reports"][0]["tables"]
    assert [table["outcomes"] for table in tables] == counted


def test_without_reports_it_says_what_makes_them() -> None:
    refused(cli("conformance"), "there are no reports", "nox -s conformance")
    refused(cli("conformance", "no.json"), "cannot read no.json", "nox -s conformance")


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "{}", '{"schema": 2, "tables": {}}', '{"schema": 1, "tables": {"a": [1]}}',
        '{"schema": 1, "tables": []}', '{"schema": 1, "tables": {"a": {}}}', '{"schema": 1, "tables": {"a": ""}}',
        '{"schema": 1, "tables": {"a": [{"x": 1}]}, "versions": [1]}', '{"schema": 1, "tables": {}, "versions": null}',
        '{"schema": 1, "tables": {}, "outcome": [1]}', '{"schema": 1, "tables": {}, "outcome": 3}',
    ],
)  # fmt: skip
def test_another_file_is_refused(text: str) -> None:
    Path("other.json").write_text(text)
    refused(cli("conformance", "other.json"), "other.json is no report")


def test_in_a_folder_that_is_gone_a_report_is_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.json").write_text(json.dumps(REPORT))
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused(cli("conformance"), "cannot read this folder", "name the reports")
    assert cli("conformance", tmp_path / "report.json").code == 0
