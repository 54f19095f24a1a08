"""Of a program with several kernels each schedule goes by its kernel's name, whatever XLA calls its op."""

from __future__ import annotations

import base64

import pytest

from mosaic_tpu.aot import compile
from mosaic_tpu.aot._compile import named_dumps
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot.errors import OptionError
from mosaic_tpu.aot.schedule import Dumps

from .conftest import doubled, several


def test_the_compilers_dumps_are_told_by_what_the_calls_hold(needs_compiler: None) -> None:
    found = compile(several(), "v6e", schedule=True)
    assert list(found.dumps)[:3] == list(found.schedules)[:3] == ["first", "twice", "twice#2"]
    # A sine takes many operations, and a product one.
    assert found.schedule_of("twice#2").bundles > 1.5 * found.schedule_of("twice").bundles
    assert found.schedule_of("twice#2").op == "twice#2"
    assert str(found.schedule_of("twice")).startswith("twice ")
    again = compile(several(), "v6e", schedule=True)
    assert again.cached
    assert again.schedules == found.schedules


def test_who_asks_for_another_is_told_what_there_is(needs_compiler: None) -> None:
    found = compile(several(), "v6e", schedule=True)
    with pytest.raises(OptionError, match="no kernel 'sine'") as unknown:
        found.schedule_of("sine")
    with pytest.raises(OptionError, match="kernels") as which:
        _ = found.schedule
    for error in (unknown, which):
        assert "one of first, twice, twice#2" in error.value.hint
    with pytest.raises(OptionError, match="not asked for"):
        compile(several(), "v6e").schedule_of("first")


def test_the_only_kernel_goes_by_its_name_too(needs_compiler: None) -> None:
    found = compile(doubled(), "v6e", schedule=True)
    assert list(found.schedules) == ["doubled"]
    assert found.schedule_of("doubled") == found.schedule


# --- without the compiler ------------------------------------------------------------------------------------------


def left(op: str, body: bytes = b"") -> Dumps:
    return Dumps(op, "", "", "", body=base64.b64encode(body).decode())


def test_names_are_the_calls_and_the_second_of_a_name_has_a_number() -> None:
    program = program_of(several())
    first, twice, sine, _ = (call.body for call in program.calls)
    ops = {"name.6.x": sine, "name.12": twice, "name.4": first, "name.5": twice, "other.1": b"of no call"}
    named = named_dumps(program, {op: left(op, body) for op, body in ops.items()})
    assert {name: dumps.hlo_op for name, dumps in named.items()} == {
        "first": "name.4",
        "twice": "name.5",
        "twice#2": "name.12",
        "twice#3": "name.6.x",
        "other.1": "other.1",  # a compiler that does not say whose it is
    }


def test_no_dumps_have_no_names() -> None:
    assert named_dumps(program_of(doubled()), {}) == {}
