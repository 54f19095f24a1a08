"""Which room may enter which, and that each declares what it imports."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.repository.repository import MAY_ENTER, NAMESPACE, ROOT, Room, rooms


def imports(file: Path, *, while_importing: bool) -> set[str]:
    """Dotted names that the file imports: all, or only those reached while it is itself being imported."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            if not (while_importing and later):
                visit(child)

    visit(ast.parse(file.read_text(encoding="utf-8")))
    return found


def rooms_entered(room: Room, *, while_importing: bool = False) -> set[str]:
    names = {name for file in room.sources for name in imports(file, while_importing=while_importing)}
    return {name.split(".")[1] for name in names if name.startswith(NAMESPACE + ".")} - {room.package.name}


def undeclared(room: Room) -> set[str]:
    """Outside packages that the room's files need when they are imported, and its pyproject.toml does not name."""
    needed = {name.split(".")[0] for file in room.sources for name in imports(file, while_importing=True)}
    known = {name.replace("-", "_") for name in room.declared(optional=True)}
    return needed - known - sys.stdlib_module_names - {NAMESPACE}


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.path.name)
def test_a_room_enters_only_the_rooms_it_may(room: Room) -> None:
    entered = rooms_entered(room)
    assert entered <= MAY_ENTER[room.package.name]
    assert {f"mosaic-tpu-{name}" for name in entered} <= room.declared(optional=True)
    at_once = rooms_entered(room, while_importing=True)
    assert {f"mosaic-tpu-{name}" for name in at_once} <= room.declared(optional=False)


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.path.name)
def test_a_room_can_be_imported_without_what_its_extras_bring(room: Room) -> None:
    extras = room.declared(optional=True) - room.declared(optional=False)
    missing = {name.removeprefix("mosaic-tpu-").replace("-", "_") for name in extras}
    hidden = [f"{NAMESPACE}.{name}" if f"mosaic-tpu-{name}" in extras else name for name in sorted(missing)]
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden})); import {NAMESPACE}.{room.package.name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", rooms(), ids=lambda room: room.path.name)
def test_a_room_declares_what_its_import_needs(room: Room) -> None:
    assert undeclared(room) == set()


def test_a_forbidden_import_and_an_undeclared_one_are_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy", "ml-dtypes"]\n')
    package = tmp_path / "src" / NAMESPACE / "builder"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import json, numpy, ml_dtypes, jax.numpy\n"
        "from . import errors\n"
        "def later():\n    import rich\n    from mosaic_tpu import kernel\n"
        "if TYPE_CHECKING:\n    import typeshed\n"
    )
    room = Room(tmp_path)
    assert rooms_entered(room) == {"kernel"}
    assert rooms_entered(room, while_importing=True) == set()
    assert undeclared(room) == {"jax"}


def told(text: str) -> dict[str, set[str]]:
    """What a table of rooms says that each may enter, by the names in its third column."""
    rows = re.findall(r"^\| [\w/]+ \| `mosaic_tpu\.(\w+)`[^|]*\| ([^|]*) \|", text, re.MULTILINE)
    everyone = set(MAY_ENTER)
    return {
        room: everyone - {room} if "all of them" in said else set(re.findall(r"\w+", said)) & everyone
        for room, said in rows
    }


def test_contributing_tells_which_room_may_enter_which() -> None:
    assert told((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")) == MAY_ENTER


def test_a_table_that_tells_something_else_is_seen() -> None:
    table = "| packages/sim | `mosaic_tpu.sim` | nothing |\n| zoo | `mosaic_tpu.zoo` | builder; kernel, to call |\n"
    assert told(table) == {"sim": set(), "zoo": {"builder", "kernel"}}
    assert told(table.replace("nothing", "all of them"))["sim"] == set(MAY_ENTER) - {"sim"}
