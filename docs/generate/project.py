"""The project's own files as pages: changelog and contributing."""

from __future__ import annotations

import re

from docs.generate.site import ROOT, Site


def write(site: Site) -> None:
    """Write the section; limits and design are written by hand."""
    site.link("project", "Limits", "project/limits.md")
    site.link("project", "Design", "project/design.md")
    site.add("project", "Contributing", "project/contributing.md", _relinked(_read("CONTRIBUTING.md")))
    site.add("project", "Changelog", "project/changelog.md", _changelog())


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _relinked(text: str) -> str:
    """Links to files that are no pages lose their target."""
    text = re.sub(r"\[([^\]]+)\]\((?:\.\./)*docs/([\w/-]+\.md)\)", r"[\1](../\2)", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|\.\./|#)[^)]+\)", r"\1", text)


def _changelog() -> str:
    released = _read("CHANGELOG.md")
    kinds: dict[str, list[str]] = {}
    for file in sorted((ROOT / "changelog.d").glob("*.md")):
        kind = file.name.split(".")[-2] if file.name.count(".") > 1 else ""
        if kind in ("added", "changed", "fixed", "removed"):
            kinds.setdefault(kind, []).append(file.read_text(encoding="utf-8").strip())
    waiting = [
        f"### {kind.capitalize()}\n\n" + "\n\n".join(texts) for kind in sorted(kinds) for texts in (kinds[kind],)
    ]
    head, _, rest = released.partition("<!-- towncrier release notes start -->")
    head = re.sub(r" Changes since the last release wait in .*", "", head).strip()
    unreleased = "## Not released yet\n\n" + "\n\n".join(waiting) if waiting else ""
    return _relinked("\n\n".join(filter(None, (head, unreleased, rest.strip()))))
