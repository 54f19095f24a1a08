"""A table keeps what was tuned, for whoever reads and writes it at the same time, and holds nothing else."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot._identity import described, differing, identity, program_digest, shared
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._table import Table, plain_key
from mosaic_tpu.aot.errors import OptionError

from .conftest import DOUBLE, lowered

# --- configs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hidden:
    block: int = field(repr=False)
    rows: int = 8


@dataclass(frozen=True)
class Nested:
    inner: Any


class Opaque:
    pass


def changed(place: int) -> Any:
    """So long that NumPy prints only its ends."""
    array = np.zeros(5000, np.int32)
    array[place] = 1
    return array


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Hidden(8), Hidden(64)),
        (Nested(Hidden(8)), Nested(Hidden(64))),
        ([Hidden(8), Hidden(64)], [Hidden(64), Hidden(8)]),
        ({"a": Hidden(8)}, {"a": Hidden(64)}),
        (changed(2000), changed(2001)),
        (jnp.asarray(changed(2000)), jnp.asarray(changed(2001))),
        (Nested(changed(2000)), Nested(changed(2001))),
        (np.zeros(4, np.int32), np.zeros((2, 2), np.int32)),
        (np.zeros(4, np.int32), np.zeros(4, np.float32)),
        (np.array([Hidden(8)], object), np.array([Hidden(64)], object)),
        (1, True),
        (1, 1.0),
        ("1", 1),
        (("a, b",), ("a", "b")),
        (jnp.float32, jnp.bfloat16),
        (jnp.tanh, jnp.exp),
        ("f at 0x12", "f at 0x13"),
    ],
)
def test_values_that_differ_anywhere_are_told_apart(one: Any, other: Any) -> None:
    assert identity(one) != identity(other)
    assert differing([Nested(one), Nested(other)]) == ("inner",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Hidden(8), Hidden(8)),
        (changed(3), changed(3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"x", "y", "z"}, {"z", "y", "x"}),
        (Opaque(), Opaque()),  # their repr has an address, of which the next process has another
        (partial(jnp.sum, axis=0), partial(jnp.sum, axis=0)),
    ],
)
def test_equal_values_are_the_same_in_every_process(one: Any, other: Any) -> None:
    assert identity(one) == identity(other)
    assert differing([Nested(one), Nested(other)]) == ()
    assert shared([Nested(one)]) == shared([Nested(other)])


def test_what_json_has_of_a_config() -> None:
    assert described([Hidden(8), Hidden(64)]) == [{"block": 8}, {"block": 64}]
    assert shared([Hidden(8), Hidden(64)]) == {"rows": 8}
    odd = [np.int64(3), np.float32(0.5), float("inf"), jnp.float32, np.zeros(2, np.int8)]
    found = described([Nested(value) for value in odd])
    assert [c["inner"] for c in found[:3]] == [3, 0.5, "inf"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert described([Hidden(8), Nested(8)]) == [{"config": "Hidden(rows=8)"}, {"config": "Nested(inner=8)"}]
    assert described(["a", 3]) == [{"config": "'a'"}, {"config": "3"}]


@pytest.mark.parametrize("key", [{"x": object()}, {"x": float("nan")}, 5, None, {("a",): 1}])
def test_a_key_that_json_cannot_hold_is_refused(key: Any) -> None:
    with pytest.raises(OptionError, match="tune: key is"):
        plain_key(key)


# --- programs ------------------------------------------------------------------------------------------------------

KERNEL = """
def kernel(x_ref, o_ref):
    def body(_, total):
        return total * FACTOR
    o_ref[...] = jax.lax.fori_loop(0, 7, body, x_ref[...] + jnp.sum(x_ref[...]))
"""


def made(lines: int = 0, file: str = "one.py", factor: float = 2.0, more: float = 1.0, **params: Any) -> Any:
    """A kernel that stands so many lines further down."""
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    exec(compile("\n" * lines + KERNEL.replace("FACTOR", str(factor)), file, "exec"), names)
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(names["kernel"], out_shape=shape, **params)
    return lowered(lambda x: call(x) + more, shape)


def digest(source: Any) -> str:
    return program_digest(program_of(source))


def test_a_kernel_that_only_moved_is_the_same() -> None:
    known = digest(made())
    assert digest(made(lines=7)) == known
    assert digest(made(lines=7, file="/elsewhere/two.py")) == known
    assert digest("\n\n" + DOUBLE) == digest(DOUBLE)


@pytest.mark.parametrize(
    "change",
    [
        {"factor": 3.0},
        {"more": 2.0},
        {"name": "other"},
        {"compiler_params": pltpu.CompilerParams(vmem_limit_bytes=1 << 20)},
        {"input_output_aliases": {0: 0}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_kernel_that_was_changed_is_another(change: dict[str, Any]) -> None:
    assert digest(made(**change)) != digest(made())


@pytest.mark.parametrize(
    ("old", "new"),
    [("addf %0, %0", "mulf %0, %0"), ("addf %0, %0", "subf %0, %0"), ("%1, %y", "%0, %y"), ("@double", "@twice")],
)
def test_every_part_of_an_op_counts(old: str, new: str) -> None:
    assert digest(DOUBLE.replace(old, new)) != digest(DOUBLE)


# --- writers -------------------------------------------------------------------------------------------------------


def entry(n: int = 0, **changes: Any) -> dict[str, Any]:
    trial = {"config": {"block": 8}, "cycles": 10.0, "refused": "", "stage": ""}
    held = {"target": "v5e", "compiler": "1", "digest": "f", "key": {"n": n}, "metric": "compiler", "why": ""}
    return {**held, "best": {"block": 8}, "cycles": 10.0, "trials": [trial], **changes}


def entries(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text())["entries"]


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    one, other = Table(file, "k"), Table(file, "k")
    one.put(entry(1))
    other.put(entry(2))
    one.put(entry(3))
    assert [e["key"]["n"] for e in entries(file)] == [1, 2, 3]
    assert one.find({"digest": "f"}, {"n": 2}, [{"block": 8}]) == entry(2)


def test_the_later_of_two_entries_for_the_same_stays(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    one, other = Table(file, "k"), Table(file, "k")
    one.put(entry(cycles=1.0))
    other.put(entry(cycles=2.0))
    other.put(entry(target="v6e"))
    assert [(e["target"], e["cycles"]) for e in entries(file)] == [("v5e", 2.0), ("v6e", 10.0)]


def test_a_file_keeps_its_mode_and_a_new_one_gets_that_of_any_file(tmp_path: Path) -> None:
    file, other = tmp_path / "table.json", tmp_path / "other"
    other.touch()
    Table(file, "k").put(entry(1))
    assert file.stat().st_mode == other.stat().st_mode
    for mode in (0o600, 0o664):
        file.chmod(mode)
        Table(file, "k").put(entry(2))
        assert stat.S_IMODE(file.stat().st_mode) == mode


def test_writers_take_turns(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    file = tmp_path / "table.json"

    def put(writer: int) -> None:
        for n in range(5):
            Table(file, "k").put(entry(10 * writer + n))

    threads = [threading.Thread(target=put, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {e["key"]["n"] for e in entries(file)} == {10 * writer + n for writer in range(6) for n in range(5)}
    assert [f.name for f in tmp_path.iterdir()] == ["table.json"]


def test_a_link_to_a_table_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "table.json")
    Table(tmp_path / "link.json", "k").put(entry())
    assert (tmp_path / "link.json").is_symlink()
    assert entries(tmp_path / "table.json") == [entry()]


def test_what_else_is_in_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"schema": 3, "kernel": "k", "made": "by hand", "entries": [entry(1, note="x")]}))
    Table(file, "k").put(entry(2))
    found = json.loads(file.read_text())
    assert found["made"] == "by hand"
    assert found["entries"] == [entry(1, note="x"), entry(2)]


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.json"
    Table(file, "k").put(entry(1))
    before = file.read_text()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        Table(file, "k").put(entry(2))
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]


def full(*_: Any) -> None:
    raise OSError(28, "No space left on device")


# --- damage --------------------------------------------------------------------------------------------------------


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in entry().items() if key != name}


def trial(**changes: Any) -> dict[str, Any]:
    return {**entry()["trials"][0], **changes}


WRONG: list[Callable[[], dict[str, Any]]] = [
    *(partial(without, name) for name in entry()),
    *(
        partial(entry, **{name: value})
        for name, value in [
            ("target", None), ("compiler", 1), ("digest", None), ("key", [1]), ("metric", "zzz"), ("metric", [1]),
            ("why", None), ("best", 3), ("cycles", "fast"), ("cycles", True), ("trials", None), ("trials", []),
            ("trials", {}), ("trials", [3]), ("trials", [{}]),
        ]
    ),
    *(
        (lambda changes=changes: entry(trials=[trial(**changes)]))
        for changes in [
            {"cycles": "fast"}, {"cycles": -1}, {"cycles": float("nan")}, {"cycles": float("inf")}, {"cycles": None},
            {"cycles": [1]}, {"config": None}, {"refused": None}, {"stage": "nobody"}, {"stage": "lint"},
            {"stage": [1]},
        ]
    ),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: json.dumps(wrong())[-60:])
def test_a_damaged_entry_is_refused(wrong: Callable[[], dict[str, Any]], tmp_path: Path) -> None:
    refuses(json.dumps({"schema": 3, "kernel": "k", "entries": [entry(), wrong()]}), tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "3", "null", "[" * 100_000, '{"schema": 3, "kernel": "k"}', "\ud800",
        '{"schema": 3, "kernel": "other", "entries": []}', '{"schema": 3, "kernel": "k", "entries": 3}',
        '{"schema": 3, "kernel": "k", "entries": [3]}', '{"schema": 3, "kernel": "k", "entries": null}',
        '{"schema": 3, "kernel": "k", "entries": [], "x": NaN}', '{"schema": 4, "kernel": "k", "entries": []}',
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_a_file_that_holds_something_else_is_refused_and_kept(content: str, tmp_path: Path) -> None:
    refuses(content, tmp_path)


def test_a_table_of_an_older_version_says_so(tmp_path: Path) -> None:
    error = refuses('{"schema": 1, "kernel": "k", "entries": []}', tmp_path)
    assert "it is of schema 1, and not 3" in str(error)
    assert error.hint == "delete it, or name another file"


def test_a_table_that_is_no_file_is_not_to_be_deleted() -> None:
    with pytest.raises(OptionError, match="holds no tunings") as said:
        Table(os.devnull, "k")
    assert said.value.hint == "name another file"


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.json")
    with pytest.raises(OptionError, match="it is no regular file") as said:
        Table(tmp_path / "t.json", "k")
    assert said.value.hint == "name another file"


def refuses(content: str, folder: Path) -> OptionError:
    file = folder / "table.json"
    file.write_bytes(before := content.encode(errors="surrogatepass"))
    with pytest.raises(OptionError, match=r"table.json holds no tunings of k: .+") as error:
        Table(file, "k")
    assert file.read_bytes() == before
    return error.value


@pytest.mark.parametrize(
    "good",
    [
        entry(),
        entry(metric="counted", why="loops"),
        entry(best=None, cycles=None, trials=[trial(cycles=None, refused="no", stage="lint")]),
        entry(cycles=3, trials=[trial(cycles=3)]),
    ],
)
def test_a_sound_entry_is_read(good: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(json.dumps({"schema": 3, "kernel": "k", "entries": [good]}))
    assert Table(file, "k").find({"digest": "f", "target": "v5e"}, {"n": 0}, [good["trials"][0]["config"]]) == good


@pytest.mark.parametrize(
    "asked",
    [
        ({"digest": "g"}, {"n": 0}, [{"block": 8}]),
        ({"digest": "f"}, {"n": 1}, [{"block": 8}]),
        ({"digest": "f"}, {"n": 0}, [{"block": 8}, {"block": 16}]),
        ({"digest": "f"}, {"n": 0}, [{"block": 16}]),
    ],
    ids=str,
)
def test_an_entry_for_something_else_is_not_used(asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    Table(file, "k").put(entry())
    assert Table(file, "k").find(*asked) is None


@pytest.mark.parametrize("metric", ["compiler", "counted", "measured"])
def test_what_was_estimated_does_not_stand_for_what_is_measured(metric: str, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    Table(file, "k").put(entry(metric=metric))
    found = {
        measured: Table(file, "k").find({}, {"n": 0}, [{"block": 8}], measured=measured) for measured in (False, True)
    }
    assert [measured for measured, held in found.items() if held is not None] == [metric == "measured"]


# --- files that cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [5, None, b"table.json", "a\0b", ["table.json"]])
def test_what_names_no_file_is_refused(path: Any) -> None:
    with pytest.raises(OptionError, match=r"tune: table is|tune: .* holds no tunings") as error:
        Table(path, "k")
    assert error.value.hint


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="holds no tunings of k: Is a directory"):
        Table(tmp_path, "k")


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="holds no tunings of k: Not a directory"):
        Table(tmp_path / "file" / "table.json", "k").prepare()
    with pytest.raises(OptionError, match="cannot be written"):
        Table("/proc/nowhere/table.json", "k").prepare()
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_the_folders_of_a_table_are_made(tmp_path: Path) -> None:
    Table(tmp_path / "a" / "b" / "table.json", "k").prepare()
    assert list((tmp_path / "a" / "b").iterdir()) == []
