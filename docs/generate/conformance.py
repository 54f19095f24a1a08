"""The conformance section: what the suite's reports say, op by op and kernel by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docs.generate.site import Site, artefact, code, matrix, table
from docs.generate.zoo import made
from mosaic_tpu import sim
from mosaic_tpu.builder import registry

#: Columns of the matrix of ops, in this order.
DTYPES: Final = (
    "f32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "i32", "u32", "i16", "u16", "i8", "u8", "i4", "i1", "mixed", "none",
)  # fmt: skip


def write(site: Site) -> None:
    """Write the section."""
    reports = artefact("conformance.json")["reports"]
    site.add("conformance", "Overview", "conformance/index.md", _index(reports))
    site.add("conformance", "Ops and element types", "conformance/ops.md", _ops(reports))
    site.add("conformance", "Kernels and generations", "conformance/kernels.md", _kernels(reports))
    site.add("conformance", "Planted faults", "conformance/faults.md", _faults(reports))
    site.add("conformance", "Simulator", "conformance/simulator.md", _simulator())


def _index(reports: Mapping[str, Any]) -> str:
    rows = []
    for jax, report in reports.items():
        identical = sum(n for _, level, n in report["identity"] if level == "identical")
        all_kernels = sum(n for *_, n in report["identity"])
        pairs = report["pairs"]
        numerics = report["levels"].get("numerics", {})
        rows.append(
            (
                jax,
                f"{pairs.get('identical', 0):,} of {sum(pairs.values()):,}",
                f"{identical:,} of {all_kernels:,}",
                f"{numerics.get('within', 0):,} of {sum(numerics.values()):,}" if numerics else "not run",
                report["date"][:10],
            )
        )
    return "\n".join(
        [
            "# Conformance\n",
            "What is claimed here is tested: every idiom and kernel against Pallas, byte for byte, on the newest JAX and the "
            "oldest supported; every kernel against float64; every preset against the TPU compiler. What the levels are is "
            "said in [Levels of sameness](../concepts/levels-of-sameness.md). Nothing is normalised to make a comparison "
            "pass.\n",
            table(("JAX", "pairs identical", "kernel configs identical", "numerics within tolerance", "date"), rows),
            "\n- [Ops and element types](ops.md): which MLIR ops are compared with Pallas's, and for which types.\n"
            "- [Kernels and generations](kernels.md): what the TPU compiler accepts.\n"
            "- [Planted faults](faults.md): races and deadlocks that the simulator must find.\n"
            "- [Simulator](simulator.md): which ops its engines run.\n",
            "\nThe numbers come from the reports that `nox -s conformance` writes; `nox -s docs-artefacts` condenses them.\n",
        ]
    )  # fmt: skip


def _ops(reports: Mapping[str, Any]) -> str:
    newest, *older = reports.values()
    ops = dict.fromkeys(op for spec in registry().values() if not spec.is_idiom for op in spec.emits)
    known = sorted({*ops, *(op for report in reports.values() for op in report["ops"])})
    columns = [d for d in DTYPES if any(d in found for r in reports.values() for found in r["ops"].values())]
    parts = [
        "# Ops and element types\n",
        f"Pairs of micro-kernels, ours and Pallas's, that are the same bytes on JAX {newest['versions']['jax']} and emit "
        "the op, by the element type of their operands. `mixed` has pairs with operands of several types, `none` those "
        "without any. "
        + (
            "Where the count differs on JAX " + ", ".join(r["versions"]["jax"] for r in older) + " it follows in brackets. "
            if older
            else ""
        )
        + "The pairs themselves are the [cheat-sheet](../cheat-sheet.md).\n",
    ]
    for dialect in dict.fromkeys(op.partition(".")[0] for op in known):
        rows, without = [], []
        for op in known:
            if not op.startswith(dialect + "."):
                continue
            if any(op in report["ops"] for report in reports.values()):
                rows.append((code(op), *(_count(op, d, newest, older) for d in columns)))
            else:
                without.append(code(op))
        parts.append(f"## {dialect}\n")
        if rows:
            parts.append(matrix(("op", *columns), rows))
        if without:
            parts.append(f"In no pair, since Pallas emits them for no expression that is paired: {', '.join(without)}.\n")
    parts += [made(report, "nox -s conformance") for report in reports.values()]
    return "\n".join(parts)


def _count(op: str, dtype: str, newest: Mapping[str, Any], older: list[Mapping[str, Any]]) -> str:
    now = newest["ops"].get(op, {}).get(dtype, 0)
    others = [report["ops"].get(op, {}).get(dtype, 0) for report in older]
    shown = str(now) if now else ("0" if any(others) else "")
    differing = [str(n) for n in others if n != now]
    return f"{shown} ({', '.join(differing)})" if differing else shown


def _kernels(reports: Mapping[str, Any]) -> str:
    newest = next(iter(reports.values()))
    columns, rows = newest["columns"]["compile"], newest["rows"]["compile"]
    targets = columns[2:]
    body = [(code(row[0]), row[1], *(_word(cell) for cell in row[2:])) for row in rows]
    parts = [
        "# Kernels and generations\n",
        "Every preset of the zoo, compiled by the real TPU compiler for one chip of each generation.\n",
        matrix(("kernel", "preset", *targets), body),
        made(newest, "nox -s conformance"),
        "## Against Pallas\n",
        "Configs of each kernel that Pallas was asked for, too: element types, shapes, heads, blocks, options.\n",
    ]
    kernels = dict.fromkeys(entry[0] for report in reports.values() for entry in report["identity"])
    head = ("kernel", *(f"JAX {jax}" for jax in reports))
    counted = [
        (code(kernel), *(_identity(report["identity"], kernel) for report in reports.values())) for kernel in kernels
    ]
    parts.append(table(head, counted) + "\n")
    parts.append(
        "Of JAX before 0.12 the body holds the lines of its sources, so that no two can be the same bytes: the best "
        "level there is `stripped`.\n"
    )
    parts += [made(report, "nox -s conformance") for report in reports.values()]
    return "\n".join(parts)


def _word(cell: str | None) -> str:
    return "✓" if cell == "accepted" else str(cell or "")


def _identity(rows: list[list[Any]], kernel: str) -> str:
    return ", ".join(f"{count} {level}" for name, level, count in rows if name == kernel)


def _faults(reports: Mapping[str, Any]) -> str:
    newest = next(iter(reports.values()))
    rows = [(k, f, code(e), s) for k, f, e, s in newest["rows"]["faults: planted"]]
    return "\n".join(
        [
            "# Planted faults\n",
            "Kernels that work, with one fault planted in each. The simulator must find it in every schedule that is "
            "tried: seeds, and times at which copies happen.\n",
            table(("kernel", "fault", "found as", "schedules"), rows),
            "",
            made(newest, "nox -s conformance"),
        ]
    )


def _simulator() -> str:
    rows = [(code(r.op), "✓" if r.numpy else "", "✓" if r.xla else "", r.reason) for r in sim.coverage()]
    counts = f"{sum(r.numpy for r in sim.coverage())} run on `numpy`, {sum(bool(r.xla) for r in sim.coverage())} on `xla`"
    return "\n".join(
        [
            "# Simulator\n",
            f"What `mosaic_tpu.sim.coverage()` says: of {len(rows)} ops {counts}. `numpy` is the reference engine, which "
            "sees races; `xla` is the fast one.\n",
            table(("op", "numpy", "xla", "why not"), rows) + "\n",
        ]
    )
