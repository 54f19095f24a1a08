"""The cheat-sheet, docs/cheat-sheet.md, from the pairs: ``python -m conformance.cheat_sheet`` writes it.

A row stands for pairs of kernels that `test_cheat_sheet` compares byte for byte; what they emit and for which element
types is read off our kernels, once on each JAX. The page is made of what was found on all of them.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jax
from jax.experimental import pallas as pl

from conformance.cases.cheat_sheet import PAIRS
from conformance.cases.cheat_sheet.pairs import Pair
from conformance.cases.cheat_sheet.zig import GUIDE
from conformance.harness import pallas
from mosaic_tpu.builder import OpSpec, registry
from mosaic_tpu.sim import ir

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "cheat-sheet.md"
FOUND: Final = Path(__file__).parent / "cases" / "cheat_sheet" / "found"
#: What every kernel has.
_PLUMBING: Final = ("func.func", "func.return", "arith.constant", "scf.yield")
#: And what loads the operands of an expression, and stores its value.
_AROUND: Final = ("vector.load", "tpu.vector_store", "memref.load")

type Found = dict[str, tuple[list[str], str]]


@dataclass(frozen=True)
class Row:
    """One idea: the same in Pallas and with the builder, in one form or several.

    Attributes:
        topic: of the table it stands in.
        forms: Pallas's Python and ours.
        emits: MLIR ops, in the order of the kernel.
        dtypes: of the operands.
        versions: of JAX.
    """

    topic: str
    forms: tuple[tuple[str, str], ...]
    emits: tuple[str, ...]
    dtypes: tuple[str, ...]
    versions: tuple[str, ...]


# --- what the pairs emit -------------------------------------------------------------------------------------------


def lower(pair: Pair, arrays: Sequence[Any]) -> pallas.PallasCall:
    """Our kernel of a pair, lowered."""
    return pallas.lower(pair.our_call(), *arrays, tpu_version=pair.tpu_version)


def lower_both(pair: Pair) -> tuple[pallas.PallasCall, pallas.PallasCall]:
    """Both kernels of a pair, lowered: ours and Pallas's."""
    call, arrays = pair.pallas_call()
    with pl.enable_debug_checks(pair.debug_checks):
        theirs = pallas.lower(call, *arrays, tpu_version=pair.tpu_version)
    ours = lower(pair, arrays)
    if any(arg.is_key for arg in pair.args.values()):  # JAX makes numbers of a key outside of the call
        return ours.by_types(), theirs.by_types()
    return ours, theirs


def emitted(pair: Pair, lowered: pallas.PallasCall) -> list[str]:
    """The ops of our kernel of a pair, without those that every kernel has."""
    names = dict.fromkeys(op.name for op in ir.read(lowered.body).kernel.operation.walk())
    around = (*_PLUMBING, *(_AROUND if pair.loaded else ()))
    return [name for name in names if name not in around] or [name for name in names if name in _AROUND]


def file_of(version: str) -> Path:
    """Where what was found on a JAX is kept."""
    return FOUND / f"{version}.json"


def load() -> dict[str, Found]:
    """What was found, by version of JAX, the oldest first."""
    files = sorted(FOUND.glob("*.json"), key=lambda f: tuple(map(int, f.stem.split("."))))
    return {file.stem: {k: (v[0], v[1]) for k, v in json.loads(file.read_text()).items()} for file in files}


def text_of(found: Found) -> str:
    """As the file has it: a pair a line."""
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n"


# --- rows ----------------------------------------------------------------------------------------------------------


def rows(pairs: Iterable[Pair], found: dict[str, Found]) -> list[Row]:
    """Pairs that use the same idioms and emit the same ops are one row; what takes several lines is one of its own."""
    groups: dict[Any, list[Pair]] = {}
    for pair in pairs:
        versions = tuple(version for version, known in found.items() if pair.id in known)
        if not versions:
            continue
        emits = tuple(found[versions[-1]][pair.id][0])
        lines = (pair.pallas_text, pair.ours_text) if "\n" in pair.pallas_text + pair.ours_text else pair.idioms
        groups.setdefault((pair.topic, lines, emits, versions), []).append(pair)
    return [
        Row(
            topic,
            tuple(dict.fromkeys((p.pallas_text, p.ours_text) for p in group)),
            emits,
            tuple(dict.fromkeys(p.dtype for p in group)),
            versions,
        )
        for (topic, _, emits, versions), group in groups.items()
    ]


# --- the page ------------------------------------------------------------------------------------------------------

_HEAD: Final = """# Cheat-sheet

Pallas on the left, this project on the right. Each row is a test: both kernels are lowered, and their Mosaic modules
are the same bytes{versions}. Before JAX 0.12 a module holds the places in the sources, which are
left out on both sides. `nox -s cheat-sheet` makes this page, and a row whose test fails cannot be on it.

In expressions `x`, `y` are vectors, `s`, `t` scalars; elsewhere they are refs, and `b` is the builder.
"""
#: Topics in the order of the page, what is asked for most first: a title, and what is in it.
_TOPICS: Final = {
    "refs": ("Refs", "Loads and stores of whole refs, slices and strides; views; bitcasts."),
    "booleans": ("Refs of booleans", "i32 in memory: compared with 0 after a load, extended before a store."),
    "elementwise": ("Elementwise", "Operators, comparisons, casts and selections, over element types."),
    "math": ("Math", "Functions of jnp and lax: exponentials, roots, rounding, bits, logic."),
    "activations": ("Activations", "jax.nn: relu, gelu, silu, softmax and their like."),
    "shapes": ("Shapes", "Broadcasts, reshapes, new dimensions, iotas and fills."),
    "reductions": ("Reductions", "Sums, extremes, means, positions of extremes, any and all."),
    "dot": ("Dot", "Products on the MXU: dimension numbers, element types, precisions."),
    "einsum": ("Einsum", "`jnp.einsum`, and products over any dimensions."),
    "control": ("Control", "`pl.when`, `lax.cond`, loops, `pl.run_scoped`."),
    "loops": ("Loops", "`lax.switch`, `pl.loop`, carries, loops within loops."),
    "dma": ("DMA", "Copies between memories and devices, semaphores, barriers."),
    "pipelines": ("Pipelines", "`pltpu.emit_pipeline`."),
    "windows": ("Windows", "Grids, block shapes, index maps, pipeline modes: the same body on both sides."),
    "movement": ("Movement", "Transposes, joins, splits, rotations, padding, gathers."),
    "fills": ("Fills", "Vectors of one number, and positions."),
    "arrangement": ("Arrangement", "Stacks, uneven parts, differences, grids of positions."),
    "averages": ("Averages", "Norms, weighted means, variances, traces, reductions past NaN."),
    "functions": ("Functions", "Functions made of several ops: lengths, closeness, `x log y`."),
    "promotion": ("Promotion", "Operands of two element types: what jnp converts, and where."),
    "numeric": ("Numeric", "Number formats, stochastic rounding, products in twice the width; op by op."),
    "random": ("Random", "Random numbers of the core's generator."),
    "keys": ("Keys", "Keys of the TPU's generator, and what is drawn with them."),
    "mxu": ("MXU", "Convolutions, and the MXUs by hand."),
    "debug": ("Debug", "Prints, named scopes, traced values, delays."),
    "reports": ("Reports", "Prints, traces, checks and promises to the compiler, op by op."),
    "guide": ("Op by op", "The cheat-sheet of ZML's Zig DSL in raw ops, each a method of the builder."),
}
_GUIDE_HEAD: Final = """
## Zig

The cheat-sheet of ZML's guide to its Zig DSL, row by row. Where a row is written with this project's raw ops, both ways
are byte for byte Pallas's.

| Pallas | Zig | here |
| --- | --- | --- |"""
_OPS_HEAD: Final = """
## Every op

Each op of a dialect is a method of the builder. Beside it stands its name in ZML's Zig DSL (`k.…`, `b.…`), or the
expression of Pallas, or the op of MLIR, that it stands for.

| here | stands for | emits |
| --- | --- | --- |"""


def page(pairs: Sequence[Pair], found: dict[str, Found]) -> str:
    """The whole page."""
    versions = tuple(found)
    said = f", on JAX {' and '.join(versions)} unless the row says otherwise" if versions else ""
    lines = [_HEAD.format(versions=said)]
    made = rows(pairs, found)
    for topic in sorted({row.topic for row in made}, key=list(_TOPICS).index):
        title, about = _TOPICS[topic]
        lines += [
            f"\n## {title}\n",
            f"{about}\n",
            "| Pallas | here | emits | element types |",
            "| --- | --- | --- | --- |",
        ]
        lines += [_line(row, versions) for row in made if row.topic == topic]
    lines.append(_GUIDE_HEAD)
    lines += [f"| {_code(python)} | {_code(zig)} | {_code(_ours_of(python, pairs))} |" for python, zig in GUIDE.items()]
    lines.append(_OPS_HEAD)
    lines += [
        f"| {_code(_call(spec))} | {_code(_said(spec))} | {_names(spec.emits)} |"
        for spec in registry().values()
        if not spec.is_idiom
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row, versions: tuple[str, ...]) -> str:
    left, right = ("<br>".join(map(_code, side)) for side in zip(*row.forms, strict=True))
    only = "" if row.versions == versions else f" (JAX {', '.join(row.versions)})"
    return f"| {left} | {right} | {_names(row.emits)} | {', '.join(row.dtypes)}{only} |"


def _code(text: str) -> str:
    """Python in a cell: one line in backquotes, several as they stand."""
    if "\n" in text:
        return "<pre>" + html.escape(text, quote=False).replace("|", "&#124;").replace("\n", "<br>") + "</pre>"
    return f"`{text}`".replace("|", "\\|") if text else ""


def _names(ops: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in ops)


def is_zig(spec: OpSpec) -> bool:
    """Whether an op's source is a spelling of ZML's Zig DSL, and not an expression of Pallas or an op of MLIR."""
    return not spec.is_idiom and re.match(r"[bkv]\.", spec.source) is not None


def _call(spec: OpSpec) -> str:
    return f"b.{spec.name}"


def _said(spec: OpSpec) -> str:
    """What an op is called elsewhere: in Zig, where nothing else is given."""
    return spec.source or "k." + re.sub(r"_(\w)", lambda m: m[1].upper(), spec.name)


def _ours_of(python: str, pairs: Iterable[Pair]) -> str:
    """How the first pair of a row of the guide writes it."""
    return next((pair.ours_text for pair in pairs if pair.row == python), "")


# --- the command ---------------------------------------------------------------------------------------------------


def main() -> None:
    """Write what the pairs emit on this JAX; on the newest one the page, too."""
    file = file_of(jax.__version__)
    file.parent.mkdir(exist_ok=True)
    _write(file, text_of(_found(PAIRS)))
    known = load()
    if jax.__version__ == list(known)[-1]:
        PAGE.parent.mkdir(exist_ok=True)
        _write(PAGE, page(PAIRS, known))


def _write(path: Path, text: str) -> None:
    same = path.exists() and path.read_text(encoding="utf-8") == text
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)} is {'as it was' if same else 'written'}")


def _found(pairs: Sequence[Pair]) -> Found:
    """What each pair emits, and its element types."""
    found: Found = {}
    for number, pair in enumerate(pairs):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number}/{len(pairs)} {pair.id}", end="", file=sys.stderr, flush=True)
        found[pair.id] = (emitted(pair, lower(pair, pair.pallas_call()[1])), pair.dtype)
    return found


if __name__ == "__main__":
    main()
