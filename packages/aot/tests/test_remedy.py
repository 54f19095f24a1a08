"""A refusal for want of VMEM names a limit that helps: whoever follows it once is done, and less would not do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import TARGETS, _pool, compile, compile_all, lint, space, tune
from mosaic_tpu.aot._remedy import remedy
from mosaic_tpu.aot.errors import CompileError, CompileTimeoutError, DiskError, LayoutError, ScopedVmemError, VmemError

from .conftest import lowered
from .tune_kit import Blocked, Config

pytestmark = pytest.mark.usefixtures("needs_compiler")
MIB: Final = 1 << 20
GENERATIONS: Final = ("v5e", "v6e", "tpu7x")


def product(
    rows: int, inner: int, columns: int, dtype: Any = jnp.bfloat16, out: Any = jnp.float32, scratch: bool = True
) -> Any:
    """A product in blocks, two of each; with a sum in scratch, or in one go."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any, *sums: Any) -> None:
        total = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=out)
        for ref in sums:
            total = ref[...] = ref[...] + total
        o_ref[...] = total.astype(o_ref.dtype)

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((2 * rows, 2 * columns), dtype),
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((rows, inner), lambda i, j, k: (i, k)),
            pl.BlockSpec((inner, columns), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((rows, columns), out)] if scratch else [],
    )
    x, y = (2 * rows, 2 * inner), (2 * inner, 2 * columns)
    return lowered(call, jax.ShapeDtypeStruct(x, dtype), jax.ShapeDtypeStruct(y, dtype))


def rowwise(function: Callable[[Any], Any], rows: int, lanes: int, dtype: Any = jnp.float32, scratch: int = 0) -> Any:
    """A function of each row, in blocks; with scratch that it fills first."""

    def kernel(x_ref: Any, o_ref: Any, *more: Any) -> None:
        for ref in more:
            ref[...] = jnp.zeros_like(ref)
        found = function(x_ref[...].astype(jnp.float32)).astype(dtype)
        o_ref[...] = found + more[0][0, 0] if more else found

    shape, block = jax.ShapeDtypeStruct((4 * rows, lanes), dtype), pl.BlockSpec((rows, lanes), lambda i: (i, 0))
    arrays = [pltpu.VMEM((scratch, lanes), dtype)] if scratch else []
    call = pl.pallas_call(kernel, out_shape=shape, grid=(4,), in_specs=[block], out_specs=block, scratch_shapes=arrays)
    return lowered(call, shape)


KERNELS: Final = {
    "product of 256 × 512, bf16": lambda: product(256, 512, 512),
    "product of 512, bf16": lambda: product(512, 512, 512),
    "product of 512 × 1024 × 256, bf16": lambda: product(512, 1024, 256),
    "product of 512, f32": lambda: product(512, 512, 512, jnp.float32),
    "product of 256 in one go, bf16": lambda: product(256, 2048, 256, scratch=False),
    "softmax, f32": lambda: rowwise(jax.nn.softmax, 256, 2048),
    "softmax, bf16": lambda: rowwise(jax.nn.softmax, 256, 2048, jnp.bfloat16),
    "twice, f32": lambda: rowwise(lambda x: x * 2, 2048, 128),
    "twice, i8": lambda: rowwise(lambda x: x * 2, 4096, 128, jnp.int8),
    "twice with scratch, f32": lambda: rowwise(lambda x: x * 2, 1024, 128, scratch=12_000),
    "rows of 200, f32": lambda: rowwise(lambda x: x * 2, 1024, 200, scratch=2000),
}


def asked(program: Any, target: str, limit: int | None, **options: bool) -> int:
    """The limit that a refusal names."""
    with pytest.raises(ScopedVmemError) as refused:
        compile(program, target, vmem_limit_bytes=limit, **options)
    found = re.fullmatch(r"give vmem_limit_bytes=(\d+), with which it compiles, or .*", refused.value.hint)
    assert found, refused.value.hint
    return int(found[1])


@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("name", KERNELS)
def test_following_the_hint_once_is_enough_and_less_is_not(name: str, target: str) -> None:
    program = KERNELS[name]()
    limit = asked(program, target, MIB, operands_in_hbm=True)  # else XLA puts small arrays where no window is needed
    assert compile(program, target, vmem_limit_bytes=limit, operands_in_hbm=True, cache=False).ok
    less = limit - MIB - (1 << 15)  # it is in whole MiB, with a margin for what the compiler rounds
    with pytest.raises(ScopedVmemError):
        compile(program, target, vmem_limit_bytes=less, operands_in_hbm=True, cache=False)


def over_the_default(target: str) -> Any:
    """Windows of 1 MiB more."""
    return rowwise(lambda x: x * 2, (TARGETS[target].default_vmem_limit + MIB) // 2048, 128)


def near_the_default(target: str) -> Any:
    """Windows of 1/16 less, and values as large as one that are held besides."""
    return rowwise(jax.nn.softmax, (TARGETS[target].default_vmem_limit >> 20) * 15, 4096)


@pytest.mark.parametrize("target", ["v5e", "tpu7x"])
@pytest.mark.parametrize("kernel", [over_the_default, near_the_default])
def test_the_hint_holds_for_the_default_limit_too(kernel: Callable[[str], Any], target: str) -> None:
    program = kernel(target)
    limit = asked(program, target, None, operands_in_hbm=True)
    assert compile(program, target, vmem_limit_bytes=limit, operands_in_hbm=True, cache=False).ok


def test_the_hint_is_no_less_right_for_a_schedule_and_for_many() -> None:
    program = KERNELS["softmax, f32"]()
    limit = asked(program, "v6e", MIB)
    with pytest.raises(ScopedVmemError, match=f"vmem_limit_bytes={limit},"):
        compile(program, "v6e", vmem_limit_bytes=MIB, schedule=True)
    (result,) = compile_all([program], ["v6e"], vmem_limit_bytes=MIB)
    assert f"vmem_limit_bytes={limit}," in str(result.error)


class Wide(Blocked):
    """One config that the compiler refuses and lint does not."""

    def lower(self, config: Config) -> Any:
        return near_the_default("v5e") if config.block == 256 else super().lower(config)


def test_only_who_shows_the_hint_has_the_compiler_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int | None] = []
    run = _pool.run
    monkeypatch.setattr(_pool, "run", lambda job, *more: limits.append(job["vmem_limit_bytes"]) or run(job, *more))
    tuning = tune(Wide(), space(Config(), block=(128, 256)), "v5e", workers=1)
    assert [trial.stage for trial in tuning.trials] == ["", "compiler"]
    assert "its limit is" in tuning.trials[1].refused
    assert limits == [None, None]  # once for each config
    limits.clear()
    enough = asked(near_the_default("v5e"), "v5e", None, operands_in_hbm=True, schedule=True)
    assert limits
    assert limits[-1] == enough  # the refusal itself is on disk


@pytest.mark.parametrize(
    "kernel",
    [
        lambda: rowwise(lambda x: x * 2, 25600, 128, scratch=40960),  # 50 MiB of windows, 20 of scratch
        lambda: rowwise(jax.nn.softmax, 960, 4096),  # 60 MiB of windows, 15 for its values
    ],
)
def test_where_no_limit_is_enough_it_says_so_and_what_to_shrink(kernel: Callable[[], Any]) -> None:
    program, capacity = kernel(), TARGETS["tpu7x"].vmem_bytes
    with pytest.raises(VmemError, match="the largest is the window of input 0") as refused:
        compile(program, "tpu7x", vmem_limit_bytes=MIB, operands_in_hbm=True)
    assert refused.value.hint.startswith("no vmem_limit_bytes is enough: take smaller blocks")
    for limit in (capacity, 2 * capacity):
        with pytest.raises(VmemError):
            compile(program, "tpu7x", vmem_limit_bytes=limit, operands_in_hbm=True)


@pytest.mark.parametrize("target", GENERATIONS)
@pytest.mark.parametrize("kernel", [over_the_default, near_the_default])
def test_lint_names_a_limit_that_compiles_though_it_cannot_know_the_least(
    kernel: Callable[[str], Any], target: str
) -> None:
    program = kernel(target)
    (finding,) = (f for f in lint(program, target=target).findings if f.rule == "vmem-limit")
    found = re.match(r"set vmem_limit_bytes to (\d+), all that", finding.remedy)
    assert found, finding.remedy
    with pytest.raises(ScopedVmemError):
        compile(program, target, operands_in_hbm=True)
    assert compile(program, target, vmem_limit_bytes=int(found[1]), operands_in_hbm=True).ok
    (finding,) = (f for f in lint(program, target="v4").findings if f.rule == "vmem-limit")
    assert finding.remedy.startswith("take smaller blocks")


# --- what the compiler answers next --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "give vmem_limit_bytes=34603008, with which it compiles"),
        (ScopedVmemError("more", hint="its own"), "its own"),
        (VmemError("the kernel needs 128 MiB"), "no vmem_limit_bytes is enough: take smaller"),
        (
            LayoutError("no layout"),
            "with vmem_limit_bytes=34603008 the compiler refuses it for another reason: no layout",
        ),
        (CompileTimeoutError("no answer"), "what the refusal said"),
        (DiskError("no room"), "what the refusal said"),
    ],
)
def test_the_hint_says_what_came_of_the_limit(answer: CompileError | None, says: str) -> None:
    raw = "Scoped allocation with size 32.00M and limit 4.00M exceeded"
    error = ScopedVmemError("too much", raw=raw, hint="what the refusal said")
    limits: list[int] = []
    hint = remedy(error, TARGETS["v6e"], lambda limit: limits.append(limit) or answer)
    assert hint.startswith(says)
    assert limits == [33 * MIB]


@pytest.mark.parametrize(("used", "limit"), [("130.00M", "4.00M"), ("128.00M", "128.00M")])
def test_beyond_what_there_is_nothing_is_tried(used: str, limit: str) -> None:
    error = ScopedVmemError("too much", raw=f"Scoped allocation with size {used} and limit {limit} exceeded")
    hint = remedy(error, TARGETS["v6e"], lambda limit: pytest.fail(f"{limit}"))
    assert hint.startswith("no vmem_limit_bytes is enough")
