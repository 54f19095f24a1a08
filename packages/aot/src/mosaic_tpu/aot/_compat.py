"""Everything that `mosaic_tpu.aot` takes from jaxlib and JAX beyond their public API. Nothing else imports it.

=====================================  ===========================================================================
name                                   if it moves
=====================================  ===========================================================================
``jaxlib.mlir.ir``                     the MLIR Python bindings; any build of them with the same C API will do
``…_mlir_libs._tpu_ext``               ``private_has_communication``
``mosaic-serde``                       the pass that writes a body in the form a custom call holds
``jaxlib.xla_client``                  compile options and device lists; `jax.stages` compiles only what JAX traced
``CompileOnlyClient.compile``          the client of ``topologies.get_topology_desc(…).devices``
=====================================  ===========================================================================
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _tpu_ext
from jaxlib.mlir.passmanager import PassManager

from mosaic_tpu.sim.ir import in_stable_form, new_context

_ir: Final = cast("Any", ir)
_tpu: Final[Any] = _tpu_ext
_CALL: Final = "tpu_custom_call"
#: XLA's number of that memory.
_HBM: Final = 0

#: What MLIR raises for a text it cannot read or a module that does not verify.
MLIRError: Final = cast("type[Exception]", ir.MLIRError)


def is_mlir_module(value: object) -> bool:
    """Whether it is a module of jaxlib's MLIR bindings."""
    return isinstance(value, _ir.Module)


def compiler_version() -> str | None:
    """The version of libtpu, ``None`` where none is installed."""
    for name in ("libtpu", "libtpu-nightly"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


#: Of the form in which a body is kept.
_MARK: Final = "stable_mosaic.version"


# --- bodies ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Body:
    """What a custom call holds of a Mosaic module.

    Attributes:
        data: bytecode.
        communicates: whether it copies or signals to other devices.
        has_barrier: whether it uses the barrier semaphore.
    """

    data: bytes
    communicates: bool
    has_barrier: bool


def body_of(source: Any) -> Body:
    """The body that a custom call would hold: of MLIR text or bytecode, or of a module object.

    Raises:
        MLIRError: MLIR cannot read it.
    """
    with new_context(), _ir.Location.unknown():
        parsed = _ir.Module.parse(_bytecode(source.operation) if is_mlir_module(source) else source)
        module = parsed.operation
        if _MARK in module.attributes:
            if in_stable_form(parsed):  # which hides what it does
                _serde(module, "false")
            del module.attributes[_MARK]
        communicates, has_barrier = _tpu.private_has_communication(module)
        _serde(module, "true")
        return Body(_bytecode(module, desired_version=0), communicates, has_barrier)


def _bytecode(operation: Any, **options: int) -> bytes:
    buffer = io.BytesIO()
    operation.write_bytecode(buffer, **options)
    return buffer.getvalue()


def _serde(module: Any, serialize: str) -> None:
    pipeline = PassManager.parse(f"builtin.module(mosaic-serde{{serialize={serialize}}})")
    pipeline.enable_verifier(False)
    pipeline.run(module)


# --- programs, in the worker -------------------------------------------------------------------------------------


def partitions_of(module: Any) -> int:
    """How many devices the program is for: as it says, or as many as its meshes have."""
    attributes = module.operation.attributes
    name = "mhlo.num_partitions"
    said = int(_ir.IntegerAttr(attributes[name]).value) if name in attributes else 1
    return max(said, *(_mesh_size(op.operation) for op in module.body.operations), 1)


def _mesh_size(op: Any) -> int:
    """Devices of an ``sdy.mesh``; 1 for another op."""
    if op.name != "sdy.mesh":
        return 1
    return math.prod(int(size) for size in re.findall(r"=(\d+)", str(op.attributes["mesh"])))


def limit_vmem(module: Any, limit_bytes: int) -> None:
    """Give every kernel of a program this limit of VMEM, in place."""
    for op in _calls(module.operation):
        config = json.loads(_ir.StringAttr(op.attributes["backend_config"]).value)
        config["scoped_memory_configs"] = [{"memory_space": 1, "offset": 0, "size": limit_bytes}]
        with module.context:
            op.attributes["backend_config"] = _ir.StringAttr.get(json.dumps(config))


def keep_in_hbm(module: Any, operands: list[int], results: int) -> None:
    """Keep operands of the program's kernel, and its results, in HBM, in place; what has a place already keeps it."""
    for op in _calls(module.operation):
        config = json.loads(_ir.StringAttr(op.attributes["backend_config"]).value)
        call = config["custom_call_config"]
        inputs = call.setdefault("input_memory_space_colors", [])
        placed = {color["operand_index"] for color in inputs}
        inputs += [{"operand_index": n, "color": _HBM} for n in operands if n not in placed]
        several = [{"color": _HBM, "shape_index": [n]} for n in range(results)]
        call.setdefault("output_memory_space_colors", several if results > 1 else [{"color": _HBM}])
        with module.context:
            op.attributes["backend_config"] = _ir.StringAttr.get(json.dumps(config))


def _calls(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                found = inner.operation
                if (
                    found.name == "stablehlo.custom_call"
                    and _ir.StringAttr(found.attributes["call_target_name"]).value == _CALL
                ):
                    yield found
                yield from _calls(found)


def devices_of(topology: str, bounds: tuple[int, ...]) -> list[Any]:
    """The devices of a topology that exists only for the compiler."""
    from jax.experimental import topologies

    # Before 0.0.50, libtpu takes hosts of four chips for granted if it is not told otherwise.
    options = {"topology_name": topology, "chips_per_host_bounds": bounds}
    return list(cast("Any", topologies).get_topology_desc(platform="tpu", **options).devices)


def compile_for(devices: list[Any], module: Any, replicas: int, partitions: int) -> None:
    """Compile a program for devices."""
    import numpy as np
    from jaxlib import xla_client

    xla = cast("Any", xla_client)
    choices = xla.CompileOptions()
    choices.num_replicas, choices.num_partitions = replicas, partitions
    used = devices[: replicas * partitions]
    ids = np.array([device.id for device in used]).reshape(replicas, partitions)
    choices.device_assignment = xla.DeviceAssignment.create(ids)
    if partitions > 1:
        choices.executable_build_options.use_spmd_partitioning = True
        choices.executable_build_options.use_shardy_partitioner = True
    devices[0].client.compile(module, xla.DeviceList(tuple(used)), choices)
