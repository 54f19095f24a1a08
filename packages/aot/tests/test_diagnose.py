"""What the TPU compiler says becomes an error of the right class, in plain words, at the kernel's line.

The texts in `refusals` are the compiler's own (libtpu 0.0.50), of kernels written for it, with shortened paths.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mosaic_tpu.aot import errors
from mosaic_tpu.aot._diagnose import diagnose, locator
from mosaic_tpu.aot._diagnose._message import location, plain_reason, plain_type, signature
from mosaic_tpu.sim import ir

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "refusals").glob("*.txt")}
NOISE = re.compile(r"\.cc\b|\.h:\d|INTERNAL|RESOURCE_EXHAUSTED|INVALID_ARGUMENT|Mosaic failed|E\d{4}|#tpu|\n|-:\d+:\d+")

# name of the text: class, op, line of kernels.py, the summary or part of it, part of the hint
EXPECTED = {
    "reshape": (
        errors.LayoutError,
        "tpu.reshape",
        39,
        "no vector layout for this reshape: vector<8x120xf32> to vector<960xf32>",
        "multiples of 128",
    ),
    "reshape_pallas": (errors.LayoutError, "tpu.reshape", 21, "vector<8x256xf32> to vector<8x8x32xf32>", "128"),
    "gather_wide": (errors.LayoutError, "tpu.dynamic_gather", None, "within one register", "one-hot"),
    "gather_bf16": (errors.UnsupportedError, "tpu.dynamic_gather", None, "bits of its elements", "32 bits"),
    "gather_rank_1": (errors.LayoutError, "tpu.dynamic_gather", 243, "vector<128xf32>", "(n // 128, 128)"),
    "stride_lanes": (errors.LayoutError, "tpu.strided_load", 245, "cannot skip lanes", "another dimension"),
    "stride_wide": (errors.LayoutError, "tpu.strided_load", 249, "memref<8x256xf32, vmem>", "(…, 128)"),
    "mask_in_memory": (errors.LayoutError, None, None, "booleans (i1)", "compare after the load"),
    "load_lane": (
        errors.AlignmentError,
        "tpu.vector_load",
        116,
        "the index in dimension 1 is not known to be a multiple of 128: vector<8x128xf32> in memref<8x512xf32, vmem>",
        "b.assume_multiple(index, 128)",
    ),
    "store_row": (
        errors.AlignmentError,
        "tpu.vector_store",
        58,
        "the index in dimension 0 is not known to be a multiple of 8: vector<16x128xbf16> in memref<64x128xbf16, vmem>",
        "b.assume_multiple(index, 8)",
    ),
    "load_element": (errors.AlignmentError, "tpu.vector_load", 66, "memref<16x256xf32, vmem>", "whole row"),
    "dma_offset": (
        errors.DMAAlignmentError,
        "tpu.memref_slice",
        163,
        "the offset of a slice in dimension 0 is not known to be a multiple of the tile, 8:"
        " memref<8x256xf32, hbm> of memref<64x256xf32, hbm>",
        "multiples of 8 in dimension 0",
    ),
    "dma_size": (
        errors.DMAAlignmentError,
        "tpu.memref_slice",
        75,
        "the size of a slice in dimension 1 is not known to be a multiple of the tile, 128",
        "multiples of 128 in dimension 1",
    ),
    "dma_run": (errors.DMAAlignmentError, "tpu.enqueue_dma", 75, "512 bytes", "whole rows"),
    "matmul_i8": (errors.UnsupportedError, "tpu.matmul", 117, "no matmul of i8 by i8", "bf16"),
    "matmul_i32": (errors.UnsupportedError, "tpu.matmul", 117, "no matmul of i32 by i32", "f32"),
    "matmul_i16": (errors.UnsupportedError, "tpu.matmul", 117, "no matmul of i16 by i16", "f32"),
    "matmul_f8": (
        errors.UnsupportedError,
        "tpu.matmul",
        117,
        "no matmul of f8E4M3B11FNUZ by f8E4M3B11FNUZ",
        "a generation that multiplies them",
    ),
    "matmul_f4": (errors.UnsupportedError, "tpu.matmul", 117, "no matmul of f4E2M1FN by f4E2M1FN", "bf16"),
    "add_i8": (errors.UnsupportedError, "arith.addi", 95, "16 or 32 bits, and this has i8", "b.extsi"),
    "max_i8": (errors.UnsupportedError, "arith.maxsi", 145, "no code for arith.maxsi on i8", "keep the result"),
    "add_f8": (errors.UnsupportedError, "arith.addf", 146, "no code for arith.addf on f8E4M3FN", "32 bits"),
    "load_f16": (errors.UnsupportedError, "tpu.load", 110, "memref<16x128xf16, vmem>", "bf16 or f32"),
    "reciprocal_bf16": (errors.UnsupportedError, "tpu.reciprocal", 79, "no reciprocal in bf16", "b.extf"),
    "create_mask": (errors.UnsupportedError, "tpu.create_mask", 182, "no code for tpu.create_mask", "b.iota"),
    "low_padding": (errors.UnsupportedError, None, None, "window of input 0 has padding before", "behind the array"),
    "reduction": (errors.UnsupportedError, "vector.multi_reduction", 194, "vector<4x8x128xf32>", "halving"),
    "sublane_gather": (errors.UnsupportedError, "tpu.dynamic_gather", 182, "Sublane gather", "newer generation"),
    "rotate_stride": (errors.UnsupportedError, "tpu.dynamic_rotate", None, "rotate lane stride", "newer generation"),
    "block": (
        errors.DMAAlignmentError,
        None,
        None,
        "the blocks (..., 100, 128) of input 0, an array (..., 2000, 128), are neither whole tiles of (8, 128) nor all",
        "multiples of (8, 128)",
    ),
    "f64": (errors.UnsupportedError, None, None, "64 bits, and a kernel's array has: f64[8,128]", "f32"),
    "accumulator": (errors.InvalidKernelError, "tpu.matmul", 158, "must have 32 bits", "accumulate in f32"),
    "unserialized": (errors.InvalidKernelError, "arith.constant", 213, "stable_mosaic", "serialize"),
    "truncated": (
        errors.InvalidKernelError,
        None,
        None,
        "the body cannot be read: attempting to parse 375 bytes when only 87 remain",
        "",
    ),
    "unknown_op": (errors.InvalidKernelError, "vector.shape_kast", None, "does not know the op vector.shape_kast", ""),
    "empty": (errors.InvalidKernelError, None, None, "the call has no body", ""),
    "vmem_window": (
        errors.VmemError,
        None,
        None,
        "the window of input 0 (f32[4096,4096], single buffered) takes 64 MiB, and VMEM has 16 MiB",
        "smaller blocks",
    ),
    "vmem_total": (
        errors.VmemError,
        None,
        None,
        "the kernel needs 128 MiB of VMEM, which has 63.94 MiB; the largest is"
        " the window of input 0 (f32[4096,4096], single buffered), 64 MiB",
        "smaller blocks",
    ),
    "vmem_scratch": (
        errors.VmemError,
        None,
        None,
        "a scratch buffer (f32[8192,8192]) takes 256 MiB, and VMEM has 128 MiB",
        "less scratch",
    ),
    # 32 MiB, rounded by the compiler to hundredths of one: a whole one more is enough for certain.
    "vmem_scoped": (
        errors.ScopedVmemError,
        None,
        None,
        "the kernel needs 32 MiB of VMEM or more, and its limit is 4 MiB",
        f"vmem_limit_bytes={33 << 20}",
    ),
    "smem_scratch": (
        errors.SmemError,
        None,
        None,
        "a scratch buffer (s32[512,1024]) takes 2 MiB, and SMEM has 1 MiB",
        "",
    ),
    "smem_prefetch": (
        errors.SmemError,
        None,
        None,
        "scalar prefetch operand 0 takes 2 MiB, and SMEM has 1 MiB",
        "prefetch fewer",
    ),
    "semaphores": (errors.SemaphoreMemoryError, None, None, "semaphore memory has 16 KiB", "in turn"),
}


def test_every_text_has_an_expectation() -> None:
    assert set(TEXTS) == {*EXPECTED, "abort"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_text_becomes_its_error(name: str) -> None:
    kind, op, line, says, hint = EXPECTED[name]
    error = diagnose(TEXTS[name], target="v6e")
    assert type(error) is kind
    assert (error.op, error.location) == (op, line and f"kernels.py:{line}")
    assert says in error.summary
    assert not NOISE.search(error.summary), error.summary
    assert error.hint
    assert hint in error.hint
    assert error.target == "v6e"
    assert error.raw == TEXTS[name]


def test_the_message_reads_as_one() -> None:
    assert str(diagnose(TEXTS["load_f16"], target="v5e")) == (
        "tpu.load: no load for these elements: memref<16x128xf16, vmem> to vector<8x128x2xf16>\n"
        "  at: kernels.py:110\n"
        "  target: v5e\n"
        "  hint: a TPU computes in f32 and bf16, not in f16: cast the array to bf16 or f32 before the call"
    )


# --- processes that died ------------------------------------------------------------------------------------------


def test_an_abort_tells_the_pass_and_the_check() -> None:
    error = diagnose(TEXTS["abort"], target="v6e", died="SIGABRT")
    assert type(error) is errors.InternalCompilerError
    assert error.summary == (
        "the TPU compiler ended (SIGABRT) while it worked on relayout insertion: Check failed: rem == 0 (1024 vs. 0)"
    )
    assert "compare afterwards" in error.hint
    assert (error.op, error.location) == (None, None)


def test_an_abort_over_a_mask_finds_its_reshape() -> None:
    module = ir.read("""
        func.func @kernel(%x: memref<32xi32, #tpu.memory_space<vmem>>) {
          %c0 = arith.constant 0 : index
          %n = vector.load %x[%c0] : memref<32xi32, #tpu.memory_space<vmem>>, vector<32xi32> loc("kernel.py":1:1)
          %c = vector.shape_cast %n : vector<32xi32> to vector<32x1xi32> loc("kernel.py":2:1)
          %m = arith.cmpi slt, %n, %n : vector<32xi32> loc("kernel.py":3:1)
          %e = vector.shape_cast %m : vector<32xi1> to vector<32x1xi1> loc("kernel.py":4:1)
          return
        }""")
    error = diagnose(TEXTS["abort"], target="v6e", died="SIGABRT", locate=locator([module]))
    assert (error.op, error.location) == ("tpu.reshape", "kernel.py:4")


def test_a_death_without_a_word_says_how() -> None:
    error = diagnose("", target="v6e", died="SIGKILL")
    assert type(error) is errors.InternalCompilerError
    assert error.summary == "the TPU compiler ended (SIGKILL)"
    assert "memory" in error.hint


def test_a_death_in_python_says_the_exception() -> None:
    log = "Traceback (most recent call last):\n  File \"a.py\", line 1\nModuleNotFoundError: No module named 'libtpu'\n"
    error = diagnose(log, target="v6e", died="exit code 1")
    assert error.summary == "the TPU compiler ended (exit code 1): ModuleNotFoundError: No module named 'libtpu'"


@pytest.mark.parametrize("died", ["", "SIGABRT"])
def test_a_full_disk_is_said(died: str) -> None:
    error = diagnose("E1130 file.cc:1] write: No space left on device", target="v6e", died=died)
    assert type(error) is errors.DiskError
    assert "disk is full" in error.summary


# --- texts that no rule knows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "kind", "summary"),
    [
        # reasons that stand in libtpu 0.0.50, in the frame that it puts around all of them
        ("INTERNAL: Mosaic failed to compile TPU kernel: Not implemented: Misaligned offsets", "LayoutError", None),
        ("INTERNAL: Mosaic failed to compile TPU kernel: Not implemented: Sublane broadcast", "LayoutError", None),
        (
            "INTERNAL: Mosaic failed to compile TPU kernel: Not implemented: Mask is not supported",
            "UnsupportedError",
            None,
        ),
        (
            "INTERNAL: Mosaic failed to compile TPU kernel: Byte gather not supported by this TPU generation",
            "UnsupportedError",
            "Byte gather not supported by this TPU generation",
        ),
        (
            "INTERNAL: LLO_CHECK failure (platforms/xla/a/b.cc:12) size > 0",
            "InternalCompilerError",
            "an internal check of the compiler failed: LLO_CHECK failure size > 0",
        ),
        (
            "NotImplementedError: Unimplemented primitive in Pallas TPU lowering for tc: cumsum. Please file an issue",
            "UnsupportedError",
            "Pallas has no lowering for cumsum on a TPU",
        ),
        ("UNKNOWN: the moon is full (a/b.cc:3)", "CompileError", "the moon is full"),
        ("", "CompileError", "the compiler gave no reason"),
    ],
)
def test_an_unknown_text_keeps_its_reason_without_noise(raw: str, kind: str, summary: str | None) -> None:
    error = diagnose(raw, target="v6e")
    assert type(error).__name__ == kind
    assert error.summary == (summary or raw.rpartition(": ")[2])


# --- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('at location: loc("k"("file.py":29:25 to :40))', "file.py:29"),
        ('at location: loc("add:"("add/add"(callsite("f"("file.py":3:1) at "g"("file.py":9:1)))))', "file.py:3"),
        # traced once, called twice: the function's own frames end in this call's
        ('at location: loc(callsite("f"("file.py":3:1) at "f"("file.py":5:1)))', "file.py:5"),
        ('loc(callsite("sum"("/env/jax/_src/numpy/reductions.py":8:1) at "k"("file.py":9:1)))', "file.py:9"),
        ('loc(callsite("add"("/env/mosaic_tpu/builder/ops/arith.py":8:1) at "k"("file.py":9:1)))', "file.py:9"),
        ('loc("k"("/env/mosaic_tpu/zoo/kernels/matmul.py":8:1))', "/env/mosaic_tpu/zoo/kernels/matmul.py:8"),
        # all frames are a library's: better its line than none
        (
            'loc("k"("/env/jax/experimental/pallas/ops/tpu/attention.py":8:1))',
            "/env/jax/experimental/pallas/ops/tpu/attention.py:8",
        ),
        ('error at "file.py":29:25: no', "file.py:29"),
        ("at location: loc(unknown)", None),
        ('at location: loc("gather:"("gather/gather"))', None),
        ('  File "/env/a.py", line 1, in main\n  File "file.py", line 7, in k\nMosaicError: no', "file.py:7"),
        (
            '  File "file.py", line 7, in k\n  File "/env/jax/_src/core.py", line 2, in bind\nMosaicError: no',
            "file.py:7",
        ),
        ("no location", None),
    ],
)
def test_the_line_is_the_kernels(text: str, line: str | None) -> None:
    assert location(text) == line


MODULE = """
func.func @kernel(%x: memref<8x256xf32, #tpu.memory_space<vmem>>) {
  %c0 = arith.constant 0 : index
  %a = vector.load %x[%c0, %c0] : memref<8x256xf32, #tpu.memory_space<vmem>>, vector<8x256xf32> loc("k.py":5:1)
  %b = vector.shape_cast %a : vector<8x256xf32> to vector<16x128xf32> loc("k.py":6:1)
  %c = vector.shape_cast %b : vector<16x128xf32> to vector<8x256xf32> loc("k.py":7:1)
  %d = arith.addf %c, %c : vector<8x256xf32> loc(unknown)
  %e = arith.mulf %d, %d : vector<8x256xf32> loc("k.py":7:9)
  %f = arith.subf %e, %e : vector<8x256xf32> loc(unknown)
  %g = arith.divf %f, %f : vector<8x256xf32> loc("k.py":9:1)
  return
}
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('%9 = "tpu.reshape"(%2) : (vector<8x256xf32>) -> vector<16x128xf32>', "k.py:6"),  # its later name, by types
        ('%9 = "tpu.reshape"(%2) : (vector<1x1xf32>) -> vector<1xf32>', None),  # one of two
        ("tpu.reshape", None),
        ("vector.load", "k.py:5"),
        # split by the compiler into registers: no types match, and one op of the name is there
        ('%9 = "arith.mulf"(%2, %2) : (vector<8x128xf32>, vector<8x128xf32>) -> vector<8x128xf32>', "k.py:7"),
        ("arith.addf", "k.py:7"),  # without a location, between two that agree
        ("arith.subf", None),  # and between two that do not
        ("vector.shape_cast[f32]", None),
        ("vector.load[f32]", "k.py:5"),
        ("tpu.matmul", None),
    ],
)
def test_an_op_is_found_only_if_one_line_can_be_meant(text: str, line: str | None) -> None:
    assert locator([ir.read(MODULE)])(text) == line


def test_a_line_that_the_compiler_says_is_not_looked_up() -> None:
    error = diagnose(TEXTS["reshape"], target="v6e", locate=lambda text: "elsewhere.py:1")
    assert error.location == "kernels.py:39"
    assert diagnose(TEXTS["gather_wide"], target="v6e", locate=lambda text: "k.py:1").location == "k.py:1"


# --- pieces -------------------------------------------------------------------------------------------------------


def test_types_lose_the_compilers_layouts() -> None:
    assert plain_type("memref<8x128xf32, #tpu.tiled<(8,128),[1,1]>, #tpu.memory_space<vmem, tc>>") == (
        "memref<8x128xf32, vmem>"
    )
    assert plain_type("vector<8x128xf32>") == "vector<8x128xf32>"
    text = '"tpu.vector_store"(%1, %2) <{n = 1 : i32}> : (vector<8xf32>, memref<8xf32, #tpu.memory_space<vmem>>) -> ()'
    assert signature(text) == (("vector<8xf32>", "memref<8xf32, vmem>"), ())
    assert signature("tpu.matmul") == ((), ())


def test_a_reason_is_the_first_thing_said() -> None:
    assert (
        plain_reason("INTERNAL: Mosaic failed to compile TPU kernel with MLIR module name `k` HLO name `n.1`: no")
        == "no"
    )
    assert plain_reason("INTERNAL: Mosaic failed to compile TPU kernel:\n\nSee https://a.b\nno (a/b.cc:1)") == "no"
