"""Nothing walks a set: its order changes from process to process, and with it what is emitted, tested or written."""

import ast
from pathlib import Path

import pytest

from conformance.repository.repository import ROOT, rooms

SOURCES = sorted(
    file
    for folder in (*(room.path for room in rooms()), ROOT / "conformance")
    for file in folder.rglob("*.py")
    if not any(part.startswith((".", "build")) for part in file.relative_to(ROOT).parts)
)


def _is_set(node: ast.AST) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_set(left) or _is_set(right)
        case _:
            return False


def _walked(source: str) -> list[int]:
    """The lines on which a loop or a comprehension walks what is seen to be a set."""
    loops = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.For, ast.comprehension))]
    return [loop.iter.lineno for loop in loops if _is_set(loop.iter)]


def test_no_set_is_walked() -> None:
    found = [f"{file.relative_to(ROOT)}:{line}" for file in SOURCES for line in _walked(_read(file))]
    assert SOURCES
    assert not found, "sort it, or keep the order with dict.fromkeys"


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("walk", ["for x in {1, 2}: pass", "[x for x in set(y) & z]", "{x for x in frozenset(y)}"])
def test_a_walk_over_a_set_is_seen(walk: str) -> None:
    assert _walked(walk) == [1]


@pytest.mark.parametrize("walk", ["for x in sorted({1, 2}): pass", "[x for x in dict.fromkeys(y)]", "x in {1, 2}"])
def test_a_walk_in_order_is_not_taken_for_one(walk: str) -> None:
    assert not _walked(walk)
