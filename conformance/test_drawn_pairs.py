"""Pairs over drawn shapes, element types and arguments, beyond those of the cheat-sheet: one body, and it comes back.

What Pallas refuses is not compared; most of what is drawn it takes, and a test sees to that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import jax
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from conformance import cheat_sheet, drawn_loops
from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.pairs import Pair, Pairs, out, smem, vmem
from conformance.conftest import Record
from conformance.harness import levels, pallas
from conformance.harness.trip import Trip
from mosaic_tpu.builder import DType, bf16, f32, i8, i16, i32, u32
from mosaic_tpu.builder.errors import MosaicError

#: Of each family, in each run.
EXAMPLES: Final = 40
SIZES: Final = (1, 2, 3, 4, 8, 16, 24, 64, 100, 128, 256)
NUMBERS: Final = (f32, bf16, i32, i16, i8, u32)
ARITHMETIC: Final = {
    "{} + {}": None,
    "{} - {}": None,
    "{} * {}": None,
    "jnp.maximum({}, {})": "b.pallas.maximum({}, {})",
    "jnp.minimum({}, {})": "b.pallas.minimum({}, {})",
    "{} < {}": None,
    "{} >= {}": None,
    "jnp.where({0} > {1}, {0}, {1})": "b.pallas.where({0} > {1}, {0}, {1})",
}
type Draw = Callable[[st.SearchStrategy[Any]], Any]


def expression(theirs: str, ours: str | None = None, **operands: Any) -> Pair:
    """A pair that is in no list."""
    pairs = Pairs("drawn")
    pairs.expression("drawn", theirs, ours, **operands)
    return pairs.pairs[0]


def statements(theirs: str, ours: str | None = None, **operands: Any) -> Pair:
    """One of statements over refs."""
    pairs = Pairs("drawn")
    pairs.refs("drawn", theirs, ours, **operands)
    return pairs.pairs[0]


def shape(draw: Draw, least: int = 1, most: int = 3) -> tuple[int, ...]:
    """A shape of at most 64 Ki elements."""
    found = draw(st.lists(st.sampled_from(SIZES), min_size=least, max_size=most))
    while math.prod(found) > 1 << 16:
        found[found.index(max(found))] = 8
    return tuple(found)


def loops(draw: Draw) -> Pair:
    """Loops, with what they carry."""
    return statements(*drawn_loops.loops(draw), **drawn_loops.OPERANDS)


def pythons(draw: Draw) -> Pair:
    """What Python has a word or a sign of its own for, of one array, or of two or an array and a number."""
    dtype, whole = draw(st.sampled_from(NUMBERS)), shape(draw)
    one = ["round(x)", "round(x, 0)", "round(x, 2)", "abs(x)", "+x", "-x"]
    other = draw(st.sampled_from(["y", "3", "2.5", "np.int32(3)", "np.float32(2.5)"]))
    two = [f"(lambda q, r: q + r)(*divmod({', '.join(pair)}))" for pair in (("x", other), (other, "x"))]
    text = draw(st.sampled_from([*one, *two, *two]))
    names = "xy" if "y" in text else "x"
    return expression(text, None, **{name: vmem(dtype, whole) for name in names})


def operators(draw: Draw) -> Pair:
    """Two arrays that broadcast against each other, or an array and a scalar or a number."""
    theirs, ours = draw(st.sampled_from(list(ARITHMETIC.items())))
    dtype, whole = draw(st.sampled_from(NUMBERS)), shape(draw)
    other = draw(st.sampled_from(["same", "stretched", "fewer", "scalar", "number", "mixed"]))
    operands: dict[str, Any] = {"x": vmem(dtype, whole)}
    match other:
        case "number":
            y = draw(st.sampled_from(["2", "2.5", "-1"])) if dtype.is_float else draw(st.sampled_from(["2", "7"]))
        case "scalar":
            y, operands["y"] = "y", smem(dtype if dtype.bits == 32 else f32)
        case _:
            sizes = [1 if other == "stretched" and draw(st.booleans()) else s for s in whole]
            sizes = sizes[draw(st.integers(0, len(sizes) - 1)) :] if other == "fewer" else sizes
            kind = draw(st.sampled_from(NUMBERS)) if other == "mixed" else dtype
            y, operands["y"] = "y", vmem(kind, tuple(sizes))
    names = ("x", y) if draw(st.booleans()) else (y, "x")
    return expression(theirs.format(*names), None if ours is None else ours.format(*names), **operands)


def reductions(draw: Draw) -> Pair:
    """A reduction along some axes."""
    name = draw(st.sampled_from(["sum", "max", "min", "mean", "var", "std", "argmax", "argmin"]))
    whole = shape(draw)
    axes = [None, *range(-len(whole), len(whole))]
    axis: Any = draw(st.sampled_from(axes))
    if len(whole) > 1 and not name.startswith("arg") and draw(st.booleans()):
        axis = tuple(draw(st.permutations(range(len(whole))))[: draw(st.integers(1, len(whole)))])
    dtype = draw(st.sampled_from((f32, bf16, i32)))
    how = f"axis={axis}, keepdims={draw(st.booleans())}"
    return expression(f"jnp.{name}(x, {how})", f"b.pallas.{name}(x, {how})", x=vmem(dtype, whole))


def casts(draw: Draw) -> Pair:
    """One element type to another."""
    source, target = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from(NUMBERS))
    theirs = f"x.astype({JAX_NAMES[target]})"
    return expression(theirs, f"b.pallas.astype(x, {target})", x=vmem(source, shape(draw)))


def rearrangements(draw: Draw) -> Pair:
    """Another shape, or another order."""
    whole, dtype = shape(draw, least=2), draw(st.sampled_from(NUMBERS))
    x = vmem(dtype, whole)
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    match draw(st.sampled_from(["reshape", "transpose", "expand", "broadcast", "concatenate", "repeat", "swap"])):
        case "reshape":
            target = draw(st.permutations(whole))
            merged = draw(st.sampled_from([tuple(target), (math.prod(whole[:-1]), whole[-1]), (math.prod(whole),)]))
            return expression(f"x.reshape({merged})", f"b.pallas.reshape(x, {merged})", x=x)
        case "transpose":
            axes = tuple(draw(st.permutations(range(len(whole)))))
            return expression(f"jnp.transpose(x, {axes})", f"b.pallas.transpose(x, {axes})", x=x)
        case "expand":
            return expression(f"jnp.expand_dims(x, {axis})", f"b.pallas.expand_dims(x, {axis})", x=x)
        case "broadcast":
            ones = tuple(1 if draw(st.booleans()) else s for s in whole)
            texts = (f"jnp.broadcast_to(x, {whole})", f"b.pallas.broadcast_to(x, {whole})")
            return expression(*texts, x=vmem(dtype, ones))
        case "concatenate":
            return expression(f"jnp.concatenate([x, y], {axis})", f"b.pallas.concatenate([x, y], {axis})", x=x, y=x)
        case "repeat":
            return expression(f"jnp.repeat(x, 2, {axis})", f"b.pallas.repeat(x, 2, {axis})", x=x)
        case _:
            return expression(f"jnp.swapaxes(x, 0, {axis})", f"b.pallas.swapaxes(x, 0, {axis})", x=x)


def index(draw: Draw, whole: tuple[int, ...], *, dynamic: bool) -> tuple[str, tuple[int, ...]]:
    """An index, and the shape it leaves."""
    entries: list[str] = []
    left: list[int] = []
    for size in whole:
        kind = draw(st.sampled_from(["all", "one", "part", *(["scalar", "window"] if dynamic else [])]))
        start = draw(st.integers(0, size - 1))
        length = draw(st.integers(1, size - start))
        entries.append(
            {
                "all": ":",
                "one": str(start),
                "part": f"{start}:{start + length}",
                "scalar": f"s[{start % 4}]",
                "window": f"DS(s[{start % 4}], {length})",
            }[kind]
        )
        left += {"all": [size], "part": [length], "window": [length]}.get(kind, [])
    return ", ".join(entries), tuple(left)


def indices(draw: Draw) -> Pair:
    """A part of an array, or of a ref that is read or written."""
    whole, dtype = shape(draw, least=2), draw(st.sampled_from((f32, bf16, i32)))
    of_ref = draw(st.booleans())
    text, left = index(draw, whole, dynamic=of_ref)
    if not left:
        text, left = f"{text.rpartition(', ')[0]}, :", whole[-1:]
    if not of_ref:
        return expression(f"x[{text}]", None, x=vmem(dtype, whole))
    theirs, ours = text.replace("DS", "pl.ds"), text.replace("DS", "b.pallas.ds")
    if draw(st.booleans()):
        refs = {"s": smem(i32, (4,)), "x": vmem(dtype, whole), "o": out(dtype, left)}
        return statements(f"o[...] = x[{theirs}]", f"o[...] = x[{ours}]", **refs)
    refs = {"s": smem(i32, (4,)), "x": vmem(dtype, left), "o": out(dtype, whole)}
    return statements(f"o[{theirs}] = x[...]", f"o[{ours}] = x[...]", **refs)


def products(draw: Draw) -> Pair:
    """A product of matrices, or of a batch of them, either of them transposed."""
    m, n, k = (draw(st.sampled_from((8, 16, 64, 128, 256))) for _ in range(3))
    batch = (draw(st.sampled_from((1, 2, 4))),) if draw(st.booleans()) else ()
    first, second = draw(st.booleans()), draw(st.booleans())
    lhs, rhs = ((k, m) if first else (m, k)), ((n, k) if second else (k, n))
    rank = len(batch)
    dims = (((rank + (not first),), (rank + second,)), ((0,), (0,)) if batch else ((), ()))
    dtype: DType = draw(st.sampled_from((f32, bf16, i8)))
    wide = i32 if dtype is i8 else f32
    return expression(
        f"lax.dot_general(x, y, {dims}, preferred_element_type={JAX_NAMES[wide]})".replace("True", "1"),
        f"b.pallas.dot_general(x, y, {dims}, preferred_element_type={wide})".replace("True", "1"),
        x=vmem(dtype, (*batch, *lhs)),
        y=vmem(dtype, (*batch, *rhs)),
    )


FAMILIES: Final = (loops, pythons, operators, reductions, casts, rearrangements, indices, products)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_drawn_pairs_have_one_body_and_come_back(family: Callable[[Draw], Pair], record: Record) -> None:
    counts, trip = Counter[str](), Trip()

    @seed(0)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        pair = family(data.draw)
        verdict = compared(pair, trip)
        counts[verdict] += 1

    compare()
    record("drawn pairs", family=family.__name__, identical=counts["identical"], refused=counts["refused"])
    record("lift round trip", **trip.row("drawn pairs"))
    assert counts["refused"] < counts["identical"]
    assert trip.identical == trip.modules
    assert not trip.again


def compared(pair: Pair, trip: Trip) -> str:
    """Whether both sides are one body, or Pallas refuses hers."""
    what = f"{pair.pallas_text}\n≠\n{pair.ours_text}\n{pair.args}"
    try:
        call, arrays = pair.pallas_call()
        theirs = pallas.lower(call, *arrays)
    except (NotImplementedError, ValueError, TypeError, AssertionError, IndexError, jax.errors.JaxRuntimeError):
        return "refused"
    try:
        ours = cheat_sheet.lower(pair, arrays)
    except MosaicError as error:
        raise AssertionError(f"ours refuses what Pallas takes: {error}\n{what}") from error
    result = levels.compare(ours, theirs)
    assert result.level.reaches(levels.required_level(theirs)), f"{what}\n{result.detail}"
    trip.add(ours.body)
    return "identical"


def test_a_pair_that_differs_is_seen() -> None:
    pair = expression("x + y", "y + x", x=vmem(f32), y=vmem(f32))
    with pytest.raises(AssertionError, match="≠"):
        compared(pair, Trip())


def test_what_pallas_refuses_is_told_from_what_differs() -> None:
    assert compared(expression("jnp.sort(x, 0)", "x", x=vmem(f32)), Trip()) == "refused"
