"""One version for all: siblings pin each other to it, and shared bounds and tools agree."""

import itertools
import re
from typing import Any

import pytest

from conformance.repository.repository import ROOT, read_toml, rooms

PROJECTS = [room.project for room in rooms()]


def complaints(projects: list[dict[str, Any]]) -> list[str]:
    """What disagrees between the projects, one sentence each."""
    found = []
    versions = {project["version"] for project in projects}
    if len(versions) > 1:
        found.append(f"more than one version: {sorted(versions)}")
    ours = {project["name"]: project["version"] for project in projects}
    bounds: dict[str, set[str]] = {}
    for project in projects:
        extras = project.get("optional-dependencies", {}).values()
        for requirement in itertools.chain(project["dependencies"], *extras):
            name, bound = re.match(r"([\w-]+)(?:\[\w+\])?([^;]*)", requirement).groups()
            if name in ours and bound != f"=={ours[name]}":
                found.append(f"{project['name']} needs {requirement}, not {name}=={ours[name]}")
            if name not in ours and bound:
                bounds.setdefault("jax" if name == "jaxlib" else name, set()).add(bound)
    found += [f"{name} is bounded differently: {sorted(b)}" for name, b in bounds.items() if len(b) > 1]
    return found


def project(name: str, version: str, *dependencies: str) -> dict[str, Any]:
    return {"name": name, "version": version, "dependencies": list(dependencies)}


def test_versions_pins_and_bounds_agree() -> None:
    assert complaints(PROJECTS) == []


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (project("b", "0.2.0", "a==0.1.0"), "more than one version"),
        (project("b", "0.1.0", "a>=0.1.0"), "not a==0.1.0"),
        (project("b", "0.1.0", "a==0.2.0"), "not a==0.1.0"),
        (project("b", "0.1.0", "a==0.1.0", "jaxlib>=0.12"), "jax is bounded differently"),
    ],
)
def test_a_disagreement_is_found(second: dict[str, Any], complaint: str) -> None:
    (found,) = complaints([project("a", "0.1.0", "jax>=0.11.2"), second])
    assert complaint in found


def test_all_ask_for_the_python_of_the_repository() -> None:
    python = (ROOT / ".python-version").read_text(encoding="utf-8").strip()
    assert {p["requires-python"] for p in PROJECTS} == {f">={python}"}
    assert read_toml(ROOT / "pyproject.toml")["tool"]["pyright"]["pythonVersion"] == python


def test_pre_commit_runs_the_tools_of_the_lint_session() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    pins = set(re.findall(r'additional_dependencies: \["([^"]+)"\]', hooks))
    assert pins
    groups = read_toml(ROOT / "pyproject.toml")["dependency-groups"]
    assert all(pin in [*groups["lint"], *groups["style"]] for pin in pins)
