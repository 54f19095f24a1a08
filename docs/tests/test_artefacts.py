"""What the site keeps says when it was made, and is of this tree: what has changed since is seen in milliseconds."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from conformance import cheat_sheet, conftest
from docs.generate import artefacts, site
from docs.generate.site import ARTEFACTS, artefact
from mosaic_tpu import zoo

CONFORMANCE = artefact("conformance.json")
ZOO = artefact("zoo.json")


def test_artefacts_say_when_and_with_what_they_were_made() -> None:
    for report in CONFORMANCE.values():
        assert report["date"]
        assert report["versions"]["jax"]
    assert all(found["made"]["versions"]["libtpu"] for found in ZOO.values())
    assert set(artefacts.BATCHES) <= set(zoo.KERNELS)


def test_reports_are_of_each_jax_the_newest_first() -> None:
    assert list(CONFORMANCE) == list(reversed(cheat_sheet.load()))


@pytest.mark.parametrize("jax", CONFORMANCE)
def test_a_report_is_of_what_the_suite_has(jax: str) -> None:
    assert artefacts.stale(jax, CONFORMANCE[jax]) == [], "`nox -s conformance docs-artefacts` brings it up to date"


def test_schedules_are_of_the_bodies_that_the_zoo_emits() -> None:
    assert {name: found["body"] for name, found in ZOO.items()} == {
        name: artefacts.body_of(name) for name in zoo.KERNELS
    }


# --- a whole report, and what is not one -----------------------------------------------------------------------------


def report(jax: str) -> dict[str, object]:
    """A report with a row for each thing that the suite has."""
    newest = list(cheat_sheet.load())[-1]
    tables = {
        "cheat-sheet": [{"pair": p, "dtype": "f32", "level": "identical"} for p in cheat_sheet.load()[jax]],
        "identity": [{"kernel": c.kernel, "config": c.config, "level": "identical"} for c in artefacts.CASES],
        "compile": [{"kernel": k.name, "config": p} for k in zoo.KERNELS.values() for p in k.presets],
        "numerics": [
            {"kernel": c.kernel, "config": c.config, "engine": e, "level": "within"}
            for c in artefacts.NUMERICS
            for e in c.engines
        ],
        "faults: planted": [{"kernel": f.kernel.name, "fault": f.name} for f in artefacts.FAULTS],
    }
    shown = tables if jax == newest else {name: tables[name] for name in ("cheat-sheet", "identity")}
    return {"date": "2026-01-02", "versions": {"jax": jax}, "tables": shown}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whole reports, and where what is made of them goes."""
    monkeypatch.setattr(artefacts, "ROOT", tmp_path)
    monkeypatch.setattr(artefacts, "CONFORMANCE", tmp_path / "conformance.json")
    (tmp_path / ".conformance").mkdir()
    for name, jax in zip(artefacts.REPORTS, reversed(cheat_sheet.load()), strict=True):
        (tmp_path / name).write_text(json.dumps(report(jax)))
    return tmp_path


def test_whole_reports_are_kept_and_no_older_ones(folder: Path) -> None:
    (folder / "conformance.json").write_text(json.dumps({"reports": {"0.13.0rc1": {}}}))
    assert artefacts.main(["--only-conformance"]) == 0
    kept = json.loads((folder / "conformance.json").read_text())["reports"]
    assert list(kept) == list(reversed(cheat_sheet.load()))


@pytest.mark.parametrize("table", ["cheat-sheet", "identity", "compile", "numerics", "faults: planted"])
@pytest.mark.parametrize("change", ["missing", "renamed"])
def test_a_part_of_a_report_is_refused(table: str, change: str, folder: Path) -> None:
    file = folder / artefacts.REPORTS[0]
    part = json.loads(file.read_text())
    if change == "missing":
        del part["tables"][table]
    else:
        last = part["tables"][table][-1]
        last["pair" if table == "cheat-sheet" else "kernel"] = "another"
    file.write_text(json.dumps(part))
    with pytest.raises(SystemExit, match=f"{table} has .* rows, which are not the .* Run `nox -s conformance`"):
        artefacts.main(["--only-conformance"])
    assert not (folder / "conformance.json").exists()


def test_a_report_that_is_missing_is_a_failure(folder: Path) -> None:
    (folder / artefacts.REPORTS[1]).unlink()
    with pytest.raises(SystemExit, match="is not there"):
        artefacts.main(["--only-conformance"])


def test_a_jax_that_nobody_compared_is_refused() -> None:
    kept = copy.deepcopy(next(iter(CONFORMANCE.values())))
    assert artefacts.stale("0.13.0rc1", kept) == [
        f"JAX 0.13.0rc1 is none of those of the cheat-sheet, {', '.join(cheat_sheet.load())}"
    ]


def test_a_run_of_some_tests_leaves_the_whole_reports_alone() -> None:
    assert conftest._DEFAULT_FILE not in artefacts.REPORTS


# --- damaged files ---------------------------------------------------------------------------------------------------

DAMAGE = {
    "empty": "", "no JSON": "{", "an object": "{}", "a list": "[]", "null": "null", "deep": "[" * 100_000,
    "another schema": '{"schema": 2, "kernels": {"a": {}}, "reports": {"a": {}}}',
    "nothing in it": '{"schema": 1, "kernels": {}, "reports": {}}',
    "a list in it": '{"schema": 1, "kernels": [], "reports": []}',
    "nothing in one": '{"schema": 1, "kernels": {"a": {}}, "reports": {"a": {}}}',
    "no text": "\ud800", "gone": None,
}  # fmt: skip


@pytest.mark.parametrize("name", ["zoo.json", "conformance.json"])
@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named_with_what_makes_it_again(
    name: str, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ARTEFACTS", tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(
        SystemExit, match=f"docs/artefacts/{name} cannot be used, `nox -s docs-artefacts` makes it"
    ) as e:
        artefact(name)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("table", ["compile", "numerics", "faults: planted"])
def test_a_report_without_a_table_is_damaged(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ARTEFACTS", tmp_path)
    reports = copy.deepcopy(CONFORMANCE)
    file = tmp_path / "conformance.json"
    file.write_text(json.dumps({"schema": 1, "reports": reports}))
    assert artefact("conformance.json") == CONFORMANCE
    del next(iter(reports.values()))["rows"][table]
    file.write_text(json.dumps({"schema": 1, "reports": reports}))
    with pytest.raises(SystemExit, match=f"the newest report has no table '{table}'"):
        artefact("conformance.json")


def test_a_kernel_that_is_not_in_the_file_is_named() -> None:
    assert site.of_kernel("matmul") == ZOO["matmul"]
    with pytest.raises(SystemExit, match=r"zoo\.json cannot be used, `nox -s docs-artefacts` .* it has no kernel new"):
        site.of_kernel("new")


def test_a_damaged_file_is_made_again_of_all_kernels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(artefacts, "ARTEFACTS", tmp_path)
    monkeypatch.setattr(artefacts, "ZOO", tmp_path / "zoo.json")
    monkeypatch.setattr(artefacts, "REQUIRED", ())
    (tmp_path / "zoo.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"docs/artefacts/zoo\.json cannot be used"):
        artefacts.zoo_artefacts(["matmul"])
    artefacts.zoo_artefacts(zoo.KERNELS)
    assert list(artefact("zoo.json")) == list(zoo.KERNELS)


# --- drawings --------------------------------------------------------------------------------------------------------


def test_artefacts_are_small() -> None:
    assert sum(file.stat().st_size for file in ARTEFACTS.rglob("*") if file.is_file()) < 1_000_000


def test_a_smaller_drawing_keeps_all_but_fractions_of_outlines() -> None:
    drawing = '<rect x="1.5" fill-opacity="0.15"/><path d="M1 2V3.4H5.6V3.2H7.1V9Z"/>'
    assert artefacts.smaller(drawing) == '<rect x="1.5" fill-opacity="0.15"/><path d="M1 2V3H7V9Z"/>'
