"""What is wrong with a kernel's definition is said when it is defined, or when it is first built."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from mosaic_tpu.builder import Builder, Ref, Role, f32, semaphore
from mosaic_tpu.builder.errors import RegionOrderError, UnsupportedOpError
from mosaic_tpu.kernel import CallExtras, Kernel, KernelDefinitionError


def copy_kernel(b: Builder, rows: int) -> None:
    a = b.declare_args({"x": Ref((rows, 128), f32), "y": Ref((rows, 128), f32, role=Role.OUTPUT)})
    a.y[...] = a.x[...]


def define(**changes: Any) -> Kernel[Any]:
    given: dict[str, Any] = {"name": "copy", "config": int, "inputs": ("x",), "outputs": ("y",), "run": copy_kernel}
    given |= changes
    return Kernel(given.pop("name"), given.pop("config"), **given)


def no_config(b: Builder) -> None: ...
def too_much(b: Builder, cfg: int, more: int) -> None: ...
def keyword(b: Builder, cfg: int, *, more: int) -> None: ...


@pytest.mark.parametrize("run", [no_config, too_much, keyword])
def test_run_of_another_signature(run: Any, raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "run takes (b", hint="def run(b: Builder, cfg: Config) -> None"):
        define(run=run)


def test_run_that_is_no_function(raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "run is a str", hint="def run"):
        define(run="copy_kernel")


def test_run_may_be_anything_that_takes_a_builder_and_a_config() -> None:
    class Callable:
        def __call__(self, b: Builder, cfg: int, extra: int = 0) -> None:
            copy_kernel(b, cfg)

        def method(self, b: Builder, cfg: int) -> None:
            copy_kernel(b, cfg)

    def starred(*args: Any) -> None:
        copy_kernel(*args)

    bodies = {
        define(run=run).emit(8)
        for run in (copy_kernel, Callable(), Callable().method, starred, functools.partial(copy_kernel))
    }
    assert len(bodies) == 1


def test_run_that_returns_something(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> Any:
        copy_kernel(b, cfg)
        return 7

    with raises(KernelDefinitionError, "copy", "run returned a int", hint="return None"):
        define(run=run).emit(8)


def test_run_that_is_a_generator(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> Any:
        yield copy_kernel(b, cfg)

    with raises(KernelDefinitionError, "copy", "run returned a generator"):
        define(run=run).emit(8)


def test_run_that_finishes(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> None:
        copy_kernel(b, cfg)
        b.finish()

    with raises(KernelDefinitionError, "copy", "finished", hint="not b.finish()"):
        define(run=run).emit(8)


def test_run_that_declares_nothing(raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "no arguments", hint="declare_args"):
        define(run=lambda b, cfg: None).emit(8)


def test_run_that_leaves_a_region_open(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> None:
        copy_kernel(b, cfg)
        b.for_(0, 4).__enter__()

    with raises(RegionOrderError, "finish", "open"):
        define(run=run).emit(8)


@pytest.mark.parametrize("look", ["emit", "lower"])
def test_run_that_swallows_an_exception_of_a_region(look: str, raises: Any) -> None:
    def run(b: Builder, cfg: int) -> None:
        copy_kernel(b, cfg)
        try:
            with b.if_(b.cmpi("eq", b.lift(0), b.lift(0))):
                raise KeyError(cfg)
        except KeyError:
            pass

    kernel = define(run=run)
    with raises(RegionOrderError, "finish", "left by an exception"):
        getattr(kernel, look)(8)


def test_an_exception_of_run_s_own_is_not_touched() -> None:
    class OwnError(Exception): ...

    def run(b: Builder, cfg: int) -> None:
        raise OwnError(cfg)

    kernel = define(run=run)
    for look in (kernel.emit, kernel.lower, kernel.inputs_of):
        with pytest.raises(OwnError) as caught:
            look(8)
        assert caught.value.args == (8,)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({"inputs": ()}, "0 inputs are named (), 1 are declared (x)"),
        ({"inputs": ("x", "z")}, "2 inputs are named (x, z), 1 are declared (x)"),
        ({"outputs": ("y", "z")}, "2 outputs are named (y, z), 1 are declared (y)"),
    ],
)
@pytest.mark.parametrize("look", ["lower", "emit"])
def test_another_number_of_names_than_declared(names: Any, found: str, look: str, raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", found, hint="in order"):
        getattr(define(**names), look)(8)


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        ({"inputs": ("x", "x")}, "x"),
        ({"inputs": ("y",)}, "y"),
        ({"inputs": ("cfg",)}, "cfg"),
        ({"outputs": ("extras",)}, "extras"),
    ],
)
def test_names_that_are_taken(names: Any, taken: str, raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", f"the name {taken!r} is taken", hint="distinct"):
        define(**names)


@pytest.mark.parametrize("names", ["x", ("not a name",), ("",), (1,), 5, None, {"x"}, iter("x")])
@pytest.mark.parametrize("which", ["inputs", "outputs"])
def test_names_that_are_none(names: Any, which: str, raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "the names", hint='("x", "y")'):
        define(**{which: names})


def test_an_input_may_have_any_other_name() -> None:
    assert define(inputs=("self",)).inputs == ("self",)


def test_a_partial_output_is_an_output(raises: Any) -> None:
    with raises(KernelDefinitionError, "k", "'z' is no output", hint="outputs: y"):
        Kernel("k", int, inputs=("x",), outputs=("y",), run=lambda b, n: None, partial_outputs=("z",))


def test_no_output(raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "an output", hint="outputs="):
        define(outputs=())


@pytest.mark.parametrize("name", ["", None])
def test_no_name(name: Any, raises: Any) -> None:
    with raises(KernelDefinitionError, "Kernel", "the name is"):
        define(name=name)


def test_semaphores_are_no_operands(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> None:
        b.declare_args(
            {"x": Ref((8,), semaphore, memory_space="semaphore_mem"), "y": Ref((8, 128), f32, role=Role.OUTPUT)}
        )

    with raises(KernelDefinitionError, "copy", "'x' holds semaphore", hint="scratch"):
        define(run=run).lower(8)


def test_a_sparse_core_kernel_cannot_be_called_but_looked_at(raises: Any) -> None:
    def run(b: Builder, cfg: int) -> None:
        a = b.declare_args(
            {"x": Ref((8, 128), f32), "y": Ref((8, 128), f32, role=Role.OUTPUT)}, core_type="sc_vector_subcore"
        )
        del a

    kernel = define(run=run)
    assert "sc_vector_subcore" in kernel.emit(8)
    with raises(UnsupportedOpError, "copy", "sc_vector_subcore", hint="kernel.emit"):
        kernel.lower(8)


# --- config classes -------------------------------------------------------------------------------------------------


@dataclass
class Loose:
    rows: int


@dataclass(frozen=True, eq=False)
class Frozen:
    rows: int


class Plain:
    rows = 8


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


class Named(NamedTuple):
    rows: int


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (Loose, "Loose is a dataclass that can change"),
        (Plain, "Plain is compared by identity"),
        (Unhashable, "Unhashable cannot be hashed"),
        (dict, "dict cannot be hashed"),
        (Frozen(8), "not a class"),
    ],
)
def test_a_config_class_whose_instances_may_change(config: Any, found: str, raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", found, hint="frozen"):
        define(config=config)


@pytest.mark.parametrize("config", [Frozen, Named])
def test_a_config_class_whose_instances_may_not(config: Any) -> None:
    assert define(config=config, run=lambda b, cfg: copy_kernel(b, cfg.rows)).lower(config(8)).body


# --- extras --------------------------------------------------------------------------------------------------------


def test_extras_may_follow_from_the_config() -> None:
    kernel = define(extras=lambda rows: CallExtras(vmem_limit_bytes=rows << 20))
    assert kernel.extras_of(8).vmem_limit_bytes == 8 << 20
    assert '"size": 8388608' in kernel.lower(8).backend_config
    assert kernel.lower(8, extras=CallExtras()).config.keys() == {"custom_call_config"}


def test_extras_that_are_none(raises: Any) -> None:
    with raises(KernelDefinitionError, "copy", "extras is a dict", hint="CallExtras"):
        define(extras={})
    with raises(KernelDefinitionError, "copy", "extras gave a int", hint="CallExtras"):
        define(extras=lambda cfg: 7).lower(8)
