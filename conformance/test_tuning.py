"""The zoo's README shows the tables that its defaults come from."""

from __future__ import annotations

import json

import pytest

from conformance import tuning
from conformance.harness.targets import REQUIRED
from mosaic_tpu import zoo
from mosaic_tpu.aot._table import Table
from mosaic_tpu.aot.targets import generation_of
from mosaic_tpu.zoo import tuned


def test_the_readme_has_the_tables() -> None:
    text = tuning.README.read_text(encoding="utf-8")
    assert text.partition(tuning.MARK)[2].strip() == tuning.summary().strip()


@pytest.mark.parametrize("name", tuning.TASKS)
def test_the_tables_have_the_shapes_that_are_tuned(name: str) -> None:
    entries = json.loads((tuning.FOLDER / f"{name}.json").read_text(encoding="utf-8"))["entries"]
    wanted = [(task.key, target) for task in tuning.TASKS[name]() for target in REQUIRED]
    assert len(entries) == len(wanted)
    assert all((entry["key"], entry["target"]) in wanted for entry in entries)


@pytest.mark.parametrize("name", tuning.TASKS)
def test_the_tables_are_sound_and_their_best_is_the_quickest_that_was_tried(name: str) -> None:
    for entry in Table(tuning.FOLDER / f"{name}.json", zoo.KERNELS[name].kernel.name).entries:
        ranked = sorted((t for t in entry["trials"] if t["cycles"] is not None), key=lambda t: t["cycles"])
        assert (entry["best"], entry["cycles"]) == (ranked[0]["config"], ranked[0]["cycles"])
        assert bool(entry["why"]) is (entry["metric"] == "counted")


@pytest.mark.parametrize("kind", tuned._GENERATIONS)
def test_the_zoo_knows_a_tpu_by_the_names_that_aot_knows(kind: str) -> None:
    generation = generation_of(kind)
    assert generation is not None
    assert tuned._GENERATIONS[kind] == generation.name
