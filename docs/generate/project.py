"""The project's own files as pages: changelog and contributing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container

from conformance.repository.repository import MAY_ENTER, Room, rooms
from docs.generate.site import ROOT, Site, code, table


def write(site: Site) -> None:
    """Write the section; limits and design are written by hand."""
    site.fill("project/design.md", packages=_packages())
    site.link("project", "Limits", "project/limits.md")
    site.link("project", "Design", "project/design.md")
    site.add("project", "Contributing", "project/contributing.md", _relinked(_read("CONTRIBUTING.md")))
    site.add("project", "Changelog", "project/changelog.md", _changelog())


def _packages() -> str:
    """What may import what, and what each package needs, from its pyproject.toml."""
    head = ("package", "may import of ours", "needs", "with an extra")
    return table(head, [_package(room) for room in rooms()])


def _package(room: Room) -> tuple[str, ...]:
    name = room.package.name
    always = room.declared(optional=False)
    ours = {f"mosaic-tpu-{other}": other for other in MAY_ENTER}
    enters = ", ".join(sorted(ours[n] for n in always & set(ours))) or "nothing"
    later = ", ".join(sorted(MAY_ENTER[name] - {ours[n] for n in always & set(ours)}))
    extras = room.project.get("optional-dependencies", {})
    brought = [f"`[{extra}]`: {', '.join(map(_bare, texts))}" for extra, texts in extras.items()]
    needs = ", ".join(sorted(always - set(ours)))
    return code(f"mosaic_tpu.{name}"), f"{enters}; when asked {later}" if later else enters, needs, "<br>".join(brought)


def _bare(requirement: str) -> str:
    return re.split(r"[=<>;]", requirement)[0].strip()


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _relinked(text: str) -> str:
    """Links to files that are no pages lose their target."""
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*docs/([\w/-]+\.md)\)", r"[\1](../\2)", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|\.\./|#)[^)]+\)", r"\1", text)


def kind_of(name: str, kinds: Container[str]) -> str:
    """The kind of change that a fragment's file is named after, as towncrier reads it."""
    for part in reversed(name.split(".")[1:]):
        if part in kinds:
            return part
    raise SystemExit(f"changelog.d/{name} is of no kind that pyproject.toml has for towncrier")


def _changelog() -> str:
    released = _read("CHANGELOG.md")
    settings = tomllib.loads(_read("pyproject.toml"))["tool"]["towncrier"]
    kinds = {kind["directory"]: f"### {kind['name']}" for kind in settings["type"]}
    fragments = [f for f in sorted((ROOT / settings["directory"]).glob("*.md")) if f.name not in settings["ignore"]]
    texts = [(kind_of(file.name, kinds), file.read_text(encoding="utf-8").strip()) for file in fragments]
    waiting = [
        part for kind, head in kinds.items() if (own := [t for k, t in texts if k == kind]) for part in (head, *own)
    ]
    head, _, rest = released.partition("<!-- towncrier release notes start -->")
    head = re.sub(r" Changes since the last release wait in .*", "", head).strip()
    unreleased = "## Not released yet\n\n" + "\n\n".join(waiting) if waiting else ""
    return _relinked("\n\n".join(filter(None, (head, unreleased, rest.strip()))))
