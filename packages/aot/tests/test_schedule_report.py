"""A schedule can be read: as text in a terminal, as JSON, as an SVG; and two can be compared."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from mosaic_tpu.aot.schedule import Schedule, diff, svg

from .schedule_kit import dumps, schedule

ALL = [
    ("matmul", "v5e"),
    ("matmul", "v6e"),
    ("matmul", "tpu7x"),
    ("ragged", "v4"),
    ("ragged", "v5p"),
    ("ragged", "v6e"),
]
SVG = "{http://www.w3.org/2000/svg}"
everywhere = pytest.mark.parametrize(("kernel", "target"), ALL)


# --- text -------------------------------------------------------------------------------------------------------
@everywhere
def test_the_report_fits_a_terminal(kernel: str, target: str) -> None:
    assert max(len(line) for line in str(schedule(kernel, target)).splitlines()) <= 120


def test_the_report_names_what_matters() -> None:
    said = str(schedule("matmul", "v6e"))
    for words in (
        "name.1 on v6e: 185 bundles, 1 loop, grid 2 × 1 × 2",
        "3,024 cycles, by the compiler",
        "2 vmatmul bf16 in the text",
        "pipeline 0xe, 6 trips",
        "▶     step 0x4d",
        "operand 1: bf16[256,256] of bf16[512,256], 2 buffers",
        "copies: 3 starts, 3 waits",
    ):
        assert words in said


def test_the_report_says_what_cannot_be_known() -> None:
    said = str(schedule("ragged", "v6e"))
    assert "not estimable: trip counts depend on data" in said
    assert "loop 0xa, trips from data" in said
    assert "by the compiler" not in said


# --- JSON -------------------------------------------------------------------------------------------------------
@everywhere
def test_the_json_is_plain_data_with_a_schema(kernel: str, target: str) -> None:
    data = schedule(kernel, target).to_json()
    assert data["schema"] == 1
    assert json.loads(json.dumps(data)) == json.loads(json.dumps(data, allow_nan=False))


def test_the_json_has_the_tree() -> None:
    kernel = json.loads(json.dumps(schedule("matmul", "v6e").to_json()))["kernel"]
    pipeline = kernel["children"][0]
    assert (pipeline["kind"], pipeline["trips"], pipeline["children"][0]["runs"]) == ("loop", 6, 4)


# --- SVG --------------------------------------------------------------------------------------------------------
@everywhere
def test_the_svg_stands_on_its_own(kernel: str, target: str) -> None:
    text = schedule(kernel, target).svg()
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert not re.findall(r"(?:href|src|url\((?!#)|@import)", text)
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]


@everywhere
def test_the_svg_can_be_read_aloud_and_in_the_dark(kernel: str, target: str) -> None:
    root = ElementTree.fromstring(schedule(kernel, target).svg())
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and desc is not None
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert "VALU" in (desc.text or "")
    assert root.get("fill") == "currentColor"


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_is_that_of_wcag() -> None:
    """Pairs of its techniques and of the tools that are built on it."""
    assert contrast("#ffffff", "#000000") == 21
    assert round(contrast("#767676", "#ffffff"), 2) == 4.54
    assert round(contrast("#d9822b", "#ffffff"), 2) == 2.93


def marks(root: ElementTree.Element) -> list[ElementTree.Element]:
    """What is drawn in a colour of its own, and is no shade behind the rest."""
    return [part for part in root.iter() if "#" in part.get("fill", "") and part.get("fill-opacity") is None]


GROUNDS = ("#ffffff", "#1e2129")


@everywhere
def test_colours_stand_out_on_a_light_and_a_dark_page(kernel: str, target: str) -> None:
    root = ElementTree.fromstring(schedule(kernel, target).svg())
    colours = {part.get("fill", "") for part in marks(root) if not part.get("fill", "").startswith("url")}
    assert colours == {svg.USED, svg.MOVED}
    assert [c for c in colours for ground in GROUNDS if contrast(c, ground) < 3] == []


@everywhere
def test_fills_and_spills_are_told_by_more_than_a_colour(kernel: str, target: str) -> None:
    root = ElementTree.fromstring(schedule(kernel, target).svg())
    (pattern,) = root.iter(f"{SVG}pattern")
    assert {part.get("fill") for part in pattern} == {svg.MOVED, None}
    assert pattern.find(f"{SVG}path").get("stroke") == "currentColor"
    hatched = [part for part in marks(root) if part.get("fill") == f"url(#{pattern.get('id')})"]
    assert len(hatched) == 1 + len({"VLOAD", "VSTORE"} & {slot.kind for slot in schedule(kernel, target).slots})


def test_full_use_of_a_slot_fills_its_row() -> None:
    # The step's longest stretch of stores is in the cleared accumulator; the MXU's row has no more than its height.
    root = ElementTree.fromstring(schedule("matmul", "v6e").svg())
    heights = [float(h) for p in root.iter(f"{SVG}path") for h in re.findall(r"V([\d.]+)H", p.get("d", ""))]
    assert min(heights) > 0
    height = float(root.get("viewBox", "").split()[3])
    assert max(heights) < height


# --- comparing --------------------------------------------------------------------------------------------------
def changed(found: str, made: str) -> Schedule:
    return schedule("matmul", "v6e", bundles=dumps("matmul", "v6e").bundles.replace(found, made))


def test_a_schedule_equals_itself_whatever_the_comments() -> None:
    other = changed("/* Start region 1 */", "/* Start region 1 :: said more\n and more */")
    found = diff(schedule("matmul", "v6e"), other)
    assert (found.equal, bool(found), found.first, found.metrics) == (True, False, (), ())
    assert "the same bundles" in str(found)


def test_another_register_is_another_schedule() -> None:
    found = diff(schedule("matmul", "v6e"), changed("%7 = vsyncpa", "%777 = vsyncpa"))
    assert not found.equal
    assert (found.changed_bundles, found.metrics) == (1, ())
    (first,) = found.first
    assert (first.before or "").replace("%7 ", "%777 ") == first.after


def test_two_targets_differ_in_their_figures() -> None:
    found = diff(schedule("matmul", "v5e"), schedule("matmul", "v6e"))
    changes = {change.name: (change.before, change.after) for change in found.metrics}
    assert changes["vmatmul bf16"] == (8, 2)
    assert changes["estimated cycles"] == (4110, 3024)
    assert "loops" not in changes
    assert "-26.4%" in str(found)


def test_a_figure_that_only_one_has_is_shown_as_missing() -> None:
    found = diff(schedule("matmul", "v6e"), schedule("ragged", "v6e"))
    changes = {change.name: (change.before, change.after) for change in found.metrics}
    assert changes["vmatmul bf16"] == (2, None)
    assert changes["estimated cycles"] == (3024, None)
    assert "—" in str(found)


def test_a_longer_schedule_has_bundles_that_the_other_lacks() -> None:
    found = diff(schedule("ragged", "v6e"), schedule("matmul", "v6e"))
    assert found.changed_bundles == 185
    shorter = diff(schedule("matmul", "v6e"), schedule("ragged", "v6e"))
    assert json.loads(json.dumps(shorter.to_json()))["schema"] == 1
