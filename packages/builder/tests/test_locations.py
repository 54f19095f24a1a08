"""Every op carries the kernel's file and line, however it came to be emitted."""

from __future__ import annotations

import functools
import re
import sys
import types
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, Ref, Scalar, Window, f32, i32
from mosaic_tpu.builder._compat import ir
from mosaic_tpu.builder._frames import internal
from mosaic_tpu.builder.errors import AttributeValueError, MosaicError, internal_folder


def _line_above() -> int:
    return sys._getframe(1).f_lineno - 1


def _walk(op: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                found += [inner.operation, *_walk(inner.operation)]
    return found


def _lines(b: Builder) -> dict[str, list[int]]:
    """The lines of this file that each kind of op in the kernel's body came from."""
    lines: dict[str, list[int]] = {}
    for op in _walk(b.current_block.owner.operation):
        if op.name.endswith((".yield", ".condition")):
            continue
        found = re.search(r'"([^"]+)":(\d+):', str(op.location))
        assert found, f"{op.name} has no line: {op.location}"
        assert found[1] == __file__, f"{op.name} is said to come from {found[1]}"
        lines.setdefault(op.name, []).append(int(found[2]))
    return lines


def test_without_locations_no_op_has_a_line() -> None:
    quiet, told = (Builder("k", locations=on) for on in (False, True))
    for b in (quiet, told):
        a = b.declare_args({"x": Ref((8, 128), f32)})
        a.x[...] = a.x[...] * 2.0
    texts = [b.finish().module.operation.get_asm(enable_debug_info=True) for b in (quiet, told)]
    assert [__file__ in text for text in texts] == [False, True]
    assert quiet.module.operation.get_asm() == told.module.operation.get_asm()


def test_locations_are_there_or_not() -> None:
    with pytest.raises(AttributeValueError, match="locations is 1"):
        Builder("k", locations=1)  # pyright: ignore


def test_an_op_has_its_line(b: Builder, a: Args) -> None:
    b.addi(a.i, a.i)
    first = _line_above()
    b.exp(b.lift(1.0))
    second = _line_above()
    assert _lines(b) == {"arith.addi": [first], "arith.constant": [second], "math.exp": [second]}


def test_all_ops_of_an_idiom_have_its_line(b: Builder, a: Args) -> None:
    a.y[...] = a.x[...] * 2.0
    line = _line_above()
    assert {n for lines in _lines(b).values() for n in lines} == {line}


def test_an_operator_has_its_line(b: Builder, a: Args) -> None:
    _ = a.i // 3
    line = _line_above()
    assert {n for lines in _lines(b).values() for n in lines} == {line}


def test_ops_through_generated_classes_have_their_line(b: Builder, a: Args) -> None:
    x = a.x[...]
    load = _line_above()
    b.reciprocal(x)
    reciprocal = _line_above()
    b.scan(x, "sum")
    scan = _line_above()
    lines = _lines(b)
    assert lines["vector.load"] == [load]
    assert lines["tpu.reciprocal"] == [reciprocal] and lines["tpu.scan"] == [scan]


def test_regions_have_the_line_of_their_with(b: Builder, a: Args) -> None:
    with b.for_(0, a.i) as loop, b.pallas.when(loop.iv < 2):
        b.scalar_store(a.lens, a.i, [0])
    last = _line_above()
    lines = _lines(b)
    assert lines["scf.for"] == [last - 1] and lines["scf.if"] == [last - 1] and lines["memref.store"] == [last]


def test_a_loops_body_function_keeps_its_own_lines(b: Builder, a: Args) -> None:
    def body(i: object, total: object) -> tuple[object]:
        return (total + i,)  # type: ignore[operator]

    b.pallas.fori_loop(0, a.i, body, (0,))
    call = _line_above()
    lines = _lines(b)
    assert set(lines["scf.for"]) == {call}
    assert call - 2 in lines["arith.addi"]


def test_a_function_of_the_kernels_own_has_the_inner_line(b: Builder, a: Args) -> None:
    inner = _double.__code__.co_firstlineno + 1
    _double(b, a)
    assert _lines(b) == {"arith.addi": [inner]}


def _double(b: Builder, a: Args) -> None:
    b.addi(a.i, a.i)


def test_an_index_map_has_its_own_line(b: Builder) -> None:
    window = Window(index_map=lambda i: (i * 2, 0))
    line = _line_above()
    b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))
    assert re.search(rf'test_locations\.py"?:{line}:', b.finish().text(canonical=False, locations=True))


def test_a_location_names_the_function(b: Builder, a: Args) -> None:
    b.addi(a.i, a.i)
    assert "test_a_location_names_the_function" in b.finish().text(canonical=False, locations=True)


def test_an_anonymous_end_has_no_line() -> None:
    builders = [Builder("k") for _ in range(4)]
    for b in builders:
        b.declare_args({"i": Scalar(i32)})
    first = builders[0].finish(anonymous=True).serialize(unzip=False).body
    second = builders[1].finish(anonymous=True).serialize(unzip=False).body
    third = builders[2].finish().serialize(unzip=False).body
    fourth = builders[3].finish().serialize(unzip=False).body
    assert first == second and third != fourth


def test_a_registered_folder_is_skipped_and_its_likes_are_not(tmp_path: Path) -> None:
    lines: dict[str, str] = {}
    for name in ("between", "between_not", "mosaic_tpu/kernel"):
        path = tmp_path / name / "calling.py"
        path.parent.mkdir(parents=True)
        path.write_text("def refuse(error):\n    return error('no').location\n")
        names: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        assert names["refuse"](MosaicError) == f"{path}:2"
        if name == "between":
            internal_folder(str(path.parent))
        lines[name] = names["refuse"](MosaicError)
    assert lines["between"].startswith(f"{__file__}:")
    assert lines["between_not"].startswith(str(tmp_path)) and lines["mosaic_tpu/kernel"].startswith(str(tmp_path))


def test_jax_and_functools_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert internal(functools.__file__)
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(__file__="/opt/site-packages/jax/__init__.py"))
    assert internal("/opt/site-packages/jax/_src/core.py")
    assert not internal("/home/me/jax/_src/kernel.py") and not internal("/opt/site-packages/jax/experimental/k.py")


@pytest.mark.parametrize("locations", [False, True])
def test_locations_are_printed_on_request(b: Builder, a: Args, locations: bool) -> None:
    b.addi(a.i, a.i)
    assert ("test_locations.py" in b.finish().text(canonical=False, locations=locations)) is locations


def test_locations_leave_the_body(b: Builder, a: Args) -> None:
    b.addi(a.i, a.i)
    module = b.finish()
    taken, kept = module.serialize(), module.serialize(unzip=False)
    if taken.debug_locations is None:
        pytest.skip("this jaxlib leaves locations inside")
    assert b"test_locations.py" not in taken.body and b"test_locations.py" in taken.debug_locations
    assert b"test_locations.py" in kept.body and kept.debug_locations is None


@pytest.mark.parametrize(("pattern", "named"), [("^.*/", True), ("", False), (None, False)])
def test_without_jax_files_are_named_as_jax_would(
    monkeypatch: pytest.MonkeyPatch, pattern: str | None, named: bool
) -> None:
    monkeypatch.delitem(sys.modules, "jax._src.config", raising=False)
    if pattern is not None:
        monkeypatch.setenv("JAX_HLO_SOURCE_FILE_CANONICALIZATION_REGEX", pattern)
    b = Builder("k")
    a = b.declare_args({"i": Scalar(i32)})
    b.addi(a.i, a.i)
    text = b.finish().text(canonical=False, locations=True)
    assert ('"test_locations.py"' in text) is named
    assert (__file__ in text) is not named


@dataclass(frozen=True)
class _Config:
    """Checks itself, as configs of kernels do, and can emit an op."""

    rows: int
    b: Builder | None = None

    def __post_init__(self) -> None:
        self._check()
        if self.b is not None:
            self.b.addf(self.b.lift(1), self.b.lift(1.0))

    def _check(self) -> None:
        if self.rows < 1:
            _refuse(f"rows is {self.rows}")


def _refuse(summary: str) -> None:
    raise AttributeValueError(summary)


def _place(error: pytest.ExceptionInfo[MosaicError]) -> int:
    filename, _, line = error.value.location.rpartition(":")
    assert filename == __file__
    return int(line)


def test_what_a_dataclass_refuses_is_the_line_that_makes_it() -> None:
    with pytest.raises(AttributeValueError) as caught:
        _Config(0)
    assert _place(caught) == _line_above()


def test_a_dataclass_replaced_is_made_by_that_line() -> None:
    cfg = _Config(1)
    with pytest.raises(AttributeValueError) as caught:
        replace(cfg, rows=0)
    assert _place(caught) == _line_above()


def test_an_op_emitted_while_a_dataclass_is_made_keeps_its_own_line(b: Builder, a: Args) -> None:
    with pytest.raises(MosaicError) as caught:
        _Config(1, b)
    assert _place(caught) == _Config.__post_init__.__code__.co_firstlineno + 3


def test_what_no_dataclass_makes_is_the_line_that_refuses() -> None:
    with pytest.raises(AttributeValueError) as caught:
        _refuse("nothing")
    assert _place(caught) == _refuse.__code__.co_firstlineno + 1
