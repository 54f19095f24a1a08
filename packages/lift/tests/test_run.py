"""`run` and `diff`, and the examples of the documentation."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import itertools
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu import lift as package
from mosaic_tpu.builder import Builder, MosaicModule, Ref, Role, Scalar, Window, f32, i32
from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.kernel import CallExtras, Kernel, LoweredKernel
from mosaic_tpu.lift import BuildError, MissingKernelPackageError, build, diff, lift, run
from mosaic_tpu.sim import ir, simulate

from .lift_kit import DOUBLE, KERNEL, SQUARE, lowered, module, multiplied, wanted

TILE = jax.ShapeDtypeStruct((8, 128), "float32")


def test_run_gives_what_a_kernel_lowers_to() -> None:
    call = ir.calls_of(lowered(multiplied(), SQUARE, SQUARE))[0]
    found = run(lift(call.body))
    assert isinstance(found, LoweredKernel)
    assert wanted(found.body) == wanted(call.body)
    assert found.ir_version == 15
    assert [(o.shape, str(o.dtype)) for o in found.outputs] == [((256, 256), "bf16")]
    assert "tpu_custom_call" in found.custom_call_line
    assert ir.calls_of(found.stablehlo)[0].inputs == call.inputs


def test_run_of_edited_source_runs_the_edit() -> None:
    import numpy as np

    source = lift(DOUBLE).replace("plus = input_0 + input_0", "plus = input_0 * 3.0")
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    (y,) = simulate(run(source), x).outputs
    np.testing.assert_array_equal(y, 3 * x)


def test_a_barrier_has_an_id() -> None:
    text = DOUBLE.replace(
        "  return", "  %s = tpu.sem_barrier : memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>\n  return"
    )
    assert run(lift(text)).config["custom_call_config"]["collective_id"] == 0
    given = run(lift(text), extras=CallExtras(collective_id=7))
    assert given.config["custom_call_config"]["collective_id"] == 7
    with pytest.raises(MosaicError, match="collective_id"):
        run(lift(text), extras=CallExtras())


@pytest.mark.parametrize(
    "text",
    [
        f"func.func @k() {KERNEL} {{ return }}",
        "func.func @k(%x: memref<8x128xf32, strided<[256, 1]>>) { return }",
        f"func.func @k() {KERNEL.replace('<tc>', '<sc_scalar_subcore>')} {{ return }}",
    ],
)
def test_a_module_that_nobody_calls_has_its_body(text: str) -> None:
    found = run(lift(text))
    assert wanted(found.body) == wanted(text)
    assert found.outputs == ()
    with pytest.raises(BuildError, match="no call"):
        _ = found.stablehlo


def test_a_version_that_is_none_is_refused() -> None:
    for function in (run, build):
        with pytest.raises(BuildError, match="IR_VERSION is 'new'"):
            function(lift(DOUBLE).replace("IR_VERSION = 15", "IR_VERSION = 'new'"))
    assert wanted(run(lift(DOUBLE).replace("IR_VERSION = 15", "IR_VERSION = None")).body) != wanted(DOUBLE)


def test_without_the_kernel_package_run_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mosaic_tpu.kernel", None)
    monkeypatch.delattr("mosaic_tpu.kernel", raising=False)
    with pytest.raises(MissingKernelPackageError, match="not installed") as raised:
        run(lift(DOUBLE))
    assert "pip install mosaic-tpu-kernel" in str(raised.value)
    assert isinstance(build(lift(DOUBLE)), MosaicModule)


# --- what lifted source builds, lifted -------------------------------------------------------------------------------


def on_one_core(x: Any) -> Any:
    """A kernel of a mesh: windows with affine maps."""
    mesh = pltpu.TensorCoreMesh(axis_name="core", num_cores=1)
    source, target = (jax.new_ref(v, memory_space=pltpu.VMEM) for v in (x, jnp.zeros_like(x)))

    def kernel(source_ref: Any, target_ref: Any) -> None:
        target_ref[...] = source_ref[...] * 2.0

    pl.kernel(kernel, mesh=mesh)(source, target)
    return jax.freeze(target)


def of_names(x: Any) -> Any:
    """Names that are taken in Python, or that lifted source itself has."""

    def kernel(a: Any, b: Any, deeper: Any, lambda_: Any, arg4: Any, o_ref: Any) -> None:
        o_ref[...] = a[...] + b[...] * deeper[...] - lambda_[...] / arg4[...]

    return pl.pallas_call(kernel, out_shape=TILE)(x, x, x, x, x)


def by_rows(x: Any) -> Any:
    """Blocks of arrays that are larger, by an index map with ops in it."""
    block = pl.BlockSpec((8, 128), lambda i, j: ((i + 3) % 4, j))
    whole = jax.ShapeDtypeStruct((64, 512), jnp.float32)

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1.0

    return pl.pallas_call(kernel, grid=(8, 4), in_specs=[block], out_specs=block, out_shape=whole)(x)


PROGRAMS = {
    "on_one_core": lambda: lowered(on_one_core, TILE),
    "of_names": lambda: lowered(of_names, TILE),
    "by_rows": lambda: lowered(by_rows, jax.ShapeDtypeStruct((64, 512), "float32")),
    "multiplied": lambda: lowered(multiplied(), SQUARE, SQUARE),
    "text": lambda: DOUBLE,
    "an older version": lambda: run(lift(DOUBLE).replace("IR_VERSION = 15", "IR_VERSION = 12")).body,
    "the newest version": lambda: run(lift(DOUBLE).replace("IR_VERSION = 15", "IR_VERSION = None")).body,
}


@pytest.mark.parametrize("style", ["ops", "idioms"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_source_comes_back_from_what_it_builds(name: str, style: Any) -> None:
    program = PROGRAMS[name]()
    source = lift(program, style=style)
    assert lift(build(source), style=style) == source
    assert diff(program, build(source), style=style) == ""


def test_names_are_those_that_the_edited_source_has() -> None:
    source = lift(lowered(of_names, TILE))
    edited = source.replace("deeper_", "scale")
    assert edited != source
    assert lift(build(edited)) == edited
    assert diff(build(source), build(edited)) == ""  # names are not in the bytes


def test_windows_of_another_form_keep_the_arguments_declared() -> None:
    source = lift(lowered(on_one_core, TILE), style="idioms")
    assert "window_params=False" in source
    assert "affine_map<(d0) -> (0, 0)>" in source
    assert "a.input_1[...] = times" in source


# --- diff ------------------------------------------------------------------------------------------------------------


def chain(count: int, changed: int | None = None) -> str:
    """Many ops of one kind, with one more in one place."""
    ops = ["%v0 = arith.constant 1.0 : f32"]
    for n in range(count):
        source = f"%v{n}"
        if n == changed:
            ops.append(f"%w = arith.subf %v{n}, %v{n} : f32")
            source = "%w"
        ops.append(f"%v{n + 1} = arith.{'addf' if n % 3 else 'mulf'} {source}, %v{max(n - 2, 0)} : f32")
    return module(*ops)


def changes(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"[+-](?![+-])", line)]


def test_one_op_more_changes_the_lines_around_it() -> None:
    found = changes(diff(chain(60), chain(60, changed=30)))
    assert any("-    " not in line and "minus" in line for line in found)
    assert len(found) <= 12, "\n".join(found)


def test_equal_modules_have_no_difference() -> None:
    assert diff(DOUBLE, DOUBLE.encode()) == ""


def test_a_difference_of_programs() -> None:
    first, second = (
        lowered(pl.pallas_call(body, out_shape=TILE, name="k"), TILE)
        for body in (lambda x, o: o.__setitem__(..., x[...] + 1), lambda x, o: o.__setitem__(..., x[...] + 2))
    )
    assert [line.strip() for line in changes(diff(first, second))] != []


def _programs(change: float = 2.0) -> dict[str, Any]:
    """One kernel in every form: with names of its own, of its twin and none; with its arrays' shapes and without."""

    def twin(x_ref: Any, y_ref: Any) -> None:
        y_ref[...] = x_ref[...] * 2.0

    def scale_kernel(b: Builder, _: int) -> None:
        block = Window((8, 128), index_map=lambda step: (step, 0))
        args = {"step": Scalar(i32), "x": Ref((8, 128), f32, window=block)}
        a = b.declare_args(args | {"y": Ref((8, 128), f32, window=block, role=Role.OUTPUT)}, grid=(4,))
        a.y[...] = a.x[...] * change

    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    array = jax.ShapeDtypeStruct((32, 128), jnp.float32)
    theirs = pl.pallas_call(twin, grid=(4,), in_specs=[block], out_specs=block, out_shape=array, name="scale_kernel")
    kernel = Kernel("scale_kernel", int, inputs=("x",), outputs=("y",), run=scale_kernel)
    ours = kernel.lower(0)
    called = lowered(lambda x: kernel(x=x, cfg=0), array)
    return {"Pallas": lowered(theirs, array), "jit": called, "kernel": ours, "body": ours.body, "text": ours.stablehlo}


@pytest.mark.parametrize("style", ["ops", "idioms"])
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(_programs(), 2)))
def test_a_kernel_is_the_same_in_every_form(first: str, second: str, style: Any) -> None:
    same, other = _programs(), _programs(3.0)
    assert diff(same[first], same[second], style=style) == ""
    # Another number is one line, whatever the arguments are called.
    assert [line[0] for line in changes(diff(same[first], other[second], style=style))] == ["-", "+"]


def test_a_version_that_jaxlib_does_not_know_is_refused_where_it_stands() -> None:
    source = lift(DOUBLE)
    line = source.splitlines().index("IR_VERSION = 15") + 1
    for version in ("0", "-1", "True", "99", str(1 << 40)):
        with pytest.raises(BuildError, match=f"IR_VERSION is {version}") as raised:
            run(source.replace("IR_VERSION = 15", f"IR_VERSION = {version}"))
        assert raised.value.location == f"<lifted>:{line}"
        assert "None for its newest" in str(raised.value)
    assert run(source.replace("IR_VERSION = 15", "IR_VERSION = 14")).ir_version == 14


def test_run_runs_the_source_once() -> None:
    source = lift(DOUBLE).replace("    a = b", '    print("built")\n    a = b')
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert run(source).stablehlo
    assert said.getvalue() == "built\n"


# --- documentation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(package.__path__) if m.name != "rules"])
def test_examples_run(name: str) -> None:
    loaded = importlib.import_module(f"mosaic_tpu.lift.{name}")
    names: dict[str, Any] = {"text": DOUBLE}
    failed, _ = doctest.testmod(loaded, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_the_example_of_the_package_runs() -> None:
    assert doctest.testmod(package, extraglobs={"text": DOUBLE}) == (0, 3)


def test_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```text\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    unnamed = """    b.module_attributes({"sym_name": '"double"'})\n"""  # JAX 0.11 names no module
    printed = capsys.readouterr().out.replace(unnamed, "")
    assert len(shown) == 2
    assert all(text in printed for text in shown)
    assert "+    times = input_0 * input_0" in printed


def test_a_grid_of_a_size_known_at_run_time() -> None:
    def double(n: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * 2.0

    def call(n: Any, x: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i, n: (i, 0))
        spec = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(n[0],), in_specs=[block], out_specs=block)
        return pl.pallas_call(double, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((64, 128), jnp.float32))(n, x)

    program = lowered(call, jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((64, 128), jnp.float32))
    source = lift(program)
    assert "grid=(None,)" in source
    (theirs,), (ours,) = ir.calls_of(program), ir.calls_of(run(source).stablehlo)
    assert [shape for shape, _ in ours.inputs] == [shape for shape, _ in theirs.inputs] == [(), (1,), (64, 128)]
