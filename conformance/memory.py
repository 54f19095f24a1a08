"""`nox -s measure -- memory`: does the command line know how much memory a simulation takes?

Every kernel of the zoo at two sizes, and a module whose arrays are in VMEM as a whole; simulated, and run beside the
reference, on both engines, each in a process of its own. Its peak, less that of the same command on small arrays, must
be within what `mosaic_tpu.cli` foresees, which refuses by that what would take much. The exit code is 1 if one is not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.harness.report import to_table
from mosaic_tpu.cli._arrays import arrays_of, foreseen, foreseen_with_reference
from mosaic_tpu.cli._kernels import chosen

ENGINES: Final = ("numpy", "xla")
#: By kernel: a small config; then larger ones, which inputs or outputs may fill most of.
SIZES: Final[dict[str, Sequence[Sequence[str]]]] = {
    "matmul": (
        ("m=512", "n=512", "k=512"),
        ("m=2048", "n=4096", "k=2048", "x_dtype=f32", "y_dtype=f32", "out_dtype=f32"),
        ("m=4096", "n=8192", "k=512"),
    ),
    "ragged_paged_attention": (
        (),
        ("num_pages=1024", "num_kv_heads=8", "num_q_heads=32"),
        ("num_tokens=4096", "num_pages=128", "num_kv_heads=8", "num_q_heads=64"),
    ),
    "gated_delta_net": (
        (),
        ("sequences=64", "tokens=128", "key_heads=8", "value_heads=16", "block_heads=8"),
        ("sequences=2", "tokens=2048", "key_heads=16", "value_heads=16", "block_heads=16"),
    ),
}
#: Doubles an array that is in VMEM as a whole; of N rows.
_DOUBLE: Final = """
func.func @double(%x: memref<Nx128xf32, #tpu.memory_space<vmem>>, %y: memref<Nx128xf32, #tpu.memory_space<vmem>>)
    attributes {tpu.core_type = #tpu.core_type<tc>} {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<Nx128xf32, #tpu.memory_space<vmem>>, vector<Nx128xf32>
  %1 = arith.addf %0, %0 : vector<Nx128xf32>
  vector.store %1, %y[%c0, %c0] : memref<Nx128xf32, #tpu.memory_space<vmem>>, vector<Nx128xf32>
  return
}
"""
#: The command, and then on stderr the most memory that it held.
_WATCHED: Final = """
import pathlib, runpy, sys
try:
    runpy.run_module("mosaic_tpu.cli", run_name="__main__", alter_sys=True)
finally:
    print(pathlib.Path("/proc/self/status").read_text(), file=sys.stderr)
"""
_STATUS: Final = Path("/proc/self/status")
_ROWS: Final = (8, 1 << 16, 1 << 17)


def peak(line: Sequence[str]) -> int:
    """Bytes that the command takes at the most.

    Linux only, by what it says of the process itself: `os.wait4` and `resource` count what the one that started it
    held, too.

    Raises:
        OSError: this is no Linux.
        AssertionError: the command failed.
    """
    if not _STATUS.exists():
        raise OSError(f"Linux only: {_STATUS} is not here, which says how much memory was held; run it in a container")
    found = subprocess.run(
        [sys.executable, "-c", _WATCHED, *line],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = found.stderr.rpartition("VmHWM:")[2].split()
    if found.returncode or not said:
        raise AssertionError(f"{' '.join(line)}: exit code {found.returncode}\n{found.stderr}")
    return int(said[0]) * 1024


def commands(folder: Path) -> Iterator[tuple[str, list[tuple[list[str], float]]]]:
    """What is run, with the bytes foreseen: the small one first."""
    for name, sizes in SIZES.items():
        for verb, foresee in ((["simulate"], foreseen), (["zoo", "run"], foreseen_with_reference)):
            found: list[tuple[list[str], float]] = []
            for changes in sizes:
                kernel = chosen(name, list(changes))
                need = foresee(*arrays_of(kernel.info.kernel, kernel.config))
                found.append(([*verb, name, *(w for change in changes for w in ("--set", change))], need))
            yield f"{verb[-1]} {name}", found
    double: list[tuple[list[str], float]] = []
    for rows in _ROWS:
        file = folder / f"{rows}.mlir"
        file.write_text(_DOUBLE.replace("Nx128", f"{rows}x128"), encoding="utf-8")
        one: list[Any] = [((rows, 128), "float32")]
        double.append((["simulate", str(file)], foreseen(one, one)))
    yield "simulate a module", double


def main() -> int:
    """Run, compare, print."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, found in commands(Path(folder)):
            for engine in ENGINES:
                base, *peaks = (peak([*line, "--engine", engine, "--large"]) for line, _ in found)
                for (line, need), most in zip(found[1:], peaks, strict=True):
                    config = " ".join(word for word in line if "=" in word) or f"{Path(line[-1]).stem} rows"
                    rows.append({"command": name, "engine": engine, "config": config,
                                 "MB": round((most - base) / 1e6), "foreseen": round(need / 1e6),
                                 "share": f"{(most - base) / need:.0%}", "beyond": most - base > need})  # fmt: skip
    beyond = sum(row.pop("beyond") for row in rows)
    print(to_table(rows))
    print(f"{'MISSED' if beyond else 'met'}: {beyond} beyond what is foreseen")
    return int(beyond > 0)


if __name__ == "__main__":
    sys.exit(main())
