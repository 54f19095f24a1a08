"""The model of VMEM against the compiler's own allocations, argument by argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from conformance.cases.cheat_sheet.pairs import Arg, out, scratch, vmem
from conformance.conftest import Record
from conformance.harness.targets import REQUIRED
from conformance.lint.cases import LintCase
from mosaic_tpu import aot, zoo
from mosaic_tpu.aot.errors import ScopedVmemError
from mosaic_tpu.builder import bf16, f32, i4, i8
from mosaic_tpu.zoo import KernelInfo

PRESETS: Final = [(info, name) for info in zoo.KERNELS.values() for name in info.presets]
_FLAGS: Final = {"xla_jf_dump_llo_text": True, "xla_jf_dump_llo_pass_label_regex": "pre-finalize"}
_ALLOCATION: Final = r"#allocation\d+ \[shape = '[^']*', space=vmem, size = (0x[0-9a-f]+).*?tag = '([^']*)'"
#: What the model speaks of; the rest of the compiler's allocations are its own.
_TAGS: Final = r"(?:input|output) window allocation|scratch operand"

pytestmark = pytest.mark.usefixtures("newest_compiler")


def allocated(text: str, target: str, folder: Path) -> tuple[int, bool]:
    """Bytes of windows and scratch in VMEM as the compiler says, and whether XLA put an operand there in whole."""
    for old in folder.iterdir():
        old.unlink()
    aot.compile(text, target, flags={**_FLAGS, "xla_jf_dump_to": str(folder)}, cache=False)
    total, placed = 0, False
    for file in folder.glob("*pre-finalize-registers-and-allocations.txt"):
        for line in file.read_text().splitlines():
            found = re.search(_ALLOCATION, line)
            total += int(found[1], 16) if found and re.match(_TAGS, found[2]) else 0
            placed |= "inlined_call_operand.vmem" in line
    return total, placed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all, since it is a flag: each other one would start another process."""
    return tmp_path_factory.mktemp("allocations")


def _compared(name: str, text: str, folder: Path, record: Record) -> None:
    need = aot.vmem_need(text)
    for target in REQUIRED:
        total, placed = allocated(text, target, folder)
        record("VMEM", kernel=name, target=target, model=need.total, compiler=total, in_vmem_already=placed)
        assert need.total >= total if placed else need.total == total


@pytest.mark.parametrize(("info", "preset"), PRESETS, ids=[f"{info.name}-{name}" for info, name in PRESETS])
def test_the_model_is_the_compilers_for_a_preset(info: KernelInfo, preset: str, folder: Path, record: Record) -> None:
    _compared(f"{info.name}, {preset}", info.kernel.lower(info.presets[preset]).stablehlo, folder, record)


def _rows(dtype: object, array: tuple[int, ...], block: tuple[int, ...], **more: object) -> dict[str, Arg]:
    index_map = more.pop("index_map", lambda i: (i, *(0 for _ in block[1:])))
    x = vmem(dtype, array, block=block, index_map=index_map, **more)  # pyright: ignore[reportArgumentType]
    return {"x": x, "o": out(dtype, block)}  # pyright: ignore[reportArgumentType]


SWEEP: Final = {
    "f32 rows": (_rows(f32, (64, 128), (8, 128)), (8,)),
    "bf16 rows": (_rows(bf16, (64, 256), (8, 256)), (8,)),
    "i8 rows": (_rows(i8, (64, 128), (8, 128)), (8,)),
    "i4 rows": (_rows(i4, (256, 128), (64, 128)), (4,)),
    "lanes 200": (_rows(f32, (64, 200), (16, 200)), (4,)),
    "lanes 5": (_rows(f32, (64, 5), (16, 5)), (4,)),
    "three dimensions": (_rows(bf16, (4, 3, 128), (1, 3, 128)), (4,)),
    "one dimension": (_rows(f32, (1024,), (256,)), (4,)),
    "one row": (_rows(f32, (1, 512), (1, 128), index_map=lambda i: (0, i)), (4,)),
    "fixed block": (_rows(f32, (64, 128), (8, 128), index_map=lambda i: (2, 0)), (8,)),
    "one buffer": (_rows(f32, (64, 128), (8, 128), buffers=1), (8,)),
    "grid of one": (_rows(f32, (64, 128), (8, 128)), (1,)),
    "scratch": (
        {
            "x": vmem(f32),
            "o": out(f32),
            "t": scratch(bf16, (3, 5)),
            "u": scratch(bf16, (16, 5, 70)),
            "w": scratch(i8, (100,)),
        },
        (1,),
    ),
}


@pytest.mark.parametrize("name", SWEEP)
def test_the_model_is_the_compilers_for_a_shape(name: str, folder: Path, record: Record) -> None:
    args, grid = SWEEP[name]
    _compared(name, LintCase("sweep", "VMEM", "o[...] = x[...]", args, grid).stablehlo(), folder, record)


@pytest.mark.parametrize("target", [name for name in aot.TARGETS if name != "v4"])
def test_the_default_limit_is_the_compilers(target: str, record: Record) -> None:
    block = (40 * 2048, 128)  # 40 MiB
    text = LintCase("limit", "VMEM", "o[...] = x[0:8]", {"x": vmem(f32, block), "o": out(f32)}).stablehlo()
    with pytest.raises(ScopedVmemError) as refused:
        aot.compile(text, target)
    found = re.search(r"Scoped allocation with size ([\d.]+)M and limit ([\d.]+)M", refused.value.raw)
    assert found, refused.value.raw
    record("VMEM limits", target=target, model=aot.TARGETS[target].default_vmem_limit >> 20, compiler=float(found[2]))
    assert float(found[2]) * (1 << 20) == aot.TARGETS[target].default_vmem_limit
