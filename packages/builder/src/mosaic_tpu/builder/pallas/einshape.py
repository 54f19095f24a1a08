"""`pltpu.einshape`: dimensions split, reordered and merged by name, in whole tiles where that is possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import AttributeValueError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.pallas.movement import MovementIdioms
from mosaic_tpu.builder.pallas.pipeline_buffers import infer_tiling

type Side = list[str]


@dataclass(frozen=True)
class _Equation:
    """Both sides: a string of names for each dimension, several names where it is made of several."""

    left: Side
    right: Side
    sizes: Mapping[str, int]

    @property
    def order(self) -> tuple[int, ...]:
        """Where each name of the right side stands on the left."""
        names = "".join(self.left)
        return tuple(names.index(name) for name in "".join(self.right))

    def shape(self, side: Side) -> tuple[int, ...]:
        """The sizes of the dimensions of a side."""
        return tuple(math.prod(self.sizes[name] for name in group) for group in side)

    @property
    def steps(self) -> int:
        """How many dimensions are split and merged, and whether they are reordered."""
        groups = sum(len(group) != 1 for group in (*self.left, *self.right))
        return groups + (self.order != tuple(sorted(self.order)))


class EinshapeIdioms(MovementIdioms):
    """`pltpu.einshape`."""

    @idiom("pltpu.einshape(equation, x)", "vector.shape_cast", "tpu.transpose", "tpu.concatenate", group="movement")
    def einshape(self, equation: str, x: Value, *, assert_is_tile_preserving: bool = False, **sizes: int) -> Value:
        """`pltpu.einshape`: splits, a transpose and merges of dimensions, by name: ``"a(bc)->bac"``.

        Where every tile stays whole, the tiles are cut out and joined in their new order instead.

        Args:
            equation: names of the dimensions on both sides; names in parentheses share a dimension.
            x: a vector.
            assert_is_tile_preserving: refuse what does not keep tiles whole.
            sizes: of names that share a dimension on the left; one of them can be left out.

        Raises:
            AttributeValueError: the equation has another form, or names that one side lacks.
            ShapeError: it does not fit the vector.
            UnsupportedOpError: tiles do not stay whole, though asserted.

        Example:
            >>> b.pallas.einshape("a(bc)->bac", a.x[...], b=2).shape
            (2, 8, 64)
        """
        self._b._use_vector(x, "einshape")
        found = self._equation(equation, x, sizes)
        with self._one_line("einshape"):
            outer = _outer_sizes(found, x) if found.steps > 1 else None
            if outer is not None:
                return self._tiles_moved(found, x, outer)
            if self._b._flag(assert_is_tile_preserving, "einshape", "assert_is_tile_preserving") and found.steps > 1:
                self._b.fail(
                    UnsupportedOpError,
                    f"{equation!r} cuts tiles",
                    op="einshape",
                    operands=[x],
                    hint="leave assert_is_tile_preserving out",
                )
            return self._dimensions_moved(found, x)

    def _equation(self, equation: str, x: Value, sizes: Mapping[str, int]) -> _Equation:
        b = self._b
        text = b._text(equation, "einshape", "equation").replace(" ", "")
        left, arrow, right = text.partition("->")
        sides = [_side(left), _side(right)] if arrow else []
        names = ["".join(side) for side in sides if side is not None]
        if len(names) != 2 or sorted(names[0]) != sorted(names[1]) or len(set(names[0])) != len(names[0]):
            hint = "each name once on both sides of ->, in parentheses where dimensions are merged"
            b.fail(AttributeValueError, f"the equation {equation!r}", op="einshape", operands=[x], hint=hint)
        groups, target = (side for side in sides if side is not None)
        if len(groups) != x.rank:
            b.fail(ShapeError, f"{equation!r} does not fit rank {x.rank}", op="einshape", operands=[x])
        unknown = sorted(set(sizes) - set(names[0]))
        if unknown:
            b.fail(AttributeValueError, f"no {unknown[0]!r} in {equation!r}", op="einshape", operands=[x])
        known: dict[str, int] = {}
        for group, size in zip(groups, x.shape, strict=True):
            given = {n: b._int(sizes[n], "einshape", "size") for n in group if n in sizes and len(group) > 1}
            rest = [n for n in group if n not in given]
            product = math.prod(given.values())
            if len(rest) > 1 or product < 1 or size % product or (not rest and product != size):
                hint = f"the sizes of {', '.join(group)}, or of all but one; their product is {size}"
                b.fail(ShapeError, f"{size} elements as {group!r}", op="einshape", operands=[x], hint=hint)
            known |= given | dict.fromkeys(rest, size // product)
        return _Equation(groups, target, known)

    def _dimensions_moved(self, equation: _Equation, x: Value) -> Value:
        """The general way: a reshape for each split, a transpose, a reshape for each merge."""
        done: Side = []
        for at, group in enumerate(equation.left):
            done += list(group)
            if len(group) > 1:
                x = self.reshape(x, equation.shape([*done, *equation.left[at + 1 :]]))
        if equation.order != tuple(sorted(equation.order)):
            x = self._b.transpose(x, equation.order)
        names = "".join(equation.right)
        ends = accumulate(len(group) for group in equation.right)
        for at, (group, end) in enumerate(zip(equation.right, ends, strict=True)):
            if len(group) > 1:
                x = self.reshape(x, equation.shape([*equation.right[: at + 1], *names[end:]]))
        return x

    def _tiles_moved(self, equation: _Equation, x: Value, outer: Mapping[str, int]) -> Value:
        """Every tile cut out, and joined dimension after dimension, the last one first."""
        *leading, rows, columns = infer_tiling(x.shape, x.dtype)
        tiled = tuple(size // tile for size, tile in zip(x.shape, (*leading, rows, columns), strict=True))
        tiles: list[Value] = []
        for at in np.ndindex(*tiled):
            *first, i, j = (int(n) for n in at)
            tiles.append(
                self.index(x, (*first, slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns)))
            )
        numbers = np.arange(len(tiles)).reshape([outer[name] for name in "".join(equation.left)])
        moved = numbers.transpose(equation.order)
        grid = moved.reshape([math.prod(outer[name] for name in group) for group in equation.right])
        return self._joined([tiles[n] for n in grid.ravel()], grid.shape)

    def _joined(self, tiles: Sequence[Value], grid: Sequence[int]) -> Value:
        """As `jnp.block` joins: all that lies along the later dimensions first, then along the first one."""
        if not grid:
            return tiles[0]
        size = len(tiles) // grid[0]
        parts = [self._joined(tiles[n * size : (n + 1) * size], grid[1:]) for n in range(grid[0])]
        depth = len(grid)
        rank = max(depth, *(part.rank for part in parts))
        return self.concatenate([self.reshape(p, (1,) * (rank - p.rank) + p.shape) for p in parts], -depth)


def _side(text: str) -> Side | None:
    """The dimensions of a side; ``None`` where parentheses do not match or something else than a letter stands."""
    groups: Side = []
    while text:
        if text[0] == "(":
            group, closing, text = text[1:].partition(")")
            if not closing:
                return None
        else:
            group, text = text[0], text[1:]
        if not group.isalpha():
            return None
        groups.append(group)
    return groups


def _outer_sizes(equation: _Equation, x: Value) -> Mapping[str, int] | None:
    """How many tiles lie along each name, if every tile stays whole; ``None`` if one would be cut."""
    if x.rank < 2 or len(equation.right) < 2:
        return None
    tiling = infer_tiling(x.shape, x.dtype)
    if any(size % tile for size, tile in zip(x.shape, tiling, strict=True)):
        return None
    outer: dict[str, int] = {}
    holders: list[str | None] = []
    for group, size, tile in zip(equation.left, x.shape, tiling, strict=True):
        found = _split(group, equation.sizes, size // tile, tile)
        if found is None:
            return None
        outer |= found[0]
        holders.append(found[1] or group[-1])  # a tile of one row is nobody's, and comes last
    for group, holder in zip(equation.right[-2:], holders[-2:], strict=True):
        names = [n for n in group if outer[n] > 1 or n == holder or n in holders[-2:]]
        if not names or names[-1] != holder:
            return None
    return outer


def _split(group: str, sizes: Mapping[str, int], rest: int, tile: int) -> tuple[dict[str, int], str | None] | None:
    """The tiles along each name of a dimension of ``rest`` tiles, and the name that has the tile itself."""
    outer: dict[str, int] = {}
    holder: str | None = None
    for name in group:
        size, taken = sizes[name], 1
        if size > 1 and rest > 1:
            taken = rest if size % rest == 0 else size if rest % size == 0 else 0
            if not taken:
                return None
            rest //= taken
        if size > taken:
            if holder is not None or rest > 1 or size != taken * tile:
                return None
            holder = name
        outer[name] = taken
    return outer, holder
