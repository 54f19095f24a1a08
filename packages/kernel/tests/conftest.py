"""What the factory's tests share: one kernel and its Pallas twin, and one check of every error's message."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

import mosaic_tpu.kernel
from conformance.harness import levels, pallas
from mosaic_tpu.builder import Builder, Ref, Role, Scalar, Window, f32, i32
from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.kernel import Kernel

with suppress(RuntimeError):  # other tests have made JAX look for devices: the session's XLA_FLAGS asked for four
    jax.config.update("jax_num_cpu_devices", 4)

TPU = ("tpu",)


@dataclass(frozen=True)
class ScaleConfig:
    rows: int = 16
    factor: float = 2.0


def scale_kernel(b: Builder, cfg: ScaleConfig) -> None:
    block = Window((8, 128), index_map=lambda i: (i, 0))
    a = b.declare_args(
        {
            "i": Scalar(i32),
            "x": Ref((8, 128), f32, window=block),
            "y": Ref((8, 128), f32, role=Role.OUTPUT, window=block),
        },
        grid=(cfg.rows // 8,),
    )
    a.y[...] = a.x[...] * cfg.factor


@pytest.fixture
def cfg() -> ScaleConfig:
    return ScaleConfig()


@pytest.fixture
def scale() -> Kernel[ScaleConfig]:
    """Twice `x`; a kernel of its own, with empty caches, for each test."""
    return Kernel("scale_kernel", ScaleConfig, inputs=("x",), outputs=("y",), run=scale_kernel)


@dataclass
class Counted:
    """The same kernel, and how often it was built."""

    kernel: Kernel[ScaleConfig]
    runs: int = 0


@pytest.fixture
def counted() -> Counted:
    def run(b: Builder, cfg: ScaleConfig) -> None:
        found.runs += 1
        scale_kernel(b, cfg)

    found = Counted(Kernel("scale_kernel", ScaleConfig, inputs=("x",), outputs=("y",), run=run))
    return found


# --- a simulator that knows the answers ----------------------------------------------------------------------------


class FakeError(Exception):
    """Stands for `mosaic_tpu.sim.SimulationError`."""


@dataclass
class FakeCall:
    outputs: Any = None
    aliases: dict[int, int] = field(default_factory=dict)


@dataclass
class FakeModule:
    body: bytes
    debug_locations: bytes | None
    call: FakeCall = field(default_factory=FakeCall)
    names: tuple[str, ...] = ()


@dataclass
class FakeReport:
    outputs_of: list[tuple[Any, ...]]
    hazards: tuple[Exception, ...] = ()

    @property
    def outputs(self) -> tuple[Any, ...]:
        return self.outputs_of[0]

    def raise_for_hazards(self) -> None:
        if self.hazards:
            raise self.hazards[0]


class FakeSimulator(ModuleType):
    """What `mosaic_tpu.sim` offers; ``compute`` takes the inputs of every device and returns their outputs."""

    SimulationError = FakeError
    errors = SimpleNamespace(InternalError=type("InternalError", (FakeError,), {}))

    def __init__(self) -> None:
        super().__init__("mosaic_tpu.sim")
        self.compute: Callable[..., list[tuple[Any, ...]]] = lambda inputs_of: [(2 * x,) for (x,) in inputs_of]
        self.read_modules: list[FakeModule] = []
        self.runs: list[tuple[FakeModule, list[Any], dict[str, Any]]] = []

    def read(self, source: Any) -> FakeModule:
        self.read_modules.append(FakeModule(source.body, source.debug_locations))
        return self.read_modules[-1]

    def simulate(self, module: FakeModule, *inputs: Any, **options: Any) -> FakeReport:
        return self.simulate_devices(module, [inputs], **options)

    def simulate_devices(self, module: FakeModule, inputs_of: Any, **options: Any) -> FakeReport:
        self.runs.append((module, list(inputs_of), options))
        return FakeReport(self.compute(list(inputs_of)))


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> FakeSimulator:
    """A simulator in place of `mosaic_tpu.sim` which doubles its input, unless told something else."""
    fake = FakeSimulator()
    monkeypatch.setitem(sys.modules, "mosaic_tpu.sim", fake)
    monkeypatch.setattr(mosaic_tpu, "sim", fake, raising=False)
    return fake


@pytest.fixture
def x() -> jax.Array:
    return jnp.ones((16, 128), jnp.float32)


@pytest.fixture
def pallas_scale() -> Callable[..., Callable[[jax.Array], Any]]:
    """``pallas_scale(**options)``: the twin, with further arguments for pl.pallas_call."""

    def twin(**options: Any) -> Callable[[jax.Array], Any]:
        def scale_kernel(x_ref: Any, y_ref: Any) -> None:
            y_ref[...] = x_ref[...] * 2.0

        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        options = {"out_shape": jax.ShapeDtypeStruct((16, 128), jnp.float32)} | options
        return lambda x: pl.pallas_call(
            scale_kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block, **options
        )(x)

    return twin


def lowered_for_tpu(function: Callable[..., Any], *arrays: Any) -> str:
    """The StableHLO text of a function of arrays, lowered for a TPU without having one."""
    return jax.jit(function).trace(*arrays).lower(lowering_platforms=TPU).as_text()


@pytest.fixture
def tpu_text() -> Callable[..., str]:
    return lowered_for_tpu


def assert_same_calls(ours: str, theirs: str) -> None:
    """The kernels of two StableHLO modules are identical (stripped, where locations stay inside the body)."""
    our_calls, their_calls = pallas.calls_in(ours), pallas.calls_in(theirs)
    assert len(our_calls) == len(their_calls) > 0
    for our, their in zip(our_calls, their_calls, strict=True):
        result = levels.compare(our, their)
        assert result.level.reaches(levels.required_level(their)), result.detail


@pytest.fixture
def same_calls() -> Callable[[str, str], None]:
    return assert_same_calls


@pytest.fixture
def same() -> Callable[..., None]:
    """``same(ours, theirs, *arrays)``: two functions of arrays lower to the same custom calls."""

    def check(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: Any) -> None:
        assert_same_calls(lowered_for_tpu(ours, *arrays), pallas.lower_to_stablehlo(theirs, *arrays))

    return check


type Raises = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def raises() -> Raises:
    """``with raises(InputError, "scale_kernel", "'x'"):`` one error, with all that a message promises.

    That is: the exact class, the operation, each given text, a line of this test or of a function it defines, a hint.
    """

    @contextmanager
    def check(error: type[MosaicError], op: str, *texts: str, hint: str = "") -> Iterator[None]:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None and frame.f_back.f_back is not None
        filename = frame.f_back.f_back.f_code.co_filename
        with pytest.raises(error) as caught:
            yield
        assert caught.type is error
        message = str(caught.value)
        assert message.startswith(f"{op}: "), message
        for text in texts:
            assert text in message, f"{text!r} is not in:\n{message}"
        found = re.search(r"^  at: (.*):\d+$", message, re.MULTILINE)
        assert found, f"no line in:\n{message}"
        assert found[1] == filename, f"another file in:\n{message}"
        assert re.search(rf"^  hint: .*{re.escape(hint)}", message, re.MULTILINE), f"no such hint in:\n{message}"

    return check
