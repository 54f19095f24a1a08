"""A compiler process that died, from its log."""

from __future__ import annotations

import re
from typing import Final

from mosaic_tpu.aot._diagnose._cause import Cause
from mosaic_tpu.aot.errors import DiskError, FlagError, InternalCompilerError

#: Where a crashed process says why, the best first.
_FATAL: Final = (
    r"^F\d{4} [^\]]*\] ?(.*)",
    r"(LLVM ERROR.*)",
    r"(Check failed.*)",
    r"(.*\bAssertion .*failed.*)",
    r"^(?:[\w.]+\.)?(\w*(?:Error|Exception): .*)",
)
_PASS: Final = re.compile(r"mlir::tpu::\(anonymous namespace\)::(\w+?)Pass::runOnOperation")
_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|ENOSPC")
_FLAG: Final = re.compile(r"ERROR: (Unknown command line flag '.*|Illegal value '.*)")
#: In this function the compiler aborts over a mask of which a reshape makes a column.
_MASK: Final = "mlir::tpu::VectorLayout::tilesPerVreg"


def crashed(log: str, died: str) -> Cause:
    """The cause of a death: what the log says last of all, and in which of the compiler's passes."""
    if _FULL.search(log):
        return Cause(DiskError, f"the compiler could not write and ended ({died}): the disk is full")
    if (flag := _FLAG.search(log)) is not None:
        return Cause(FlagError, f"libtpu says: {flag[1].strip()}")
    said, found = fatal(log), _PASS.search(log)
    where = f" while it worked on {_words(found[1])}" if found else ""
    summary = f"the TPU compiler ended ({died}){where}" + (f": {said}" if said else "")
    suspect = "tpu.reshape[i1]" if _MASK in log else ""
    return Cause(InternalCompilerError, summary, hint=_hint(log, died), suspect=suspect)


def _hint(log: str, died: str) -> str:
    if _MASK in log:
        return "a reshape of a mask (i1) does this: reshape the numbers it is made of, and compare afterwards"
    if died == "SIGKILL":
        return "the machine may have run out of memory: compile fewer kernels at a time, or smaller blocks"
    return ""


def fatal(log: str) -> str:
    """The line of a crashed process's log that says why."""
    for pattern in _FATAL:
        if found := re.search(pattern, log, re.MULTILINE):
            return found[1].strip()
    return ""


def _words(name: str) -> str:
    """``RelayoutInsertion`` as words."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
