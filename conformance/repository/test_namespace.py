"""`mosaic_tpu` is a PEP 420 namespace: a stray file in it breaks the other packages while type checkers stay silent."""

from pathlib import Path

import pytest

from conformance.repository.repository import Room, rooms


def strays(room: Room) -> list[str]:
    """Files directly in the namespace folder, where only the room's package may be."""
    return sorted(entry.name for entry in room.namespace.iterdir() if entry.is_file())


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.path.name)
def test_the_namespace_folder_holds_one_typed_package_and_no_file(room: Room) -> None:
    assert strays(room) == []
    assert (room.package / "__init__.py").is_file()
    assert (room.package / "py.typed").is_file()


def test_a_stray_init_is_found(tmp_path: Path) -> None:
    room = Room(tmp_path)
    (room.namespace / "builder").mkdir(parents=True)
    assert strays(room) == []
    (room.namespace / "__init__.py").touch()
    assert strays(room) == ["__init__.py"]


def test_all_rooms_are_seen() -> None:
    assert {"builder", "kernel", "sim", "zoo"} <= {room.path.name for room in rooms()}
