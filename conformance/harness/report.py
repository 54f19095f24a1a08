"""Results as rows: aligned tables of plain text for people, one JSON file for programs.

Tests add rows (`conformance/conftest.py` has the fixture), under pytest-xdist in several processes. A row travels in
its test's report to the process that started pytest, which alone prints and writes.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

SCHEMA_VERSION: Final = 1
PROPERTY: Final = "conformance"
#: The column that says how a case went, in a table that has it in every row. The file names it to its readers.
OUTCOME: Final = "level"
WIDEST: Final = 72
LONGEST: Final = 400

Row = Mapping[str, Any]


class Record(Protocol):
    """`record(table="identity", kernel=…, config=…, level=…, detail=…)`: a row of a table; any columns."""

    def __call__(self, table: str, **row: Any) -> None: ...


@dataclass
class Report:
    """Tables of rows, in the order in which they were added."""

    tables: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, table: str, row: Row) -> None:
        """Add a row; its keys are the columns."""
        self.tables.setdefault(table, []).append(row)

    def add_properties(self, properties: Iterable[tuple[str, object]]) -> None:
        """Add the rows among the user properties of a test's report."""
        for name, value in properties:
            if name == PROPERTY:
                packed = json.loads(str(value))
                self.add(packed["table"], packed["row"])

    def to_text(self) -> str:
        """Every table, with its name and the number of its rows above."""
        return "\n\n".join(f"{name} ({len(rows)})\n{to_table(shortened(rows))}" for name, rows in self.tables.items())

    def to_json(self) -> dict[str, Any]:
        """The tables with what made them: date and versions."""
        return {
            "schema": SCHEMA_VERSION,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "outcome": OUTCOME,
            "tables": self.tables,
        }

    def write(self, path: Path) -> None:
        """Write the JSON file and the folders it is in."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")


def shortened(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows themselves; of a table too long to read, a row for each first column and outcome: how many, and sums."""
    if len(rows) <= LONGEST:
        return rows
    first = next(iter(rows[0]))
    groups: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.get(first), row.get(OUTCOME)), []).append(row)
    return [
        {first: name, OUTCOME: outcome, "rows": len(found), **_sums(found)} for (name, outcome), found in groups.items()
    ]


def _sums(rows: Sequence[Row]) -> Row:
    """The sums of the columns that count something in each row."""
    counted = [name for name in rows[0] if all(type(row.get(name)) is int for row in rows)]
    return {name: sum(row[name] for row in rows) for name in counted}


def packed(table: str, row: Row) -> tuple[str, str]:
    """A row as a user property, which pytest-xdist can carry."""
    return PROPERTY, json.dumps({"table": table, "row": row}, default=str)


def versions() -> dict[str, str | None]:
    """Versions of all that decides the results; None where it is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in ("jax", "jaxlib", "libtpu")}}


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def to_table(rows: Iterable[Row]) -> str:
    """Rows as aligned columns in plain text: numbers to the right, long and multi-line cells cut."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    columns = [name for name in columns if any(_cell(row.get(name)) for row in rows)]
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [all(_is_number(row.get(name)) for row in rows) for name in columns]

    def line(texts: list[str]) -> str:
        padded = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(columns), "  ".join("-" * width for width in widths), *map(line, cells)])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    first, _, rest = (f"{value:.3g}" if isinstance(value, float) else str(value)).partition("\n")
    if rest or len(first) > WIDEST:
        return first[: WIDEST - 2].rstrip() + " …"
    return first


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
