"""Every package is type-checked: a pattern that pyright does not understand leaves files out, and passes."""

import tomllib

import pytest

from conformance.repository.repository import ROOT, Room, rooms

PYRIGHT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.path.name)
def test_a_package_is_in_what_is_checked(room: Room) -> None:
    assert any(room.path.is_relative_to(ROOT / folder) for folder in PYRIGHT["include"])
