"""Random numbers from the TPU's own generator, and JAX's distributions made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import AttributeValueError, ShapeError
from mosaic_tpu.builder.pallas.math import MathIdioms

#: Draws u32 of a shape.
type Bits = Callable[[tuple[int, ...]], Value]
#: The lowest number from which a normal or Laplace distribution is drawn: -1 itself would be minus infinity.
ALMOST_MINUS_ONE: Final = float(np.nextafter(np.float32(-1.0), np.float32(0.0)))


class RandomIdioms(MathIdioms):
    """`pltpu.prng_*` and `pltpu.stateful_*`."""

    @idiom("pltpu.prng_seed(*seeds)", "tpu.prng_set_seed_32", group="random", traits=())
    def prng_seed(self, *seeds: Value | int) -> None:
        """`pltpu.prng_seed`: seed the core's generator.

        Args:
            seeds: ints or i32 scalars, one or more.

        Example:
            >>> b.pallas.prng_seed(0, a.i)
        """
        b = self._b
        self._check("prng_seed", *seeds)
        with self._one_line("prng_seed"):
            values = [s if isinstance(s, Value) else self._const(b._int(s, "prng_seed", "seed"), dt.i32) for s in seeds]
            b.prng_set_seed_32(*values)

    @idiom("pltpu.prng_random_bits(shape)", "tpu.prng_random_bits", group="random", traits=())
    def prng_random_bits(self, shape: Sequence[int]) -> Value:
        """`pltpu.prng_random_bits`: i32 of rank 2 or more.

        Raises:
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.prng_seed(0); b.pallas.prng_random_bits((8, 128)).dtype
            i32
        """
        return self._b.prng_random_bits(self._sizes(shape, "prng_random_bits"))

    def _placeholder(self) -> None:
        """The key that JAX's samplers ask for and the generator does not use: a dead seed of a dead constant."""
        self._const(0, dt.i32)
        self._const(0, dt.i32)

    def _unsigned_bits(self, shape: Sequence[int]) -> Value:
        return self._b.prng_random_bits(shape, dt.u32)

    @idiom("pltpu.stateful_bits(shape)", "tpu.prng_random_bits", group="random", traits=())
    def stateful_bits(self, shape: Sequence[int]) -> Value:
        """`pltpu.stateful_bits`: u32 of rank 2 or more.

        Raises:
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.prng_seed(0); b.pallas.stateful_bits((8, 128)).dtype
            u32
        """
        sizes = self._sizes(shape, "stateful_bits")
        with self._one_line("stateful_bits"):
            self._placeholder()
            return self._unsigned_bits(sizes)

    @idiom("pltpu.stateful_uniform(shape)", "tpu.prng_random_bits", "arith.maximumf", group="random", traits=())
    def stateful_uniform(self, shape: Sequence[int], *, minval: float = 0.0, maxval: float = 1.0) -> Value:
        """`pltpu.stateful_uniform`: f32 from ``minval`` up to ``maxval``.

        Raises:
            AttributeValueError: what is to be a Python float is none.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.prng_seed(0); b.pallas.stateful_uniform((8, 128)).dtype
            f32
        """
        low, high = self._numbers("stateful_uniform", minval, maxval)
        sizes = self._sizes(shape, "stateful_uniform")
        with self._one_line("stateful_uniform"):
            self._placeholder()
            return self._uniform(sizes, low, high, self._unsigned_bits)

    def _sizes(self, shape: Sequence[int], op: str) -> tuple[int, ...]:
        """A shape that the generator fills: of rank 2 or more."""
        sizes = self._b._shape(shape, op)
        if len(sizes) < 2:
            self._b.fail(ShapeError, f"shape {sizes}", op=op, hint="two dimensions or more: (1, n), then reshape")
        return sizes

    def _numbers(self, op: str, *values: float) -> list[float]:
        for value in values:
            if not isinstance(value, float):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._b.fail(AttributeValueError, f"{value!r} is not a float", op=op, hint="Python floats")
        return list(values)

    # --- distributions, of bits from the generator as it stands or from a key -----------------------------------------

    def _uniform(self, sizes: tuple[int, ...], low: float, high: float, bits: Bits) -> Value:
        """Random bits as the fraction of a number from 1 to 2, less 1, scaled."""
        b = self._b
        limits = [self._const(number, dt.f32) for number in (low, high)]
        lowest, highest = (b.broadcast_to(limit, (1,) * len(sizes)) for limit in limits)
        fraction = self.right_shift(bits(sizes), 9)
        from_one = self._bits(self.bitwise_or(fraction, 0x3F800000), dt.f32, "uniform")
        unit = self.sub(from_one, 1.0)
        scaled = self.add(self.mul(unit, self.sub(highest, lowest)), lowest)
        return self.maximum(lowest, scaled)

    def _normal(self, sizes: tuple[int, ...], bits: Bits) -> Value:
        return self.mul(math.sqrt(2), self.erf_inv(self._uniform(sizes, ALMOST_MINUS_ONE, 1.0, bits)))

    def _bernoulli(self, probability: float, sizes: tuple[int, ...], bits: Bits) -> Value:
        limit = self._const(probability, dt.f32)
        return self.lt(self._uniform(sizes, 0.0, 1.0, bits), limit)

    @idiom("pltpu.stateful_normal(shape)", "tpu.prng_random_bits", "math.log1p", group="random", traits=())
    def stateful_normal(self, shape: Sequence[int]) -> Value:
        """`pltpu.stateful_normal`: f32 of the standard normal distribution.

        Raises:
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.prng_seed(0); b.pallas.stateful_normal((8, 128)).dtype
            f32
        """
        sizes = self._sizes(shape, "stateful_normal")
        with self._one_line("stateful_normal"):
            self._placeholder()
            return self._normal(sizes, self._unsigned_bits)

    @idiom("pltpu.stateful_bernoulli(p, shape)", "tpu.prng_random_bits", "arith.cmpf", group="random", traits=())
    def stateful_bernoulli(self, p: float, shape: Sequence[int]) -> Value:
        """`pltpu.stateful_bernoulli`: true with probability ``p``.

        Raises:
            AttributeValueError: what is to be a Python float is none.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.prng_seed(0); b.pallas.stateful_bernoulli(0.5, (8, 128)).dtype
            i1
        """
        (probability,) = self._numbers("stateful_bernoulli", p)
        sizes = self._sizes(shape, "stateful_bernoulli")
        with self._one_line("stateful_bernoulli"):
            self._placeholder()
            return self._bernoulli(probability, sizes, self._unsigned_bits)
