"""What the harness promises: it reads Pallas's bytes as they are, and finds every difference."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from conformance.cases import matmul as matmul_cases
from conformance.cases import ragged_paged_attention as rpa_cases
from conformance.harness import levels, pallas, report
from conformance.harness.levels import Level, compare

ROOT = Path(__file__).resolve().parents[3]
CONFIG = matmul_cases.CONFIGS[0]
NEW_JAX = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)


def lowered(**options: bool) -> pallas.PallasCall:
    return pallas.lower(matmul_cases.pallas_fn(CONFIG), *matmul_cases.args(CONFIG).values(), **options)


@pytest.fixture(scope="module")
def call() -> pallas.PallasCall:
    return lowered()


@dataclass(frozen=True)
class Emitted:
    """Stands for what the builder emits."""

    body: bytes
    custom_call_line: str


def ours(call: pallas.PallasCall, edit: tuple[str, str] = ("", "")) -> Emitted:
    """The kernel of `call`, its text edited, serialized by hand: without locations."""
    text = levels.to_text(call.body)
    assert edit[0] in text
    return Emitted(serialized(text.replace(*edit, 1) if edit[0] else text, call.ir_version), call.line)


def serialized(text: str, version: int) -> bytes:
    with levels.context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passes = f"strip-debuginfo,mosaic-serde{{serialize=true target-version={version}}}"
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
        return levels._bytecode(module)


# ---------------------------------------------------------------------------------------------------- Pallas's side
def test_a_call_is_read_with_all_that_is_in_it(call: pallas.PallasCall) -> None:
    assert call.kernel_name == "matmul_kernel"
    assert call.ir_version == levels.ir_version(call.body) == 15
    assert call.line.startswith("stablehlo.custom_call @tpu_custom_call(%arg0, %arg1) {backend_config = ")
    assert call.line.endswith(": (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>")
    assert call.backend_config["custom_call_config"]["serialization_format"] == 1
    assert (call.debug_locations is not None) == NEW_JAX


def test_only_the_locations_are_blanked(call: pallas.PallasCall) -> None:
    blank = pallas.line_without_locations(call)
    restored = blank.replace(r"\22debug_locations\22: \22", rf"\22debug_locations\22: \22{_locations(call)}")
    assert restored == call.line
    assert call.backend_config["custom_call_config"]["body"] in blank


def _locations(call: pallas.PallasCall) -> str:
    return call.backend_config["custom_call_config"].get("debug_locations", "")


def test_lowering_twice_gives_the_same_line(call: pallas.PallasCall) -> None:
    assert lowered().line == call.line


@pytest.mark.skipif(not NEW_JAX, reason="0.11 keeps locations inside")
def test_an_export_keeps_the_locations_inside(call: pallas.PallasCall) -> None:
    exported = lowered(forward_compatible=True)
    assert exported.debug_locations is None
    assert len(exported.body) > len(call.body)
    assert levels.to_text(exported.body) == levels.to_text(call.body)


def test_the_latest_version_is_that_of_a_machine_with_a_tpu(call: pallas.PallasCall) -> None:
    assert lowered(latest=True).ir_version == (18 if NEW_JAX else 17)
    assert lowered().body == call.body


def test_a_mesh_around_it_changes_nothing(call: pallas.PallasCall) -> None:
    device = jax.sharding.AbstractDevice("TPU v5 lite", 1, "tpu")
    mesh = jax.sharding.AbstractMesh((1,), ("a",), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        assert lowered().line == call.line


@pytest.mark.parametrize(("version", "generation"), [("v4", 4), ("v5e", 5), ("v5p", 5), ("v6e", 6), ("tpu7x", 7)])
def test_a_kernel_that_asks_for_the_tpu_gets_the_answer(version: str, generation: int) -> None:
    def kernel(x, o):
        o[...] = x[...] + pltpu.get_tpu_info().generation

    def add(x):
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((256,), jnp.int32))(x)

    asked = pallas.lower(add, jax.ShapeDtypeStruct((256,), "int32"), tpu_version=version)
    assert f"arith.constant {generation} : i32" in levels.to_text(asked.body)


def test_outside_the_harness_there_is_no_tpu(call: pallas.PallasCall) -> None:
    if jax.default_backend() == "tpu":
        pytest.skip("a TPU is attached")
    with pytest.raises(ValueError, match="Unsupported TPU device kind"):
        pltpu.get_tpu_info()


def test_several_calls_come_in_order_and_lower_refuses_them() -> None:
    def two(x, y):
        return matmul_cases.pallas_fn(CONFIG)(x, y), matmul_cases.wheel_fn(CONFIG)(x, y)

    operands = matmul_cases.args(CONFIG).values()
    assert len({call.body for call in pallas.lower_all(two, *operands)}) == 2
    with pytest.raises(ValueError, match="found 2: use lower_all"):
        pallas.lower(two, *operands)


def test_an_unknown_tpu_is_refused(call: pallas.PallasCall) -> None:
    with pytest.raises(ValueError, match="no TPU version 'v1': one of v4"):
        pallas.lower(matmul_cases.pallas_fn(CONFIG), tpu_version="v1")


@pytest.mark.parametrize(
    ("configs", "least"), [(rpa_cases.CONFIGS, 40), (matmul_cases.CONFIGS, 20), (matmul_cases.WHEEL_CONFIGS, 20)]
)
def test_cases_are_many_and_their_ids_are_short_and_unique(configs: list, least: int) -> None:
    ids = [config.id for config in configs]
    assert len(ids) == len(set(ids)) >= least
    assert max(map(len, ids)) <= 32


# ----------------------------------------------------------------------------------------------- levels of sameness
def test_a_body_written_again_is_the_same(call: pallas.PallasCall) -> None:
    config = rpa_cases.CONFIGS[0]
    rpa = pallas.lower(rpa_cases.pallas_fn(config), *rpa_cases.args(config).values())
    assert levels.reserialized(call.body) == call.body
    assert levels.reserialized(rpa.body) == rpa.body


def test_a_body_written_from_its_text_is_the_same_but_for_locations(call: pallas.PallasCall) -> None:
    assert ours(call).body == levels.stripped(call.body)
    assert (ours(call).body == call.body) == NEW_JAX


def test_a_kernel_is_identical_with_itself(call: pallas.PallasCall) -> None:
    assert compare(call, call) == levels.Result(Level.IDENTICAL, "")


@pytest.mark.skipif(not NEW_JAX, reason="0.11 keeps locations inside")
def test_other_debug_locations_are_still_identical(call: pallas.PallasCall) -> None:
    line = call.line.replace(_locations(call), "AAAA")
    assert compare(Emitted(call.body, line), call).level is Level.IDENTICAL
    assert levels.required_level(call) is Level.IDENTICAL


@pytest.mark.skipif(not NEW_JAX, reason="0.11 keeps locations inside")
def test_missing_debug_locations_are_a_difference(call: pallas.PallasCall) -> None:
    line = re.sub(r", \\22debug_locations\\22: \\22[^\\]*\\22", "", call.line)
    assert compare(Emitted(call.body, line), call).level is Level.DIFFERENT


def test_other_locations_inside_are_stripped() -> None:
    exported = lowered(forward_compatible=True)
    result = compare(ours(exported), exported)
    assert result.level is Level.STRIPPED is levels.required_level(exported)
    assert result.detail == "only the locations inside the body differ"


def test_a_missing_dead_load_is_canonical_and_shown(call: pallas.PallasCall) -> None:
    dead = next(line for line in levels.to_text(call.body).splitlines() if "vector.load %arg5" in line)
    result = compare(ours(call, (dead + "\n", "")), call)
    assert result.level is Level.CANONICAL
    changed = [line for line in result.detail.splitlines() if re.match(r"[+-] ", line)]
    assert changed == ["-" + dead]


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (("iteration_bounds = array<i64: 2, 2, 2>", "iteration_bounds = array<i64: 2, 2, 4>"), "array<i64: 2, 2, 4>"),
        (("scalar_prefetch = 0", "scalar_prefetch = 1"), "scalar_prefetch = 1"),
        (("arith.addf %3, %6", "arith.addf %6, %3"), "arith.addf %6, %3"),
        (("transpose_lhs_hint = false", "transpose_lhs_hint = true"), "transpose_lhs_hint = true"),
        (("cmpi eq, %arg2", "cmpi eq, %arg1"), "cmpi eq, %arg1"),
    ],
)
def test_a_planted_difference_is_found_and_shown(call: pallas.PallasCall, edit: tuple[str, str], shown: str) -> None:
    result = compare(ours(call, edit), call)
    assert result.level is Level.DIFFERENT
    assert any(line.startswith("+") and shown in line for line in result.detail.splitlines())


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (('kernel_name = "matmul_kernel"', 'kernel_name = "other"'), '+kernel_name = "other",'),
        ((r"\22serialization_format\22: 1", r"\22serialization_format\22: 2"), r"+\22serialization_format\22: 2,"),
        (("(%arg0, %arg1)", "(%arg1, %arg0)"), "(%arg1, %arg0)"),
        (('kernel_metadata = "{}"', 'kernel_metadata = "{}", more = "1"'), 'more = "1"'),
    ],
)
def test_a_difference_in_the_line_alone_is_found(call: pallas.PallasCall, edit: tuple[str, str], shown: str) -> None:
    assert edit[0] in call.line
    result = compare(Emitted(call.body, call.line.replace(*edit)), call)
    assert result.level is Level.DIFFERENT
    assert shown in result.detail


def _with(prepare) -> pallas.PallasCall:
    """The matmul of the twin on what `prepare` makes of its two operands, which have one type."""
    return pallas.lower(
        lambda x, y: matmul_cases.pallas_fn(CONFIG)(*prepare(x, y)), *matmul_cases.args(CONFIG).values()
    )


def _same(ours: pallas.PallasCall, theirs: pallas.PallasCall) -> bool:
    """As much as two lowerings at two places of a source can be: where locations stay inside, stripped."""
    return compare(ours, theirs).level.reaches(Level.IDENTICAL if NEW_JAX else Level.STRIPPED)


@pytest.mark.parametrize(
    ("prepare", "shown"),
    [
        (lambda x, y: (y, x), "(%arg1, %arg0)"),
        (lambda x, y: (x, x), "(%arg0, %arg0)"),
        (lambda x, y: (x * 2, y), "multiply("),
        (lambda x, y: (x, jax.jit(lambda a, b: b)(x, -y)), "negate(%arg1)"),
        (lambda x, y: (x.T, y), "transpose {permutation = array<i64: 1, 0>}(%arg0)"),
        (lambda x, y: (jnp.zeros_like(x), y), "dense<0.000000e+00>"),
    ],
    ids=["swapped", "one-twice", "scaled", "in-a-function", "transposed", "constant"],
)
def test_other_operands_of_the_same_types_are_found(call: pallas.PallasCall, prepare, shown: str) -> None:
    other = _with(prepare)
    assert levels.stripped(other.body) == levels.stripped(call.body)
    result = compare(other, call)
    assert result.level is Level.DIFFERENT
    assert shown in result.detail
    assert _same(other.by_types(), call.by_types())


def test_the_amount_an_operand_is_scaled_by_counts() -> None:
    assert compare(_with(lambda x, y: (x * 2, y)), _with(lambda x, y: (x * 3, y))).level is Level.DIFFERENT
    assert _same(_with(lambda x, y: (x * 2, y)), _with(lambda x, y: (x * 2, y)))


def test_functions_around_the_call_do_not_count(call: pallas.PallasCall) -> None:
    assert _same(_with(jax.jit(lambda x, y: (x, y))), call)
    scaled = _with(lambda x, y: (x * 2, y))
    assert _same(_with(jax.jit(lambda x, y: (x * 2, y))), scaled)


def test_another_version_of_the_form_is_named(call: pallas.PallasCall) -> None:
    latest = lowered(latest=True)
    result = compare(Emitted(latest.body, call.line), call)
    assert result.level is Level.DIFFERENT
    assert result.detail == f"IR version: Pallas writes 15, ours is {latest.ir_version}"


def test_the_levels_are_ordered() -> None:
    assert Level.IDENTICAL.reaches(Level.STRIPPED)
    assert Level.STRIPPED.reaches(Level.STRIPPED)
    assert not Level.CANONICAL.reaches(Level.STRIPPED)


def test_a_table_is_aligned_and_cut() -> None:
    rows = [{"kernel": "a", "ops": 5, "detail": "one\ntwo"}, {"kernel": "longer", "ops": 12345}]
    assert report.to_table(rows) == "\n".join(
        ["kernel    ops  detail", "------  -----  ------", "a           5  one …", "longer  12345"]
    )


def test_rows_travel_as_user_properties() -> None:
    collected = report.Report()
    collected.add_properties([report.packed("t", {"path": Path("x"), "n": 1}), ("other", "ignored")])
    assert collected.tables == {"t": [{"path": "x", "n": 1}]}


def test_the_file_says_what_made_it(tmp_path: Path) -> None:
    collected = report.Report({"t": [{"n": 1}]})
    collected.write(tmp_path / "new" / "report.json")
    written = json.loads((tmp_path / "new" / "report.json").read_text())
    assert written["schema"] == report.SCHEMA_VERSION
    assert written["versions"].keys() == {"python", "jax", "jaxlib", "libtpu"}
    assert written["versions"]["jax"] == jax.__version__
    assert written["outcome"] == report.OUTCOME
    assert written["tables"] == {"t": [{"n": 1}]}


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_session_prints_tables_and_writes_the_file(tmp_path: Path, workers: list[str]) -> None:
    if workers:
        pytest.importorskip("xdist")
    run = _session(tmp_path, *workers)
    table = ["identity (2)", "kernel  config  level", "------  ------  ---------"]
    *_, last = lines = run.splitlines()
    start = lines.index(table[0])
    assert lines[start : start + 3] == table
    assert sorted(lines[start + 3 : start + 5]) == ["k            1  identical", "k            2  different"]
    assert re.search(r"1 failed, 1 passed", last)
    rows = json.loads((tmp_path / "out" / "r.json").read_text())["tables"]["identity"]
    assert sorted(row["config"] for row in rows) == [1, 2]


def _session(folder: Path, *options: str) -> str:
    """The output of pytest on two recording tests, one of which fails, with the conftest of this suite."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(
        "def test_good(record):\n    record('identity', kernel='k', config=1, level='identical')\n"
        "def test_bad(record):\n    record('identity', kernel='k', config=2, level='different')\n    assert False\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "conformance.conftest", "-q", "--tb=no", *options]
    run = subprocess.run(
        [*command, f"--conformance-json={folder / 'out' / 'r.json'}"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout
