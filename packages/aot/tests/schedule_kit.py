"""What the tests of schedules share: dumps that the compiler left, and bundles written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from mosaic_tpu.aot import find_target
from mosaic_tpu.aot.schedule import Dumps, Schedule, read_schedule

DATA: Final = Path(__file__).parent / "data" / "schedule"
KINDS: Final = "MXU, XLU, VALU, VPOP, EUP, VLOAD, VLOAD:FILL, VSTORE, VSTORE:SPILL, SALU"
FILES: Final = {
    "bundles": "bundles.txt",
    "utilization": "utilization.txt",
    "allocations": "allocations.txt",
    "profile": "profile.textproto",
}
#: Allocations of a kernel with one loop, whose body begins in region 2.
LOOP: Final = """\
$region0: #{k}
  loop: start=0, step=1, limit=5
  $region1: #{k} parent=0 // loop_pre_header
  $region2: #{k} parent=0 // loop_body
    %8 = sbr.rel (%p1_p0) target = $region4
  $region3: #{k} parent=0 // loop_header_branch
    %9 = sbr.rel (!%p2_p1) target = $region2
"""


def dumps(kernel: str, target: str) -> Dumps:
    """Dumps that the compiler left of a kernel."""
    folder = DATA / f"{kernel}_{target}"
    texts = {name: (folder / file).read_text() for name, file in FILES.items() if (folder / file).exists()}
    return Dumps("name.1", **texts)


def schedule(kernel: str, target: str, **texts: str) -> Schedule:
    """The schedule in them, with some texts changed."""
    return read_schedule(replace(dumps(kernel, target), **texts), find_target(target))


def written(*bundles: str, allocations: str = "$region0: #{k}\n", profile: str = "") -> Dumps:
    """Dumps of a kernel whose bundles are given: what stands behind the address."""
    text = "\n".join(f"{address:#6x} {bundle}" for address, bundle in enumerate(bundles))
    rows = "\n".join("0 0 0 0 0 0 0 0 0 0" for _ in bundles)
    head = f"== CAPACTIY:\n{KINDS}\n 2 2 4 2 1 3 3 2 2 2\n== UTILIZATION:\n"
    return Dumps("k", text, head + rows + "\n", allocations, profile)
