"""What is handed in wrong is refused in a sentence of ours, before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from mosaic_tpu.aot import TARGETS, Target, compile, compile_all, diff, find_target, lint, roofline, space, specialize
from mosaic_tpu.aot import vmem_need as need
from mosaic_tpu.aot.errors import AotError, OptionError, SourceError, TargetError

from .conftest import DOUBLE, doubled
from .test_damaged import WHOLE

WRONG: Final[dict[str, tuple[type[AotError], Callable[[], object]]]] = {
    **{f"timeout {t}": (OptionError, lambda t=t: compile(DOUBLE, timeout=t)) for t in (0, -1, float("nan"), "3", True)},
    **{
        f"a long timeout, {t}": (OptionError, lambda t=t: compile(DOUBLE, timeout=t))
        for t in (float("inf"), 1e12, 10**400)
    },
    **{f"flags {f!r}": (OptionError, lambda f=f: compile(DOUBLE, flags=f)) for f in ("abc", ["a"], 5)},
    **{
        f"the flag {n}": (OptionError, lambda f=f: compile(DOUBLE, flags=f))
        for n, f in {
            "of no name": {5: 1},
            "with a dash": {"--a": 1},
            "with a space": {"a": "b c"},
            "with a zero": {"a": "b\0c"},
            "with half a character": {"a": "\ud800"},
            "of 300 kB": {"a": "b" * 300_000},
            "of a list": {"a": [1]},
            "of no number": {"a": float("nan")},
        }.items()
    },
    **{
        f"a limit of {limit!r} for {judge.__name__}": (
            OptionError,
            lambda judge=judge, limit=limit: judge(DOUBLE, vmem_limit_bytes=limit),
        )
        for limit in (0, -1, 1.5, float("nan"), "x", True, 10**30)
        for judge in (compile, lint, need)
    },
    **{f"workers {w!r}": (OptionError, lambda w=w: compile_all([DOUBLE], workers=w)) for w in (0, -1, 1.5, "2", True)},
    "no sources": (OptionError, lambda: compile_all(None)),
    "one source where a list is meant": (OptionError, lambda: compile_all(DOUBLE)),
    "no targets": (OptionError, lambda: compile_all([DOUBLE], None)),
    "one target where a list is meant": (OptionError, lambda: compile_all([DOUBLE], "v6e")),
    "a number of outputs": (SourceError, lambda: compile(DOUBLE, outputs=3)),
    "an endless dimension": (SourceError, lambda: compile(DOUBLE, inputs=[((8, float("inf")), "float32")])),
    "a negative dimension": (SourceError, lambda: compile(DOUBLE, inputs=[((8, -1), "float32")])),
    "a huge dimension": (SourceError, lambda: compile(DOUBLE, inputs=[((8, 10**30), "float32")])),
    **{f"half a character for {j.__name__}": (SourceError, lambda j=j: j("\ud800")) for j in (compile, lint, need)},
    "lint's target": (TargetError, lambda: lint(DOUBLE, target=5)),
    "a target made by hand": (TargetError, lambda: compile(DOUBLE, Target(TARGETS["v6e"], "junk"))),
    "a schedule that is none": (OptionError, lambda: diff(doubled(), None)),
    **{f"cycles {c!r}": (OptionError, lambda c=c: roofline(doubled(), cycles=c)) for c in ("x", 0, -1)},
    **{f"scalars {s!r}": (OptionError, lambda s=s: specialize(doubled(), scalars=s)) for s in (5, None, "ab", [1])},
    "a field that is not there": (OptionError, lambda: space(Target(TARGETS["v6e"], "v6e:1x1"), block=(1,))),
    "a value where values are meant": (OptionError, lambda: space(Target(TARGETS["v6e"], "v6e:1x1"), topology=5)),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_refused(name: str) -> None:
    error, call = WRONG[name]
    with pytest.raises(error) as refused:
        call()
    assert "\n  hint: " in str(refused.value)


@pytest.mark.parametrize("topology", ["v6e:1x" + "9" * 5000, "v6e:00x1", "v6e:٢x٢", "v6e:0x1"])
def test_a_topology_has_short_plain_numbers(topology: str) -> None:
    with pytest.raises(TargetError):
        find_target(topology)


@pytest.mark.parametrize("name", TARGETS)
def test_targets_can_be_keys(name: str) -> None:
    assert {find_target(name): 1}[find_target(name)] == 1
    assert {TARGETS[name]} == {TARGETS[name]}


# --- scalars -------------------------------------------------------------------------------------------------------

#: The trip count is the scalar.
COUNTED: Final = WHOLE.replace(
    "%c0 = arith.constant 0 : index\n",
    """%c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %n = memref.load %s[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    scf.for %k = %z to %n step %one : i32 {
      %9 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      vector.store %9, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    }
""",
    1,
)


@pytest.mark.parametrize(
    ("scalars", "said"),
    [
        ([[2**40 + 3, 0, 0, 0]], "beyond int32"),
        ([[2**32, 0, 0, 0]], "beyond int32"),
        ([[-(2**31) - 1, 0, 0, 0]], "beyond int32"),
        ([[[1, 2], [3]]], "no array"),
        ([[1, 2, 3]], r"int64\[3\], not int32\[4\]"),
        ([[1.5, 0, 0, 0]], "float64"),
    ],
)
def test_scalars_are_what_the_call_would_get(scalars: list[Any], said: str) -> None:
    from mosaic_tpu.aot._program import program_of

    source = program_of(COUNTED, inputs=[((4,), "int32"), ((32, 128), "float32")]).text
    with pytest.raises(OptionError, match=said):
        roofline(source, scalars=scalars)
    assert roofline(source, scalars=[[2, 0, 0, 0]]).work.counted
