"""What `doctor` looks at. A check never raises, and never waits longer than it may."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

OURS: Final = tuple(f"mosaic-tpu{part}" for part in ("", "-builder", "-sim", "-kernel", "-aot", "-lift", "-zoo"))
OTHERS: Final = ("jax", "jaxlib", "libtpu", "numpy", "ml-dtypes", "scipy", "cyclopts", "rich")
VARIABLES: Final = ("JAX_PLATFORMS", "TPU_SKIP_MDS_QUERY", "XLA_FLAGS", "LIBTPU_INIT_ARGS", "MOSAIC_TPU_CACHE")
#: Where Linux shows a TPU's chips.
_DEVICES: Final = ("accel*", "vfio/*")
_ASK: Final = "import jax; d = jax.devices()[0]; print('found', d.platform, len(jax.devices()), d.device_kind, sep='|')"
_COPY: Final = """
func.func @copy(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %y: memref<8x128xf32, #tpu.memory_space<vmem>>)
    attributes {dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
                tpu.core_type = #tpu.core_type<tc>} {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %0, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  return
}"""

#: ``"no"`` is an answer; only ``"fault"`` is something to mend.
type State = Literal["ok", "no", "fault"]


@dataclass(frozen=True)
class Check:
    """One answer.

    Attributes:
        name: what was looked at.
        state: how it is.
        says: in a few words.
        remedy: what to do about it, if there is anything.
    """

    name: str
    state: State
    says: str
    remedy: str = ""


def versions() -> dict[str, str | None]:
    """Of our packages and of those that decide what they do; ``None`` where one is not installed."""
    return {name: _version(name) for name in (*OURS, *OTHERS)}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def checks(timeout: float, environment: dict[str, str]) -> list[Check]:
    """All of them.

    Args:
        timeout: seconds for what is asked in another process.
        environment: of that process, as the user has it.
    """
    return [
        _packages(),
        _guarded("MLIR", _mlir),
        _guarded("simulator", _simulator),
        _guarded("TPU compiler", lambda: _compiler(timeout)),
        _guarded("TPU", lambda: _tpu(timeout, environment)),
    ]


def _guarded(name: str, look: Callable[[], Check]) -> Check:
    """A check that fails in a way it did not expect is a fault."""
    try:
        return look()
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        return Check(name, "fault", f"{type(error).__name__}: {first}", "install the packages anew")


def _packages() -> Check:
    found = versions()
    missing = [name for name in OURS if importlib.util.find_spec(_module(name)) is None]
    if missing:
        return Check("packages", "fault", f"{', '.join(missing)} not installed", "pip install mosaic-tpu")
    if found["mosaic-tpu"] is None:
        return Check("packages", "ok", "run from their sources, not installed")
    if len({found[name] for name in OURS}) > 1:
        return Check("packages", "fault", "of different versions", "pip install --upgrade mosaic-tpu")
    return Check("packages", "ok", f"all of {found['mosaic-tpu']}")


def _module(distribution: str) -> str:
    """The package that a distribution of ours holds."""
    return f"mosaic_tpu.{distribution.removeprefix('mosaic-tpu').removeprefix('-') or 'cli'}"


def _mlir() -> Check:
    """What the builder writes by default, and the newest that the installed jaxlib writes."""
    from mosaic_tpu.builder import Builder, Ref, Role, f32
    from mosaic_tpu.sim import ir

    b = Builder("copy")
    a = b.declare_args(dict(x=Ref((8, 128), f32), y=Ref((8, 128), f32, role=Role.OUTPUT)))
    a.y[...] = a.x[...]
    module = b.finish()
    usual, newest = (
        _ir_version(ir.read(made.body)) for made in (module.serialize(), module.serialize(ir_version=None))
    )
    return Check("MLIR", "ok", f"jaxlib {_version('jaxlib')} writes Mosaic IR {newest}, {usual} without a TPU")


def _ir_version(module: Any) -> int:
    return module.operations[0].attributes.integer("stable_mosaic.version")


def _simulator() -> Check:
    import numpy as np

    from mosaic_tpu.sim import simulate

    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    report = simulate(_COPY, x)
    if report.hazards or not np.array_equal(report.outputs[0], x):
        return Check("simulator", "fault", "a copy of an array is not the array", "please report this")
    return Check("simulator", "ok", "runs a kernel")


def _compiler(timeout: float) -> Check:
    from mosaic_tpu import aot

    version = aot.compiler_version()
    if version is None:
        remedy = "pip install libtpu, on Linux on x86-64; all but compile, schedule and tune work without"
        return Check("TPU compiler", "no", "libtpu is not installed", remedy)
    result = aot.compile(_COPY, "v5e", timeout=timeout, cache=False)
    return Check("TPU compiler", "ok", f"libtpu {version} compiles, for v5e in {result.seconds:.1f} s")


def _tpu(timeout: float, environment: dict[str, str]) -> Check:
    """Without a device there is no TPU; with one, JAX says what it is, in a process that may be ended."""
    if not any(path for pattern in _DEVICES for path in Path("/dev").glob(pattern)):
        return Check("TPU", "no", "none attached: no /dev/accel* and no /dev/vfio/*")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK], env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        why = f"JAX did not find one within {timeout:.0f} s"
        return Check("TPU", "no", why, "is another process using it? JAX_PLATFORMS=cpu keeps JAX from looking")
    found = next((line.split("|") for line in done.stdout.splitlines() if line.startswith("found|")), None)
    if found is None:
        said = done.stderr.strip().rpartition("\n")[2]
        return Check("TPU", "no", f"JAX finds none: {said[:120]}", "JAX_PLATFORMS=cpu keeps JAX from looking")
    _, platform, count, kind = found
    if platform != "tpu":
        return Check("TPU", "no", f"JAX uses the {platform}")
    return Check("TPU", "ok", f"{count} × {kind}")
