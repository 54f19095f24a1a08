"""Regions that stand deeper in each other than Python's blocks may are functions of their own."""

from __future__ import annotations

import re
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.lift import SourceError, lift
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from mosaic_tpu.sim import ir

from .lift_kit import bytes_of, lowered, module, nested, objections, wanted

STYLES: Final = ("ops", "idioms")
TILE: Final = jax.ShapeDtypeStruct((8, 128), jnp.float32)
COUNT: Final = jax.ShapeDtypeStruct((4,), jnp.int32)


def switched(branches: int) -> bytes:
    """A switch, each branch of which reads what stands before it."""

    def kernel(s: Any, x: Any, o: Any) -> None:
        shift = s[1]
        o[...] = lax.switch(s[0], [lambda n=n: x[...] * float(n + 2) + shift for n in range(branches)])

    spaces = [pl.BlockSpec(memory_space=space) for space in (pltpu.SMEM, pltpu.VMEM)]
    (call,) = ir.calls_of(lowered(pl.pallas_call(kernel, in_specs=spaces, out_shape=TILE), COUNT, TILE))
    return call.body


def counted(depth: int, ending: str = "") -> str:
    """Loops in each other, each of which carries on what the one around it carries, and what comes behind it."""
    bounds = [f"%{name} = arith.constant {n} : i32" for name, n in (("low", 0), ("high", 3), ("one", 1))]
    ops = [
        f"%r{n} = scf.for %i{n} = %low to %high step %one iter_args(%c{n + 1} = %c{n}) -> (i32) : i32 {{"
        for n in range(depth)
    ]
    ops += [f"%t = arith.addi %c{depth}, %i{depth // 2} : i32", f"scf.yield %t : i32 }} {ending}"]
    for n in reversed(range(1, depth)):
        ops += [f"%s{n} = arith.addi %r{n}, %i{n - 1} : i32", f"scf.yield %s{n} : i32 }} {ending}"]
    return module(*bounds, "%c0 = arith.constant 7 : i32", *ops, "%end = arith.addi %r0, %r0 : i32")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("branches", [2, 11, 12, 40])
def test_a_switch_of_many_branches(branches: int, style: Any) -> None:
    body = switched(branches)
    found = lifted(given(body), style)
    assert found.attempts == 1
    assert found.generic == ()
    assert bytes_of(found.text) == wanted(body)
    assert objections(found.text) == ""


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("depth", [12, 13, 21, 60, 200])
def test_a_chain_of_branches(depth: int, style: Any) -> None:
    found = lifted(given(nested(depth)), style)
    assert found.attempts == 1
    assert found.generic == ()
    assert bytes_of(found.text) == wanted(nested(depth))
    assert ("deeper" in found.text) == (depth > 12)
    assert objections(found.text) == ""


@pytest.mark.parametrize("style", STYLES)
def test_values_go_into_the_functions_and_out_of_them(style: Any) -> None:
    found = lifted(given(counted(30)), style)
    assert found.attempts == 1
    assert found.generic == ()
    assert re.search(r"    def deeper\(\w+, ", found.text)
    assert "result = deeper" in found.text
    assert bytes_of(found.text) == wanted(counted(30))
    assert objections(found.text) == ""


def test_the_generic_form_may_be_as_deep() -> None:
    text = counted(30, '{note = "a"}')
    found = lifted(given(text))
    assert found.generic.count("scf.for") == 30
    assert "deeper" in found.text
    assert bytes_of(found.text) == wanted(text)


def test_an_argument_may_be_called_as_the_functions_are() -> None:
    text = nested(60).replace("@k", "@deeper")
    text = text.replace("#tpu.memory_space<vmem>>, %y", '#tpu.memory_space<vmem>> loc("deeper_2"), %y')
    source = lift(text)
    assert "deeper_2_=Ref(" in source
    assert bytes_of(source) == wanted(text)


def test_deeper_than_any_kernel_is_refused() -> None:
    with pytest.raises(SourceError, match="nested"):
        lift(nested(2000))
