"""What is known of each TPU generation.

Figures are those of one TensorCore, as ``pltpu.get_tpu_info_for_chip(version, num_cores=1)`` of JAX 0.12 has them; a
test compares. Rows a cycle are counted in the compiler's bundles: before v6e it issues a matmul of 16 packed bf16 rows
every 16 cycles, since then every 8. The clock follows from the peak. Limits are the compiler's own, as its refusals
name them. Nothing here was measured on a TPU.

How chips are connected is Google Cloud's word, https://cloud.google.com/tpu/docs/types-topologies and the page of each
generation there: v5e and v6e have 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16 and 16x16; the sides of the others are at most 4,
or multiples of 4, and v4 has 4096 chips in a pod, tpu7x 9216, and v5p 6144 in its largest slice. A part of a slice,
which a process may have alone, is a topology too. libtpu itself takes any sizes: what does not exist is refused here.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        chips: of the largest slice.
        chip_version: its name in ``pltpu.ChipVersion``.
        mxus: matrix units.
        mxu_size: rows and columns of one.
        vmem_bytes: capacity of VMEM.
        default_vmem_limit: bytes of VMEM that a kernel may use if its call does not say.
        smem_bytes: capacity of SMEM.
        semaphores: words for them, of which the compiler takes some; ``None`` where no kernel was refused for them.
        hbm_bytes_per_second: bandwidth of HBM.
        flops_per_second: peak of a matmul by MLIR element type of its operands; types that it multiplies at the speed
            of bf16, or not at all, are not in it.
        device_kinds: its names in ``jax.Device.device_kind``.
        places_arguments_in_vmem: whether XLA may put a program's arguments into VMEM, so that they need no window.
        refuses_blocks_outside: whether the compiler refuses a block that a constant index puts outside its array.
    """

    name: str
    number: int
    chip: str
    chips: int
    chip_version: str
    mxus: int
    mxu_size: int
    vmem_bytes: int
    default_vmem_limit: int
    smem_bytes: int
    semaphores: int | None
    hbm_bytes_per_second: float
    flops_per_second: Mapping[str, float] = field(hash=False)
    device_kinds: tuple[str, ...]
    places_arguments_in_vmem: bool = False
    refuses_blocks_outside: bool = True

    def __repr__(self) -> str:
        return f"<Generation {self.name}>"

    def peak(self, element: str) -> float:
        """Flops a second of matmuls whose left operand has an element type; those without a peak go as bf16.

        Args:
            element: MLIR's name, ``"bf16"``, ``"f8E4M3FN"``, ``"i8"``, or the compiler's, ``"s8"``.
        """
        family = re.sub(r"^[su]i?(?=\d)", "i", element)
        family = "f8" if family.lower().startswith("f8") else family
        return self.flops_per_second.get(family, self.flops_per_second["bf16"])

    @property
    def axes(self) -> int:
        """Along which chips are connected: 2 or 3."""
        return self.chip.partition(":")[2].count("x") + 1

    def has(self, sides: Sequence[int]) -> bool:
        """Whether there is a slice, or a part of one, of so many chips along each axis."""
        if len(sides) != self.axes or math.prod(sides) > self.chips:
            return False
        if self.axes == 2:
            return all(side in (1, 2, 4, 8, 16) for side in sides)
        return all(side in (1, 2) or (side > 0 and side % 4 == 0) for side in sides)

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
    Generation(
        name="v4", number=4, chip="v4:1x1x1", chips=4096, chip_version="TPU_V4", mxus=4, mxu_size=128,
        vmem_bytes=16 * _MIB, default_vmem_limit=16 * _MIB, smem_bytes=_MIB, semaphores=512,
        hbm_bytes_per_second=615e9, flops_per_second={"bf16": 137.5e12},
        device_kinds=("TPU v4",),
    ),
    Generation(
        name="v5e", number=5, chip="v5e:1x1", chips=256, chip_version="TPU_V5E", mxus=4, mxu_size=128,
        vmem_bytes=128 * _MIB, default_vmem_limit=16 * _MIB, smem_bytes=_MIB, semaphores=512,
        hbm_bytes_per_second=820e9, flops_per_second={"bf16": 197e12, "i8": 394e12, "i4": 788e12},
        device_kinds=("TPU v5 lite", "TPU v5e"),
    ),
    Generation(
        name="v5p", number=5, chip="v5p:1x1x1", chips=6144, chip_version="TPU_V5P", mxus=4, mxu_size=128,
        vmem_bytes=64 * _MIB, default_vmem_limit=16 * _MIB, smem_bytes=_MIB, semaphores=512,
        hbm_bytes_per_second=1230e9, flops_per_second={"bf16": 229.5e12, "i8": 459e12, "i4": 920e12},
        device_kinds=("TPU v5", "TPU v5p"),
    ),
    Generation(
        name="v6e", number=6, chip="v6e:1x1", chips=256, chip_version="TPU_V6E", mxus=2, mxu_size=256,
        vmem_bytes=128 * _MIB, default_vmem_limit=32 * _MIB, smem_bytes=_MIB, semaphores=512,
        hbm_bytes_per_second=1640e9, flops_per_second={"bf16": 920e12, "i8": 1840e12, "f8": 920e12, "i4": 3680e12},
        device_kinds=("TPU v6 lite", "TPU v6e"),
    ),
    Generation(
        name="tpu7x", number=7, chip="tpu7x:1x1x1", chips=9216, chip_version="TPU_7X", mxus=2, mxu_size=256,
        vmem_bytes=64 * _MIB, default_vmem_limit=32 * _MIB, smem_bytes=_MIB, semaphores=None,
        hbm_bytes_per_second=3700e9, flops_per_second={"bf16": 1155e12, "f8": 2300e12},
        device_kinds=("TPU7x",), places_arguments_in_vmem=True, refuses_blocks_outside=False,
    ),
)  # fmt: skip
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

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Chips along three axes."""
        x, y, *z = map(int, self.topology.partition(":")[2].split("x"))
        return x, y, z[0] if z else 1

    def __str__(self) -> str:
        return self.generation.name if self.topology == self.generation.chip else self.topology


def generation_of(device_kind: str) -> Generation | None:
    """The generation that JAX names so, ``jax.devices()[0].device_kind``; ``None`` if it is no known TPU.

    Example:
        >>> generation_of("TPU v5 lite").name
        'v5e'
    """
    return next((g for g in _TABLE if device_kind in g.device_kinds), None)


def find_target(name: str | Target) -> Target:
    """The target of a name: a generation, ``"v6e"``, for one chip, or a topology of it, ``"v6e:2x2"``.

    Raises:
        TargetError: there is none of that name.

    Example:
        >>> find_target("v6e").topology, str(find_target("v5e:2x2"))
        ('v6e:1x1', 'v5e:2x2')
    """
    if isinstance(name, Target):
        found = find_target(name.topology)  # or somebody made it by hand
        return name if found == name else found
    family, colon, sizes = name.partition(":") if isinstance(name, str) else ("", "", "")  # pyright: ignore[reportUnnecessaryIsInstance]
    generation = TARGETS.get(family)
    if generation is None:
        raise TargetError(f"no target {name!r}", op="find_target", hint=f"one of {', '.join(TARGETS)}, or 'v5e:2x2'")
    if not colon:
        return Target(generation, generation.chip)
    sides = [int(n) for n in sizes.split("x")] if re.fullmatch(r"[1-9][0-9]{0,3}(?:x[1-9][0-9]{0,3})+", sizes) else []
    # libtpu wants three axes of v4, v5p and tpu7x; people write two.
    sides += [1] * (generation.axes - len(sides)) if len(sides) == 2 else []
    if not generation.has(sides):
        raise TargetError(f"no topology {name!r}", op="find_target", hint=_topologies(generation))
    return Target(generation, f"{generation.name}:{'x'.join(map(str, sides))}")


def _topologies(generation: Generation) -> str:
    """What there is instead."""
    if generation.axes == 2:
        return f"{generation.name} has 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16, and parts of these, as 1x2"
    sides = f"each 1, 2 or a multiple of 4, of {generation.chips} chips in all at most"
    return f"{generation.name} has three sides, {sides}: 1x1x1, 2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, 4x4x8, 4x8x8, …"
