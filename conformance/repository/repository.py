"""What the tests of this folder know about the repository: its rooms and what their pyproject.toml files say."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "mosaic_tpu"


@dataclass(frozen=True)
class Room:
    """A folder that makes a distribution."""

    path: Path

    @property
    def project(self) -> dict[str, Any]:
        return read_toml(self.path / "pyproject.toml")["project"]

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
