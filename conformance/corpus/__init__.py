"""Small Pallas programs that reach every rule of Pallas's TPU lowering, and the kernels of JAX's wheel.

>>> from conformance import corpus
>>> len(corpus.CASES), len(corpus.WHEEL)                                # doctest: +SKIP
(800, 90)
>>> for id, program in corpus.programs():                               # doctest: +SKIP
...     lift(program)

`CASES` are the micro-kernels, by theme; `WHEEL` the kernels of `jax.experimental.pallas.ops.tpu`. A case says what it
is there for, but whether a primitive is reached is seen as it is lowered, not declared. What no TensorCore kernel can
reach is in `UNREACHABLE`, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Final

from conformance.corpus import (
    casts,
    compare,
    control,
    copies,
    elementwise,
    math,
    products,
    random,
    reductions,
    refs,
    shapes,
    structure,
    wheel,
    windows,
)
from conformance.corpus._compat import tensor_core_primitives as tensor_core_primitives
from conformance.corpus.case import Case as Case
from conformance.corpus.case import Program as Program
from conformance.corpus.case import lower

THEMES: Final = (
    elementwise,
    math,
    compare,
    casts,
    shapes,
    reductions,
    products,
    refs,
    windows,
    control,
    copies,
    random,
    structure,
)


def _sorted(cases: Iterable[Case]) -> list[Case]:
    """Those that run here, by the TPU they are for: JAX forgets what it traced when that changes."""
    return sorted(
        (case for case in cases if case.runs_here), key=lambda case: (case.tpu_version != "v5e", case.tpu_version)
    )


#: The micro-kernels.
CASES: Final = _sorted(case for theme in THEMES for case in theme.CASES)
#: The kernels of JAX's wheel.
WHEEL: Final = _sorted(wheel.CASES)

#: Primitives of Pallas's table that no kernel for a TensorCore can hold, and why.
UNREACHABLE: Final = {
    "broadcast_to": "its rule raises: the primitive is Triton's",
    "stage": "no trace binds it: while JAX traces, `lax.stage` makes a value of the trace itself",
}

#: Primitives that no jaxpr of a user's kernel has: others become them as they are lowered.
FROM_OTHERS: Final = {
    "einshape_lo": "pltpu.einshape, a primitive of a higher level",
    "iota_2x32_shape": "random_bits of a threefry key",
    "pipeline_body": "emit_pipeline",
    "prng_join": "random_fold_in of a Pallas key",
    "prng_split": "random_fold_in of a Pallas key",
    "random_unwrap": "random_bits of a threefry key",
    "threefry2x32": "random_bits of a threefry key",
}


@functools.cache
def program(case: Case) -> Program:
    """A case, lowered once."""
    return lower(case)


def programs(cases: Iterable[Case] | None = None) -> Iterator[tuple[str, Program]]:
    """Each case's id and what Pallas makes of it; all of them if none are given."""
    for case in (*CASES, *WHEEL) if cases is None else cases:
        yield case.id, program(case)


def reached(cases: Iterable[Case]) -> dict[str, set[str]]:
    """The primitives whose rule runs while these are lowered, each with the MLIR ops it emits."""
    found: dict[str, set[str]] = {}
    for _, lowered in programs(cases):
        for name, ops in lowered.lowered.items():
            found.setdefault(name, set()).update(ops)
    return found


def emitted_ops(cases: Iterable[Case] | None = None) -> dict[str, str]:
    """The MLIR ops in the kernels of these, all of them if none are given, each with the first case that has it."""
    found: dict[str, str] = {}
    for id, lowered in programs(cases):
        for op in sorted(lowered.ops):
            found.setdefault(op, id)
    return found
