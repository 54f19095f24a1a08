"""What is known of each TPU generation.

Figures are those of one TensorCore, as ``pltpu.get_tpu_info_for_chip(version, num_cores=1)`` of JAX 0.12 has them; a
test compares. Rows a cycle are counted in the compiler's bundles: before v6e it issues a matmul of 16 packed bf16 rows
every 16 cycles, since then every 8. The clock follows from the peak. Nothing here was measured on a TPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Mapping

LANES: Final = 128
SUBLANES: Final = 8
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Generation:
    """A TPU generation, by the figures of one of its TensorCores.

    Attributes:
        name: ``"v6e"``.
        number: 6 of ``"v6e"``.
        chip: the topology that holds one chip.
        chip_version: its name in ``pltpu.ChipVersion``.
        mxus: matrix units.
        mxu_size: rows and columns of one.
        vmem_bytes: capacity of VMEM.
        smem_bytes: capacity of SMEM.
        hbm_bytes_per_second: bandwidth of HBM.
        flops_per_second: peak of a matmul by MLIR element type of its operands; types that it multiplies at the speed
            of bf16, or not at all, are not in it.
    """

    name: str
    number: int
    chip: str
    chip_version: str
    mxus: int
    mxu_size: int
    vmem_bytes: int
    smem_bytes: int
    hbm_bytes_per_second: float
    flops_per_second: Mapping[str, float]

    @property
    def flops_per_cycle(self) -> int:
        """Floating-point operations of all MXUs in a cycle, in bf16."""
        return self.mxus * self.mxu_rows_per_cycle * self.mxu_size**2 * 2

    @property
    def mxu_rows_per_cycle(self) -> int:
        """Rows of bf16 that an MXU takes in a cycle."""
        return 2 if self.number >= 6 else 1

    @property
    def clock_hz(self) -> float:
        """Cycles a second, from the peak and the size of the MXUs."""
        return self.flops_per_second["bf16"] / self.flops_per_cycle

    @property
    def hbm_bytes_per_cycle(self) -> float:
        """Bytes that HBM moves in a cycle."""
        return self.hbm_bytes_per_second / self.clock_hz


_TABLE: Final = (
    Generation("v4", 4, "v4:1x1x1", "TPU_V4", 4, 128, 16 * _MIB, _MIB, 615e9, {"bf16": 137.5e12}),
    Generation(
        "v5e", 5, "v5e:1x1", "TPU_V5E", 4, 128, 128 * _MIB, _MIB, 820e9, {"bf16": 197e12, "i8": 394e12, "i4": 788e12}
    ),
    Generation(
        "v5p",
        5,
        "v5p:1x1x1",
        "TPU_V5P",
        4,
        128,
        64 * _MIB,
        _MIB,
        1230e9,
        {"bf16": 229.5e12, "i8": 459e12, "i4": 920e12},
    ),
    Generation(
        "v6e",
        6,
        "v6e:1x1",
        "TPU_V6E",
        2,
        256,
        128 * _MIB,
        _MIB,
        1640e9,
        {"bf16": 920e12, "i8": 1840e12, "f8": 920e12, "i4": 3680e12},
    ),
    Generation("tpu7x", 7, "tpu7x:1x1x1", "TPU_7X", 2, 256, 64 * _MIB, _MIB, 3700e9, {"bf16": 1155e12, "f8": 2300e12}),
)
TARGETS: Final[Mapping[str, Generation]] = MappingProxyType({generation.name: generation for generation in _TABLE})
"""Every generation the compiler knows, by name."""


@dataclass(frozen=True)
class Target:
    """What to compile for: a generation, as chips in a grid.

    Attributes:
        generation: of the chips.
        topology: the name libtpu knows it by, ``"v5e:2x2"``.
    """

    generation: Generation
    topology: str

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Chips along three axes."""
        x, y, *z = map(int, self.topology.partition(":")[2].split("x"))
        return x, y, *(z or [1])

    def __str__(self) -> str:
        return self.generation.name if self.topology == self.generation.chip else self.topology


def find_target(name: str | Target) -> Target:
    """The target of a name: a generation, ``"v6e"``, for one chip, or a topology of it, ``"v6e:2x2"``.

    Raises:
        TargetError: there is none of that name.

    Example:
        >>> find_target("v6e").topology, str(find_target("v5e:2x2"))
        ('v6e:1x1', 'v5e:2x2')
    """
    if isinstance(name, Target):
        return name
    found = re.fullmatch(r"(\w+)(?::(\d+(?:x\d+)+))?", name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    generation = TARGETS.get(found[1]) if found else None
    if found is None or generation is None:
        raise TargetError(f"no target {name!r}", op="find_target", hint=f"one of {', '.join(TARGETS)}, or 'v5e:2x2'")
    if found[2] is None:
        return Target(generation, generation.chip)
    axes, wanted = found[2].split("x"), generation.chip.partition(":")[2].count("x") + 1
    # libtpu wants three axes of v4, v5p and tpu7x; people write two.
    if not 2 <= len(axes) <= wanted or "0" in axes:
        raise TargetError(f"no topology {name!r}", op="find_target", hint=f"{generation.name} has {wanted} axes")
    return Target(generation, f"{generation.name}:{'x'.join(axes + ['1'] * (wanted - len(axes)))}")
