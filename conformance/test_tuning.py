"""The zoo's README shows the tables that its defaults come from."""

from __future__ import annotations

import json

import pytest

from conformance import tuning


def test_the_readme_has_the_tables() -> None:
    text = tuning.README.read_text(encoding="utf-8")
    assert text.partition(tuning.MARK)[2].strip() == tuning.summary().strip()


@pytest.mark.parametrize("name", tuning.TASKS)
def test_the_tables_have_the_shapes_that_are_tuned(name: str) -> None:
    entries = json.loads((tuning.FOLDER / f"{name}.json").read_text(encoding="utf-8"))["entries"]
    wanted = [(task.key, target) for task in tuning.TASKS[name]() for target in tuning.TARGETS]
    assert len(entries) == len(wanted)
    assert all((entry["key"], entry["target"]) in wanted for entry in entries)
