"""What the tests of this folder know about the repository: its rooms and what their pyproject.toml files say."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "mosaic_tpu"
#: Which room may enter which.
MAY_ENTER = {
    "builder": set(),
    "sim": set(),
    "aot": {"sim"},
    "kernel": {"builder", "sim", "aot"},
    "lift": {"builder", "sim", "kernel"},
    "zoo": {"builder", "kernel"},
    "cli": {"builder", "sim", "kernel", "aot", "lift", "zoo"},
}


@dataclass(frozen=True)
class Room:
    """A folder that makes a distribution."""

    path: Path

    @property
    def project(self) -> dict[str, Any]:
        return read_toml(self.path / "pyproject.toml")["project"]

    def declared(self, *, optional: bool) -> set[str]:
        """Distributions that the room's pyproject.toml names: what it always needs, or what its extras bring too."""
        texts = [*self.project["dependencies"]]
        if optional:
            texts += [text for extra in self.project.get("optional-dependencies", {}).values() for text in extra]
        return {re.match(r"[\w-]+", text)[0] for text in texts}

    @property
    def namespace(self) -> Path:
        return self.path / "src" / NAMESPACE

    @property
    def package(self) -> Path:
        """The one folder inside the namespace."""
        (folder,) = (entry for entry in self.namespace.iterdir() if entry.is_dir() and entry.name != "__pycache__")
        return folder

    @property
    def sources(self) -> list[Path]:
        return sorted(self.package.rglob("*.py"))


def rooms(root: Path = ROOT) -> list[Room]:
    files = [*root.glob("packages/*/pyproject.toml"), *root.glob("zoo/pyproject.toml")]
    return sorted((Room(file.parent) for file in files), key=lambda room: room.path)


def read_toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
