"""Branches as JAX hands them to Pallas: their types are those of what they return.

What every branch returns as it was before is no result of the ``scf.if``, and comes out as it was.

Each is built in a block of its own, before the ``scf.if`` exists, since only then it is known which results that has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrOperation
from mosaic_tpu.builder._core import Branch
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import YieldTypeError
from mosaic_tpu.builder.ops.regions import Region
from mosaic_tpu.builder.pallas._loops import Built, aside, building, end

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder


def build(
    b: Builder,
    op: str,
    branch: Branch,
    sides: Sequence[Callable[[], Sequence[Value]]],
    results: Sequence[TypeInfo] | None,
) -> list[Built]:
    """Build the branches, in order; of the types of the first, if ``results`` does not say more.

    Raises:
        YieldTypeError: they return values of several types.
    """
    made: list[Built] = []
    with building(b) as owners:
        for side in sides:
            with aside(b, owners, [], branch=branch) as (owner, block, _):
                yields = list(side())
                b._use_all(yields, "scf.yield")
            if results is None and made:
                check(b, op, yields, [y._info for y in made[0].yields], "the first branch returns")
            check(b, op, yields, results, "the results are")
            made.append(Built(owner, block, yields))
    return made


def check(b: Builder, op: str, yields: Sequence[Value], wanted: Sequence[TypeInfo] | None, what: str) -> None:
    """Refuse what is not of these types, if any are wanted: u32 is not i32, though MLIR has one type for both.

    Raises:
        YieldTypeError: it is not.
    """
    if wanted is None or [y._info for y in yields] == list(wanted):
        return
    types = ", ".join(str(i.dtype) if i.kind == "scalar" else f"{i.dtype}{list(i.shape)}" for i in wanted)
    returned = ", ".join(str(y.dtype) if y.rank == 0 else f"{y.dtype}{list(y.shape)}" for y in yields)
    b.fail(
        YieldTypeError,
        f"{what} ({types}), this branch ({returned})",
        op=op,
        operands=yields,
        hint="return as many values from each branch, of the same types",
    )


def choose(b: Builder, index: Value, test: Value, built: Sequence[Built]) -> list[Value]:
    """Emit one ``scf.if`` inside another around the branches: of each result, what it is.

    Args:
        b: whose ops these are.
        index: which of them, an i32.
        test: whether that is not 0.
        built: the branches; of two or more.
    """
    returned = [list(one.yields) for one in built]
    same = [all(v.ir == values[0].ir for v in values) for values in zip(*returned, strict=True)]
    for one in built:
        one.yields = [y for y, stays in zip(one.yields, same, strict=True) if not stays]
    found = iter(_place(b, index, test, built))
    return [y if stays else next(found) for y, stays in zip(returned[0], same, strict=True)]


def _place(b: Builder, index: Value, test: Value, built: Sequence[Built]) -> list[Value]:
    first, second, *others = built
    infos = [y._info for y in first.yields]
    created = b._emit_many("scf.if", infos, [test._ir], None, 2)
    if others:
        with Region(b, created.regions[0].blocks.append(), [], infos, "scf.yield") as rest:
            i32 = b.types.scalar(dt.i32)
            left = b.subi(index, b._constant(1, i32))
            rest.yield_(*_place(b, left, b.cmpi("ne", left, b._constant(0, i32)), built[1:]))
    else:
        _take(b, second, created, 0)
    _take(b, first, created, 1)
    return [Value(r, i, b._scope) for r, i in zip(created.results, infos, strict=True)]


def _take(b: Builder, one: Built, created: IrOperation, region: int) -> None:
    end(b, one.block, "scf.yield", one.yields, created)
    one.block.append_to(created.regions[region])
