"""What every part of the generator uses: where pages go, and Markdown's few forms."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: What people write.
WRITTEN: Final = ROOT / "docs"
#: What `nox -s docs-artefacts` leaves.
ARTEFACTS: Final = WRITTEN / "artefacts"
#: What MkDocs reads; git ignores it.
MADE: Final = ROOT / ".docs"
#: What the hook of MkDocs reads.
NAV: Final = MADE / "nav.json"
#: Folders of `docs` that are no pages.
NO_PAGES: Final = ("artefacts", "generate", "tests", "theme", "__pycache__")

_MARK: Final = re.compile(r"<!-- made: .*?-->")
#: Inline code as docstrings have it.
_CODE: Final = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)

type NavItem = str | dict[str, str | list[NavItem]]


@dataclass
class Site:
    """The pages made so far, and the navigation of their sections."""

    pages: Path = MADE / "pages"
    sections: dict[str, list[NavItem]] = field(default_factory=dict)

    def clear(self) -> None:
        """Start anew, so that no page of an earlier run stays."""
        shutil.rmtree(self.pages, ignore_errors=True)
        self.pages.mkdir(parents=True)

    def copy_written(self) -> None:
        """Take over what people wrote, as it is."""
        for file in sorted(WRITTEN.rglob("*")):
            inside = file.relative_to(WRITTEN)
            if file.is_file() and inside.parts[0] not in NO_PAGES and file.suffix != ".py":
                target = self.pages / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)

    def add(self, section: str, title: str, path: str, text: str, *, under: str | None = None) -> None:
        """Write a page and put it into its section, or into a group of the section."""
        file = self.pages / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.rstrip() + "\n", encoding="utf-8")
        self.link(section, title, path, under=under)

    def fill(self, path: str, **texts: str) -> None:
        """Put texts into a page that is written by hand, where it has ``<!-- made: name -->``."""
        file = self.pages / path
        page = file.read_text(encoding="utf-8")
        for name, text in texts.items():
            mark = f"<!-- made: {name} -->"
            if mark not in page:
                raise SystemExit(f"docs/{path} has no {mark}")
            page = page.replace(mark, text)
        file.write_text(page, encoding="utf-8")

    def link(self, section: str, title: str, path: str, *, under: str | None = None) -> None:
        """Put a page into the navigation; an ``index.md`` stands for its section itself."""
        entries = self.sections.setdefault(section, [])
        item: NavItem = path if path.endswith("index.md") and under is None else {title: path}
        if under is None:
            entries.append(item)
            return
        for entry in entries:
            if isinstance(entry, dict) and isinstance(group := entry.get(under), list):
                group.append(item)
                return
        entries.append({under: [item]})

    def write_nav(self) -> None:
        """For the hook of MkDocs, when all is filled in."""
        for file in sorted(self.pages.rglob("*.md")):
            if left := _MARK.search(file.read_text(encoding="utf-8")):
                raise SystemExit(f"docs/{file.relative_to(self.pages)} has {left[0]}, which nothing fills")
        (self.pages.parent / NAV.name).write_text(json.dumps(self.sections, indent=1), encoding="utf-8")


def artefact(name: str) -> dict[str, Any]:
    """What is in a JSON file of `docs/artefacts`: its kernels, or its reports, at least one, by name.

    Raises:
        SystemExit: it is damaged.
    """
    try:
        found = json.loads((ARTEFACTS / name).read_text(encoding="utf-8"))
        if wrong := _wrong(found, *_HOLDS[name]):
            raise ValueError(wrong)
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        raise SystemExit(f"docs/artefacts/{name} cannot be used, {_REMAKE} makes it again: {why}") from None
    return found[_HOLDS[name][0]]


def of_kernel(name: str) -> dict[str, Any]:
    """What the compiler made of a kernel of the zoo.

    Raises:
        SystemExit: it is not in the file, or that is damaged.
    """
    kernels = artefact("zoo.json")
    if name not in kernels:
        raise SystemExit(f"docs/artefacts/zoo.json cannot be used, {_REMAKE} makes it again: it has no kernel {name}")
    return kernels[name]


#: What there is one of for each name, and the kinds of what is in each.
_HOLDS: Final[dict[str, tuple[str, dict[str, type]]]] = {
    "zoo.json": ("kernels", {"made": dict, "preset": str, "body": str, "targets": dict}),
    "conformance.json": (
        "reports",
        {"date": str, "versions": dict, "has": dict, "pairs": dict, "ops": dict, "identity": list, "columns": dict,
         "rows": dict, "levels": dict},
    ),
}  # fmt: skip
SCHEMA: Final = 1
#: What the site shows of the newest report row by row.
_TABLES: Final = ("compile", "numerics", "faults: planted")
_REMAKE: Final = "`nox -s docs-artefacts`"


def _wrong(found: Any, what: str, holds: Mapping[str, type]) -> str:
    """Why it is no file of that kind; nothing where it is."""
    if not isinstance(found, dict):
        return "it is no object"
    if found.get("schema") != SCHEMA:
        return f"it is of schema {found.get('schema')}, and not {SCHEMA}"
    entries = found.get(what)
    if not isinstance(entries, dict) or not entries:
        return f"it has no {what}"
    for name, entry in entries.items():
        for key, kind in holds.items():
            if not isinstance(entry, dict) or not isinstance(entry.get(key), kind):
                return f"{name} has no {key!r}"
    newest = next(iter(entries.values()))
    missing = [
        table for table in _TABLES for key in ("columns", "rows") if what == "reports" if table not in newest[key]
    ]
    return f"the newest report has no table {missing[0]!r}" if missing else ""


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(value: Any) -> str:
    """Markdown that ends no cell: MkDocs takes a bar in inline code as it is."""
    text = "" if value is None else str(value)
    return outside(text, lambda part: part.replace("|", "&#124;")).replace("\n", "<br>")


def matrix(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A dense table whose cells do not break."""
    return f'<div class="matrix" markdown>\n\n{table(head, rows)}\n\n</div>\n'


def outside(text: str, change: Callable[[str], str]) -> str:
    """The text with all but its inline code changed."""
    return "".join(part if n % 2 else change(part) for n, part in enumerate(_CODE.split(text)))


def prose(text: object) -> str:
    """Any text as Markdown that shows it: inline code of one or two ticks stays code, all else is no markup."""
    parts = _CODE.split(str(text))
    return "".join(code(part.strip("`")) if n % 2 else _escaped(part) for n, part in enumerate(parts))


def _escaped(text: str) -> str:
    return re.sub(r"[\\`*_{}\[\]<>&|]", lambda found: f"&#{ord(found[0])};", text)


def code(text: object) -> str:
    """Inline code, in a table too."""
    shown = str(text).replace("\n", " ")
    if not shown:
        return ""
    ticks = "`" * (_longest_run(shown) + 1)
    space = " " * (len(ticks) > 1)
    return f"{ticks}{space}{shown}{space}{ticks}"


def fenced(text: str, language: str = "text", title: str = "") -> str:
    """A code block."""
    fence = "`" * max(3, _longest_run(text) + 1)
    named = f' title="{title}"' if title else ""
    return f"{fence}{language}{named}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    """Of ticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def provenance(report: Mapping[str, Any], command: str) -> str:
    """When something was found out, with what, and how to do it again."""
    versions = ", ".join(f"{n} {v}" for n, v in report["versions"].items() if n in ("jax", "libtpu") and v)
    return f'<p class="provenance">{report["date"][:10]}, {versions}. Again: <code>{command}</code></p>\n'


def tabs(*entries: tuple[str, str]) -> str:
    """Content tabs: a title and Markdown each."""
    parts: list[str] = []
    for title, text in entries:
        body = "\n".join(f"    {line}" if line else "" for line in text.rstrip().split("\n"))
        parts.append(f'=== "{title}"\n\n{body}\n')
    return "\n".join(parts)


def svg(text: str, caption: str, *, narrow: bool = False) -> str:
    """A drawing inside the page, so that it takes the page's colours."""
    drawing = "".join(line.strip() for line in text.splitlines())
    kind = "drawing narrow" if narrow else "drawing"
    return f'<figure class="{kind}" markdown="0">{drawing}<figcaption>{html.escape(caption)}</figcaption></figure>'
