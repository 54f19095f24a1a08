"""What helps a kernel that needs more VMEM than its limit: the compiler is asked, until it accepts.

A refusal names what the compiler has counted when it stops, and it counts in turn: the scratch arrays; the windows on
top; and, when it has made the code, its own scratch, for spilled registers and for values that are too large for them.
Only the last sum is the need, to a hundredth of a MiB. It is the same whatever the limit, and above windows and scratch
by 0 to 18 MiB for matmuls, by a whole block for a softmax; libtpu 0.0.50 has no way to tell it without compiling. A
limit of all the VMEM of a generation, or more, takes nothing from what a kernel may use. Where that is too little, the
compiler says so before it looks at the limit.
"""

from __future__ import annotations

from collections.abc import Callable

from mosaic_tpu.aot._diagnose import limit_above, used_and_limit
from mosaic_tpu.aot.errors import CompileError, ScopedVmemError, VmemError
from mosaic_tpu.aot.targets import Generation


def remedy(error: ScopedVmemError, generation: Generation, refused: Callable[[int], CompileError | None]) -> str:
    """The hint: a limit that the compiler takes, or that there is none.

    Args:
        error: the refusal.
        generation: compiled for.
        refused: why the compiler refuses the program with a limit, ``None`` where it accepts. An error of this class
            has its own remedy already.
    """
    found = used_and_limit(error.raw)
    if found is None:
        return error.hint
    used, limit = found
    if max(used, limit + 1) > generation.vmem_bytes:
        return VmemError.default_hint
    enough = min(limit_above(used), generation.vmem_bytes)
    again = refused(enough)
    if again is None:
        return f"give vmem_limit_bytes={enough}, with which it compiles, or take smaller blocks"
    if isinstance(again, VmemError):
        return again.hint
    if again.transient:  # it had no time, or no room on the disk
        return error.hint
    return f"with vmem_limit_bytes={enough} the compiler refuses it for another reason: {again.summary}"
