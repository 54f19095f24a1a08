"""The files the compiler writes of one kernel, and where they lie in a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import DumpError

if TYPE_CHECKING:
    from pathlib import Path

_NAME: Final = re.compile(r"(?P<stamp>\d+)-(?P<op>.+?)-(?P<number>\d\d)-(?P<what>[\w-]+)\.txt")
_WANTED: Final = {
    "final_bundles": "bundles",
    "final_hlo-static-per-bundle-utilization": "utilization",
    "pre-finalize-registers-and-allocations": "allocations",
}
# The compiler says of every HLO op what it is; ours are calls of this target. The program around them, TLP, says what
# it calls, and so do its <late-…> parts.
_PROGRAM: Final = ("TLP", "<")
_OURS: Final = 'custom_call_target="tpu_custom_call"'
_ANALYSIS: Final = "schedule-analysis_final_bundles"
_CALL: Final = r'%{} = [^\n]*?"body":"([\w+/=]*)"'


@dataclass(frozen=True)
class Dumps:
    """The dumps of one kernel: the text of each, as the compiler wrote it.

    Attributes:
        hlo_op: name of the HLO op, ``"name.1"``.
        bundles: ``…-final_bundles.txt``: the VLIW bundles.
        utilization: ``…-final_hlo-static-per-bundle-utilization.txt``: slots that each bundle uses.
        allocations: ``…-pre-finalize-registers-and-allocations.txt``: allocations, and the bounds of loops.
        profile: ``…_static_llo_profile.textproto``: the compiler's estimate; empty where it made none.
        body: of the custom call, in base64: what tells the kernel, since XLA names its op as it likes.
    """

    hlo_op: str
    bundles: str = field(repr=False)
    utilization: str = field(repr=False)
    allocations: str = field(repr=False)
    profile: str = field(default="", repr=False)
    body: str = field(default="", repr=False)


def find_dumps(folder: Path) -> dict[str, Dumps]:
    """The dumps of the Mosaic kernels in a folder and the folders in it, by HLO op.

    Copies and fusions that XLA put around the kernels are left out, as is the program that calls them. An op that was
    compiled more than once counts with its last compile. A program without a Mosaic kernel has none.

    Args:
        folder: what ``--xla_jf_dump_to`` named, or a folder above it and above that of
            ``--xla_jf_dump_static_llo_profile_to``.

    Raises:
        DumpError: there is no folder, or a kernel lacks one of its files.
    """
    if not folder.is_dir():
        raise DumpError(f"no folder {folder}", op="find_dumps")
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*.txt"), key=lambda path: path.name):  # The stamp comes first: the last one wins.
        name = _NAME.fullmatch(path.name)
        if name and not name["op"].startswith(_PROGRAM):
            found.setdefault(name["op"], {})[name["what"]] = path
    kernels = {op: files for op, files in found.items() if _ANALYSIS in files and _OURS in _read(files[_ANALYSIS])}
    profiles = {path.name: path for path in sorted(folder.rglob("*_static_llo_profile.textproto"))}
    return {op: _dumps(op, files, profiles) for op, files in kernels.items()}


def _dumps(op: str, files: dict[str, Path], profiles: dict[str, Path]) -> Dumps:
    if missing := [what for what in _WANTED if what not in files]:
        raise DumpError(f"{op} has no dump {', '.join(missing)}", op="find_dumps")
    texts = {name: _read(files[what]) for what, name in _WANTED.items()}
    profile = next((path for name, path in profiles.items() if re.match(re.escape(op) + "_TPU", name)), None)
    call = re.search(_CALL.format(re.escape(op)), _read(files[_ANALYSIS]))
    return Dumps(op, **texts, profile=_read(profile) if profile else "", body=call[1] if call else "")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
