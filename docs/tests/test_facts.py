"""What pages say in passing is what the sources have: sentences made anew from these, and looked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from conformance import cheat_sheet
from conformance.harness.targets import REQUIRED
from conformance.repository.repository import ROOT, rooms
from mosaic_tpu.aot import TARGETS
from mosaic_tpu.builder._compat import FORWARD_COMPATIBLE_IR_VERSION

OLDEST = next(iter(cheat_sheet.load()))


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def span(field: str, between: str) -> str:
    """From the least to the most MiB of a generation."""
    sizes = sorted(getattr(generation, field) >> 20 for generation in TARGETS.values())
    return f"{sizes[0]} {between} {sizes[-1]} MiB" if sizes[0] != sizes[-1] else f"{sizes[0]} MiB"


def wide() -> str:
    """Which generations have the larger MXUs."""
    sizes = sorted({generation.mxu_size for generation in TARGETS.values()})
    names = [name for name, generation in TARGETS.items() if generation.mxu_size == sizes[-1]]
    return f"{listed(names)} have MXUs of {sizes[1]} × {sizes[1]}, the others of {sizes[0]} × {sizes[0]}"


def install() -> str:
    """All packages, with the compiler."""
    paths = [room.path.relative_to(ROOT).as_posix() for room in rooms()]
    order = [name for name in ("builder", "sim", "aot", "kernel", "lift", "cli") if f"packages/{name}" in paths]
    assert len(order) + 1 == len(paths)
    named = " ".join(f"-e packages/{name}{'[tpu]' * (name == 'aot')}" for name in order)
    return f"pip install {named} -e zoo"


def python() -> str:
    (least,) = {room.project["requires-python"].removeprefix(">=") for room in rooms()}
    return f"Python {least} or newer."


FACTS = (
    ("concepts/ir-versions.md", f"the newest, and {OLDEST}."),
    ("concepts/ir-versions.md", f"| no TPU is attached, or under `jax.export` | {FORWARD_COMPATIBLE_IR_VERSION} |"),
    ("project/limits.md", f"The newest and {OLDEST} are compared"),
    ("concepts/memory-spaces.md", f"vector memory, {span('vmem_bytes', 'to')};"),
    ("concepts/memory-spaces.md", f"scalar memory, {span('smem_bytes', 'to')} |"),
    ("concepts/memory-spaces.md", f"{span('default_vmem_limit', 'or')}, by [generation]"),
    ("concepts/generations.md", wide()),
    ("zoo/index.md", f"compiles for {listed(REQUIRED)}."),
    ("how-to/add-a-kernel.md", f"the default config on {listed(REQUIRED)};"),
    ("index.md", python()),
    ("index.md", install()),
)


def says(text: str, sentence: str) -> bool:
    return re.sub(r"\s+", " ", sentence) in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(("page", "sentence"), FACTS)
def test_a_page_says_what_is_so(page: str, sentence: str) -> None:
    assert says((ROOT / "docs" / page).read_text(encoding="utf-8"), sentence), f"docs/{page} should say: {sentence}"


def test_another_number_is_seen() -> None:
    assert says("the newest,\nand 0.11.2.", "the newest, and 0.11.2.")
    assert not says("the newest, and 0.11.20.", "the newest, and 0.11.2.")
