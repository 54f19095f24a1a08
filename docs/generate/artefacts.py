"""``python -m docs.generate.artefacts``: what takes minutes to find out, kept with date and versions.

Schedules and rooflines come from the TPU compiler here and now. Conformance and numerics come from the reports that
`nox -s conformance` left in ``.conformance``, which must have all that the tree has. All of it is in
``docs/artefacts``, with marks by which the tests see that it is of another tree.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

from conformance import cheat_sheet
from conformance.cases.kernels import CASES
from conformance.faults.table import FAULTS
from conformance.harness.report import OUTCOME, versions
from conformance.harness.targets import REQUIRED
from conformance.numerics.table import CASES as NUMERICS
from docs.generate.site import ARTEFACTS, ROOT, SCHEMA, artefact
from mosaic_tpu import aot, zoo

#: What a run of the whole suite leaves; the newest JAX first.
REPORTS: Final = (".conformance/report.json", ".conformance/report-oldest-jax.json")
ZOO: Final = ARTEFACTS / "zoo.json"
CONFORMANCE: Final = ARTEFACTS / "conformance.json"
#: Levels at which bytes are equal: before JAX 0.12 a body holds the lines of its sources, which are stripped first.
SAME: Final = ("identical", "stripped")
#: Tables that are kept row by row, with these columns.
_KEPT: Final = {
    "compile": ("kernel", "config", *aot.TARGETS),
    "numerics": ("kernel", "config", "engine", "level", "share_of_tolerance"),
    "faults: planted": ("kernel", "fault", "error", "schedules"),
}
#: Tables that the site shows, with the columns that name a row.
_NAMES: Final = {
    "cheat-sheet": ("pair",),
    "identity": ("kernel", "config"),
    "compile": ("kernel", "config"),
    "numerics": ("kernel", "config", "engine"),
    "faults: planted": ("kernel", "fault"),
}


# --- batches, for kernels whose trip counts depend on data -----------------------------------------------------------


def _prompt_and_decode(cfg: Any) -> tuple[str, tuple[Any, ...]]:
    """A prompt that takes what the other sequences leave, and those in decode."""
    sequences = cfg.max_num_seqs
    queries = np.array([cfg.num_tokens - sequences + 1, *[1] * (sequences - 1)], np.int32)
    longest = cfg.pages_per_seq * cfg.page_size
    kv_lens = np.maximum(queries, np.linspace(longest // 4, longest, sequences).astype(np.int32)).astype(np.int32)
    kv_lens[0] = queries[0]
    tables = np.arange(sequences * cfg.pages_per_seq, dtype=np.int32).reshape(sequences, -1) % cfg.num_pages
    starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
    said = f"a prompt of {queries[0]} tokens, and {sequences - 1} sequences in decode with up to {longest} tokens"
    return said, (kv_lens, tables, starts, np.zeros(2, np.int32), np.array([sequences], np.int32))


def _two_sequences(cfg: Any) -> tuple[str, tuple[Any, ...]]:
    """Sequences that share the tokens unevenly."""
    first = cfg.tokens * 2 // 5
    starts = np.array([0, first, *[cfg.tokens] * (cfg.sequences - 1)], np.int32)
    return f"sequences of {first} and {cfg.tokens - first} tokens", (starts,)


#: What a batch is, and the scalars that hold it, from the config.
BATCHES: Final[Mapping[str, Callable[[Any], tuple[str, tuple[Any, ...]]]]] = {
    "ragged_paged_attention": _prompt_and_decode,
    "gated_delta_net": _two_sequences,
}


# --- the zoo ---------------------------------------------------------------------------------------------------------


def zoo_artefacts(names: Iterable[str]) -> None:
    """Schedule and roofline of the default config of each kernel, on each generation."""
    names = list(names)
    others = zoo.KERNELS.keys() - names
    kept = artefact(ZOO.name) if others and ZOO.exists() else {}
    kept = {name: found for name, found in kept.items() if name in zoo.KERNELS}
    for name in names:
        targets = {target: _of_target(name, target) for target in REQUIRED}
        kept[name] = {"made": _provenance(), "preset": "default", "body": body_of(name), "targets": targets}
    ordered = {name: kept[name] for name in zoo.KERNELS if name in kept}
    _write(ZOO, {"schema": SCHEMA, "kernels": ordered})
    kinds = ("schedule", "roofline")
    used = {f"{name}-{target}-{kind}.svg" for name in ordered for target in REQUIRED for kind in kinds}
    for file in sorted((ARTEFACTS / "zoo").glob("*.svg")):
        if file.name not in used:
            file.unlink()


def body_of(name: str) -> str:
    """The mark of what was compiled: the hash of the default config's body."""
    info = zoo.KERNELS[name]
    return hashlib.sha256(info.kernel.lower(info.default).body).hexdigest()


def _of_target(name: str, target: str) -> dict[str, Any]:
    info = zoo.KERNELS[name]
    print(f"{name} for {target}", file=sys.stderr, flush=True)
    lowered = info.kernel.lower(info.default)
    batch, scalars = BATCHES[name](info.default) if name in BATCHES else ("", None)
    if reason := info.refusals.get(target):
        return {"refused": reason}
    schedule = aot.compile(lowered, target, schedule=True).schedule
    _write_svg(f"{name}-{target}-schedule.svg", schedule.svg())
    found: dict[str, Any] = {
        "bundles": schedule.bundles,
        "vmem_bytes": schedule.vmem_bytes,
        "spills": schedule.registers.spills,
        "slots": {slot.kind: _share(slot.used, slot.capacity * schedule.bundles) for slot in schedule.slots},
        "batch": batch,
        "cycles": schedule.estimate.cycles if schedule.estimate.trustworthy else None,
        "by": "the compiler's own" if schedule.estimate.trustworthy else "",
        "why": schedule.estimate.why,
    }
    if found["cycles"] is None and scalars is not None:
        found["cycles"] = round(aot.specialize(lowered, target, scalars=scalars).cycles)
        found["by"] = f"a clock with the compiler's latencies that follows the simulated run, for {batch}"
    try:
        roofline = aot.roofline(lowered, target, scalars=scalars, cycles=found["cycles"])
    except aot.AotError as error:
        found["no_roofline"] = error.summary
    else:
        found["roofline"] = {k: v for k, v in roofline.to_json().items() if k not in ("schema", "kernel", "target")}
        if roofline.work.total_flops:
            _write_svg(f"{name}-{target}-roofline.svg", roofline.svg())
    return found


def _share(used: int, capacity: int) -> float:
    return round(used / capacity, 4) if capacity else 0.0


def _write_svg(name: str, text: str) -> None:
    file = ARTEFACTS / "zoo" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(smaller(text), encoding="utf-8")


def smaller(svg: str) -> str:
    """The same picture: outlines in whole pixels, and one step where several have the same height."""

    def outline(found: re.Match[str]) -> str:
        path = re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.0f}", found[1])
        before = ""
        while before != path:
            before, path = path, re.sub(r"V(\d+)H\d+V\1H", r"V\1H", path)
        return f' d="{path}"'

    return re.sub(r' d="([^"]*)"', outline, svg)


# --- conformance -----------------------------------------------------------------------------------------------------


def conformance_artefacts() -> None:
    """What the reports of `nox -s conformance` say, an entry a version of JAX."""
    kept: dict[str, Any] = {}
    for name in REPORTS:
        file = ROOT / name
        if not file.exists():
            raise SystemExit(f"{name} is not there: run `nox -s conformance` first.")
        report = json.loads(file.read_text(encoding="utf-8"))
        jax = report["versions"]["jax"]
        kept[jax] = _condensed(report)
        if wrong := stale(jax, kept[jax]):
            raise SystemExit(f"{name} is not of all that the tree has: {'; '.join(wrong)}. Run `nox -s conformance`.")
    _write(CONFORMANCE, {"schema": SCHEMA, "reports": kept})


def stale(jax: str, kept: Mapping[str, Any]) -> list[str]:
    """Where a condensed report is not of this tree, a clause each; nothing where it is."""
    found = cheat_sheet.load()
    if jax not in found:
        return [f"JAX {jax} is none of those of the cheat-sheet, {', '.join(found)}"]
    expected = {"cheat-sheet": [*found[jax]], "identity": [case.id for case in CASES]}
    if jax == list(found)[-1]:  # what the site shows of the newest alone
        expected |= {
            "compile": [f"{info.name}-{preset}" for info in zoo.KERNELS.values() for preset in info.presets],
            "numerics": [f"{case.id}-{engine}" for case in NUMERICS for engine in case.engines],
            "faults: planted": [fault.id for fault in FAULTS],
        }
    has = kept.get("has", {})
    return [
        f"{table} has {has.get(table, [0])[0]:,} rows, which are not the {len(names):,} of this tree"
        for table, names in expected.items()
        if has.get(table) != _mark(names)
    ]


def _mark(names: Iterable[str]) -> list[Any]:
    """How many, and the hash of their names."""
    ordered = sorted(names)
    return [len(ordered), hashlib.sha256("\n".join(ordered).encode()).hexdigest()[:16]]


def _condensed(report: Mapping[str, Any]) -> dict[str, Any]:
    tables = report["tables"]
    emits = cheat_sheet.load().get(report["versions"]["jax"], {})
    ops: dict[str, Counter[str]] = {}
    pairs = tables.get("cheat-sheet", ())
    for pair in pairs:
        if pair["level"] in SAME and pair["pair"] in emits:
            dtype = pair["dtype"] if " " not in pair["dtype"] else "mixed"
            for op in emits[pair["pair"]][0]:
                ops.setdefault(op, Counter())[dtype or "none"] += 1
    identity = Counter((row["kernel"], row["level"]) for row in tables.get("identity", ()))
    kept = {
        name: [[_rounded(row.get(column)) for column in columns] for row in tables[name]]
        for name, columns in _KEPT.items()
        if name in tables
    }
    return {
        "date": report["date"],
        "versions": report["versions"],
        "has": {name: _mark("-".join(row[column] for column in columns) for row in tables[name])
                for name, columns in _NAMES.items() if name in tables},
        "pairs": dict(Counter(pair["level"] for pair in pairs)),
        "ops": {op: dict(sorted(found.items())) for op, found in sorted(ops.items())},
        "identity": [[*key, count] for key, count in sorted(identity.items())],
        "columns": {name: list(columns) for name, columns in _KEPT.items() if name in tables},
        "rows": {name: sorted(rows, key=str) for name, rows in kept.items()},
        "levels": {name: dict(Counter(r[OUTCOME] for r in rows)) for name, rows in sorted(tables.items())
                   if rows and all(OUTCOME in r for r in rows)},
    }  # fmt: skip


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


# --- the command -----------------------------------------------------------------------------------------------------


def _provenance() -> dict[str, Any]:
    return {"date": datetime.now(UTC).date().isoformat(), "versions": versions()}


def _write(file: Any, content: Mapping[str, Any]) -> None:
    """JSON with short lists on one line, so that a diff shows which entry changed."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\n\s+([^\[\]{}]*?)\n\s+\]", lambda m: "[" + re.sub(r",\n\s+", ", ", m[1]) + "]", text)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Make the artefacts of the named kernels; of all, and condense the conformance reports, where none is named."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.artefacts", description=__doc__)
    parser.add_argument("kernels", nargs="*", help=f"of {', '.join(zoo.KERNELS)}; leaves the reports as they are")
    parser.add_argument("--only-conformance", action="store_true", help="leave schedules and rooflines as they are")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.kernels if name not in zoo.KERNELS]:
        parser.error(f"no kernel {unknown[0]!r} in the zoo: {', '.join(zoo.KERNELS)}")
    if not options.kernels:
        conformance_artefacts()
    if not options.only_conformance:
        if aot.compiler_version() is None:
            raise SystemExit("The TPU compiler is not installed: it needs Linux on x86-64.")
        zoo_artefacts(options.kernels or zoo.KERNELS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
