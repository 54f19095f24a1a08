"""`mosaic-tpu conformance`: the last reports of the conformance suite."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from mosaic_tpu.cli._errors import UsageError, unreadable
from mosaic_tpu.cli._files import is_special
from mosaic_tpu.cli._options import COMMON, Common
from mosaic_tpu.cli._output import answer, table
from mosaic_tpu.cli._parse import from_json

CONFORMANCE: Final = "mosaic-tpu/conformance/1"
TABLE: Final = "mosaic-tpu/conformance-table/1"
FOLDER: Final = ".conformance"
_MADE: Final = "`nox -s conformance` in a clone of the repository makes them"


def conformance(
    files: Annotated[
        list[Path] | None,
        Parameter(name="FILE", negative=(), help="Reports; else those in .conformance here or above."),
    ] = None,
    /,
    *,
    rows: Annotated[str | None, Parameter(name="--table", help="Show every row of this table.")] = None,
    common: Common = COMMON,
) -> int:
    """Show the last reports of the conformance suite: what was compared, and how.

    A clone of the repository has them, once `nox -s conformance` has run.
    """
    read = [_read(file) for file in (files or _found())]
    if rows is not None:
        return _rows(read, rows, common)
    data = {"reports": [_summary(file, report) for file, report in read]}
    answer(common.json, CONFORMANCE, data, lambda out: _print(out, data["reports"]))
    return 0


def _found() -> list[Path]:
    """The reports of the nearest folder that has some."""
    try:
        here = Path.cwd()
    except OSError as error:  # as where somebody has removed it
        raise unreadable("this folder", error, "name the reports, or go to a folder that exists") from None
    for folder in (here, *here.parents):
        files = [file for file in sorted((folder / FOLDER).glob("report*.json")) if file.is_file()]
        if files:
            return files
    raise UsageError(f"there are no reports in {here / FOLDER}, or in a folder above", _MADE)


def _read(file: Path) -> tuple[Path, dict[str, Any]]:
    try:
        if is_special(file):
            raise UsageError(f"cannot read {file}: it is no regular file", _MADE)
        report = from_json(file.read_bytes().decode())
        tables, versions = report["tables"], report.get("versions", {})
        named = isinstance(versions, dict) and isinstance(report.get("outcome"), str | None)
        listed = all(isinstance(rows, list) for rows in tables.values())
        shaped = named and listed and all(isinstance(r, dict) for rows in tables.values() for r in rows)
        if report["schema"] != 1 or not shaped:
            raise ValueError("it has another schema")
    except OSError as error:
        raise unreadable(file, error, _MADE) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is no report of the conformance suite: {error}", _MADE) from None
    return file, report


def _summary(file: Path, report: dict[str, Any]) -> dict[str, Any]:
    return {
        "file": str(file),
        "date": report.get("date"),
        "versions": report.get("versions", {}),
        "tables": [
            {"name": name, "rows": len(found), "outcomes": _outcomes(found, report.get("outcome"))}
            for name, found in report["tables"].items()
        ],
    }


def _outcomes(rows: list[dict[str, Any]], column: str | None) -> dict[str, int]:
    """How many rows went which way, by the column that the report names; nothing where a table does not say it."""
    said = [str(row[column]) for row in rows if column in row]
    return dict(Counter(said).most_common()) if len(said) == len(rows) else {}


def _print(out: Any, reports: list[dict[str, Any]]) -> None:
    for number, report in enumerate(reports):
        versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items() if version)
        out.print("\n" * bool(number) + f"{report['file']}, {report['date']}", style="bold", soft_wrap=True)
        out.print(versions + "\n", soft_wrap=True)
        rows = [
            (t["name"], f"{t['rows']:,}", ", ".join(f"{count:,} {name}" for name, count in t["outcomes"].items()))
            for t in report["tables"]
        ]
        out.print(table(["table", "rows", "of these"], rows, right=["rows"]))


def _rows(read: list[tuple[Path, dict[str, Any]]], name: str, common: Common) -> int:
    found = {str(file): report["tables"][name] for file, report in read if name in report["tables"]}
    if not found:
        names = dict.fromkeys(n for _, report in read for n in report["tables"])
        raise UsageError(f"the reports have no table {name!r}", f"one of {', '.join(names)}")
    data = {"table": name, "reports": [{"file": file, "rows": rows} for file, rows in found.items()]}

    def shown(out: Any) -> None:
        for file, rows in found.items():
            out.print(f"{file}: {name}", style="bold", soft_wrap=True)
            columns = list(dict.fromkeys(column for row in rows for column in row))
            numbers = [c for c in columns if all(isinstance(row.get(c), int | float) for row in rows)]
            out.print(table(columns, _cells(rows, columns), right=numbers))

    answer(common.json, TABLE, data, shown)
    return 0


def _cells(rows: list[dict[str, Any]], columns: list[str]) -> Iterator[list[str]]:
    for row in rows:
        texts = ["" if row.get(c) is None else str(row[c]).partition("\n")[0] for c in columns]
        yield [text if len(text) <= 72 else text[:71] + "…" for text in texts]
