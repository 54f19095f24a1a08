"""Keys of the TPU's generator, and `jax.random`'s distributions drawn with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import KindError, ShapeError
from mosaic_tpu.builder.pallas.random import ALMOST_MINUS_ONE, Bits, RandomIdioms
from mosaic_tpu.builder.pallas.refs import RefIdioms

_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class Key:
    """A key in a kernel, as Pallas holds it: two scalars.

    Attributes:
        words: u32 each.
    """

    words: tuple[Value, Value]


class KeyIdioms(RandomIdioms, RefIdioms):
    """``key_ref[…]`` and `jax.random` functions of a key that `pltpu.to_pallas_key` made."""

    @idiom("key_ref[…]", "memref.load", group="random", traits=("load",))
    def load_key(self, ref: Value) -> Key:
        """``key_ref[…]``: a key that `pltpu.to_pallas_key` made, from SMEM.

        Args:
            ref: what `jax.random.key_data` gives of it: u32 of shape ``(1, 2)``.

        Raises:
            ShapeError: more than one key: Pallas loads one at a time.
            KindError: what is no SMEM ref of 32-bit integers, or is a view.

        Example:
            >>> scalars = b.alloca((1, 2), u32, "smem")
            >>> b.pallas.load_key(scalars).words[0].dtype
            u32
        """
        b = self._b
        self._view(ref, "load_key")
        if not isinstance(ref, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
            b.fail(KindError, "a view of a key", op="load_key", operands=[ref], hint="the ref itself")
        if ref.memory_space is not MemorySpace.SMEM or ref.dtype not in (dt.u32, dt.i32):
            hint = "an SMEM ref of u32: jax.random.key_data(pltpu.to_pallas_key(key))"
            b.fail(KindError, f"a key in {ref}", op="load_key", operands=[ref], hint=hint)
        if ref.shape[-2:] != (1, 2) or math.prod(ref.shape) != 2:
            b.fail(ShapeError, f"a key of shape {ref.shape}", op="load_key", operands=[ref], hint="(1, 2)")
        zeros = (0,) * (ref.rank - 1)
        first, second = (self.load(ref, (*zeros, n)) for n in range(2))
        return Key((self.astype(first, dt.u32), self.astype(second, dt.u32)))

    def _key(self, key: Key, op: str) -> Key:
        if not isinstance(key, Key):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._b.fail(KindError, f"{key!r} is not a key", op=op, hint="b.pallas.load_key(ref)")
        for word in key.words:
            self._b._use(word, op)
        return key

    @idiom("jax.random.fold_in(key, data)", "arith.addi", "arith.shli", "arith.xori", group="random")
    def fold_in(self, key: Key, data: Value | int) -> Key:
        """`jax.random.fold_in`: another key, of this one and a number.

        Args:
            key: a key.
            data: an int or a scalar of 32 bits.

        Raises:
            KindError: what is no key, or ``data`` that is no scalar of 32 bits.

        Example:
            >>> key = b.pallas.fold_in(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), a.i)
            >>> key.words[1].dtype
            u32
        """
        first, second = self._key(key, "fold_in").words
        if isinstance(data, Value):
            self._value(data, "fold_in")
            if data.rank or data.dtype not in (dt.i32, dt.u32):
                self._b.fail(KindError, "data is a scalar of 32 bits", op="fold_in", operands=[data], hint="cast it")
            data = self.astype(data, dt.u32)
        else:
            self._b._int(data, "fold_in", "data")
        with self._one_line("fold_in"):
            second = self.add(second, data)
            first = self.add(first, second)
            high = self.left_shift(second, 13)
            width = self._const(32, dt.u32)
            low = self.right_shift(second, self.sub(width, 13))
            return Key((first, self.bitwise_xor(first, self.bitwise_or(high, low))))

    # --- distributions ------------------------------------------------------------------------------------------------

    def _bits_of(self, key: Key, op: str) -> Bits:
        """Draws with a key, which seeds the generator."""
        self._key(key, op)

        def bits(sizes: tuple[int, ...]) -> Value:
            self._b.prng_set_seed_32(*key.words)
            return self._unsigned_bits(sizes)

        return bits

    def _drawn(self, key: Key, shape: Sequence[int], low: float, high: float, op: str) -> Value:
        return self._uniform(self._sizes(shape, op), low, high, self._bits_of(key, op))

    @idiom("jax.random.bits(key, shape)", "tpu.prng_set_seed_32", "tpu.prng_random_bits", group="random", traits=())
    def random_bits(self, key: Key, shape: Sequence[int]) -> Value:
        """`jax.random.bits`: u32 of rank 2 or more.

        Raises:
            KindError: what is no key.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_bits(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            u32
        """
        with self._one_line("random_bits"):
            return self._bits_of(key, "random_bits")(self._sizes(shape, "random_bits"))

    @idiom("jax.random.uniform(key, shape)", "tpu.prng_random_bits", "arith.maximumf", group="random", traits=())
    def random_uniform(self, key: Key, shape: Sequence[int], *, minval: float = 0.0, maxval: float = 1.0) -> Value:
        """`jax.random.uniform`: f32 from ``minval`` up to ``maxval``.

        Raises:
            KindError: what is no key.
            AttributeValueError: what is to be a Python float is none.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_uniform(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            f32
        """
        low, high = self._numbers("random_uniform", minval, maxval)
        with self._one_line("random_uniform"):
            return self._drawn(key, shape, low, high, "random_uniform")

    @idiom("jax.random.normal(key, shape)", "tpu.prng_random_bits", "math.log1p", group="random", traits=())
    def random_normal(self, key: Key, shape: Sequence[int]) -> Value:
        """`jax.random.normal`: f32 of the standard normal distribution.

        Raises:
            KindError: what is no key.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_normal(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            f32
        """
        with self._one_line("random_normal"):
            return self._normal(self._sizes(shape, "random_normal"), self._bits_of(key, "random_normal"))

    @idiom("jax.random.bernoulli(key, p, shape)", "tpu.prng_random_bits", "arith.cmpf", group="random", traits=())
    def random_bernoulli(self, key: Key, p: float, shape: Sequence[int]) -> Value:
        """`jax.random.bernoulli`: true with probability ``p``.

        Raises:
            KindError: what is no key.
            AttributeValueError: what is to be a Python float is none.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_bernoulli(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), 0.5, (8, 128)).dtype
            i1
        """
        (probability,) = self._numbers("random_bernoulli", p)
        with self._one_line("random_bernoulli"):
            sizes = self._sizes(shape, "random_bernoulli")
            return self._bernoulli(probability, sizes, self._bits_of(key, "random_bernoulli"))

    @idiom("jax.random.exponential(key, shape)", "tpu.prng_random_bits", "math.log1p", group="random", traits=())
    def random_exponential(self, key: Key, shape: Sequence[int]) -> Value:
        """`jax.random.exponential`: f32 with mean 1.

        Raises:
            KindError: what is no key.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_exponential(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            f32
        """
        with self._one_line("random_exponential"):
            return self.neg(self.log1p(self.neg(self._drawn(key, shape, 0.0, 1.0, "random_exponential"))))

    @idiom("jax.random.laplace(key, shape)", "tpu.prng_random_bits", "math.log1p", group="random", traits=())
    def random_laplace(self, key: Key, shape: Sequence[int]) -> Value:
        """`jax.random.laplace`: f32, exponential on both sides of 0.

        Raises:
            KindError: what is no key.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_laplace(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            f32
        """
        with self._one_line("random_laplace"):
            uniform = self._drawn(key, shape, ALMOST_MINUS_ONE, 1.0, "random_laplace")
            side = self._b.pallas.sign(uniform)
            return self.mul(side, self.log1p(self.neg(self._b.abs(uniform))))

    @idiom("jax.random.logistic(key, shape)", "tpu.prng_random_bits", "math.log", group="random", traits=())
    def random_logistic(self, key: Key, shape: Sequence[int]) -> Value:
        """`jax.random.logistic`: f32 of the logistic distribution.

        Raises:
            KindError: what is no key.
            ShapeError: of rank 1, or without elements.

        Example:
            >>> b.pallas.random_logistic(b.pallas.load_key(b.alloca((1, 2), u32, "smem")), (8, 128)).dtype
            f32
        """
        with self._one_line("random_logistic"):
            uniform = self._drawn(key, shape, _TINY, 1.0, "random_logistic")
            return self.sub(self.log(uniform), self.log1p(self.neg(uniform)))
