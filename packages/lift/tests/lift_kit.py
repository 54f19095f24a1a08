"""What the tests share: small modules, as text and as Pallas lowers them."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.lift._compat import stripped, stripped_module
from mosaic_tpu.lift._run import build

VMEM: Final = "memref<8x128xf32, #tpu.memory_space<vmem>>"
KERNEL: Final = """attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    tpu.core_type = #tpu.core_type<tc>}"""


def module(*ops: str, arguments: str = f"%x: {VMEM}, %y: {VMEM}", attributes: str = KERNEL, name: str = "k") -> str:
    """A module whose kernel has these ops."""
    body = "\n".join(f"  {op}" for op in ops)
    return f"module @{name} {{\nfunc.func @{name}({arguments}) {attributes} {{\n{body}\n  return\n}}\n}}"


DOUBLE: Final = module(
    "%c0 = arith.constant 0 : index",
    "%c1 = arith.constant 0 : index",
    f"%0 = vector.load %x[%c0, %c1] : {VMEM}, vector<8x128xf32>",
    "%1 = arith.addf %0, %0 : vector<8x128xf32>",
    "%c2 = arith.constant 0 : index",
    "%c3 = arith.constant 0 : index",
    f"tpu.vector_store %y[%c2, %c3], %1 {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>,",
    name="double",
)


def lowered(function: Callable[..., Any], *shapes: jax.ShapeDtypeStruct) -> Any:
    """A function, lowered for a TPU on any machine."""
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",))


def multiplied(name: str = "multiplied", activation: Callable[[Any], Any] = jnp.exp) -> Any:
    """A product in blocks with an accumulator, as a function of two arrays."""

    def kernel(x_ref: Any, w_ref: Any, o_ref: Any, acc: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            acc[...] = jnp.zeros_like(acc)

        acc[...] += jnp.dot(x_ref[...], w_ref[...], preferred_element_type=jnp.float32)
        o_ref[...] = activation(acc[...]).astype(o_ref.dtype)

    kernel.__name__ = name
    return pl.pallas_call(
        kernel,
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        name=name,
    )


SQUARE: Final = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)


def bytes_of(source: str, version: int | None = 15) -> bytes:
    """What lifted source builds, without locations."""
    return stripped_module(build(source), version)


def wanted(data: str | bytes, version: int | None = 15) -> bytes:
    """A module without locations, as MLIR itself writes it."""
    return stripped(data, version)


_LINTED: Final = """
line-length = 120
lint.select = ["E", "W", "F", "I", "N", "UP", "B", "C4", "PIE", "RUF", "SIM", "RET", "PERF", "D"]
lint.flake8-comprehensions.allow-dict-calls-with-keyword-arguments = true
lint.pydocstyle.convention = "google"
"""


def objections(source: str) -> str:
    """What ruff says against source, as linter and as formatter; it comes with the dependency group of tests."""
    ruff = shutil.which("ruff")
    assert ruff is not None, "ruff is not installed"
    options = ["--isolated", *(o for line in _LINTED.split("\n") if line for o in ("--config", line)), "-"]
    runs = [
        subprocess.run([ruff, *how, *options], input=source, capture_output=True, text=True, check=False)
        for how in (["check"], ["format", "--diff"])
    ]
    return "".join(r.stdout + r.stderr for r in runs if r.returncode)


def nested(depth: int) -> str:
    """A module of branches in each other."""
    opened = "".join("scf.if %c {\n" for _ in range(depth))
    return module("%c = arith.constant true", opened + "scf.yield\n} else { scf.yield }\n" * depth)


def damaged(body: bytes, seed: int) -> bytes:
    """A body with bits flipped, bytes replaced, or a part cut out."""
    chance, found = random.Random(seed), bytearray(body)
    match chance.choice(["bits", "bits", "byte", "cut", "hole"]):
        case "bits":
            for _ in range(chance.randint(1, 3)):
                found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
        case "byte":
            found[chance.randrange(len(found))] = chance.randrange(256)
        case "cut":
            del found[chance.randrange(len(found)) :]
        case _:
            start = chance.randrange(len(found))
            del found[start : start + chance.randint(1, 40)]
    return bytes(found)
