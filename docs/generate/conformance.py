"""The conformance section: what the suite's reports say, op by op and kernel by kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from docs.generate.site import Site, artefact, code, matrix, prose, provenance, table
from mosaic_tpu import sim
from mosaic_tpu.builder import registry

type Report = Mapping[str, Any]

#: Columns of the matrix of ops, in this order.
DTYPES: Final = (
    "f32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "i32", "u32", "i16", "u16", "i8", "u8", "i4", "i1", "mixed", "none",
)  # fmt: skip
COMMAND: Final = "nox -s conformance"
#: What kernels of the suite are called here, where its own name for them says nothing to a reader.
_CALLED: Final = {"gated_delta_net, seed's form": "gated_delta_net, a token at a time"}


def write(site: Site) -> None:
    """Fill the section's pages, whose words are written by hand. The newest JAX comes first."""
    reports: Mapping[str, Report] = artefact("conformance.json")
    newest = next(iter(reports.values()))
    sources = "\n\n".join(provenance(report, COMMAND) for report in reports.values())
    site.fill("conformance/index.md", reports=_index(reports))
    site.fill("conformance/ops.md", ops=f"{_ops(list(reports.values()))}\n\n{sources}")
    compiled = f"{_compiled(newest)}\n\n{provenance(newest, COMMAND)}"
    site.fill("conformance/kernels.md", compile=compiled, identity=f"{_identity(reports)}\n\n{sources}")
    site.fill("conformance/faults.md", faults=f"{_faults(newest)}\n\n{provenance(newest, COMMAND)}")
    site.fill("conformance/simulator.md", coverage=_coverage())
    for title, page in (
        ("Overview", "index"),
        ("Ops and element types", "ops"),
        ("Kernels and generations", "kernels"),
        ("Planted faults", "faults"),
        ("Simulator", "simulator"),
    ):
        site.link("conformance", title, f"conformance/{page}.md")


def _index(reports: Mapping[str, Report]) -> str:
    rows = []
    for jax, report in reports.items():
        kernels: Counter[str] = Counter()
        for _, level, count in report["identity"]:
            kernels[level] += count
        numerics = report["levels"].get("numerics", {})
        within = f"{numerics.get('within', 0):,} of {sum(numerics.values()):,}" if numerics else "not run"
        rows.append((jax, _levels(report["pairs"]), _levels(kernels), within, report["date"][:10]))
    return table(("JAX", "pairs of micro-kernels", "configs of kernels", "numerics within tolerance", "date"), rows)


def _levels(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {level}" for level, count in counts.items())


def _ops(reports: list[Report]) -> str:
    of_registry = (op for spec in registry().values() if not spec.is_idiom for op in spec.emits)
    compared = dict.fromkeys(op for report in reports for op in report["ops"])
    ops = sorted({*of_registry, *compared})
    dialects = list(dict.fromkeys(op.partition(".")[0] for op in ops))
    parts = [", ".join(f"[{dialect}](#{dialect})" for dialect in dialects) + "\n"]
    for dialect in dialects:
        own = [op for op in ops if op.startswith(dialect + ".")]
        columns = [d for d in DTYPES if any(d in report["ops"].get(op, {}) for report in reports for op in own)]
        rows = [(code(op), *(_count(op, d, reports) for d in columns)) for op in own if op in compared]
        without = ", ".join(code(op) for op in own if op not in compared)
        parts.append(f"## {dialect}\n")
        if rows:
            parts.append(matrix(("op", *columns), rows))
        if without:
            parts.append(f"In no pair, since Pallas emits them for no expression that is paired: {without}.\n")
    return "\n".join(parts)


def _count(op: str, dtype: str, reports: list[Report]) -> str:
    newest, *older = (report["ops"].get(op, {}).get(dtype, 0) for report in reports)
    differing = [str(count) for count in older if count != newest]
    shown = str(newest) if newest or differing else ""
    return f"{shown} ({', '.join(differing)})" if differing else shown


def _compiled(report: Report) -> str:
    targets = report["columns"]["compile"][2:]
    rows = [(code(row[0]), row[1], *(_verdict(cell) for cell in row[2:])) for row in report["rows"]["compile"]]
    return matrix(("kernel", "preset", *targets), rows)


def _verdict(cell: str | None) -> str:
    return "✓" if cell == "accepted" else prose(cell or "")


def _identity(reports: Mapping[str, Report]) -> str:
    kernels = dict.fromkeys(entry[0] for report in reports.values() for entry in report["identity"])
    rows = [
        (code(_CALLED.get(kernel, kernel)), *(_levels(_counted(report, kernel)) for report in reports.values()))
        for kernel in kernels
    ]
    return table(("kernel", *(f"JAX {jax}" for jax in reports)), rows)


def _counted(report: Report, kernel: str) -> dict[str, int]:
    return {level: count for name, level, count in report["identity"] if name == kernel}


def _faults(report: Report) -> str:
    rows = [
        (prose(kernel), prose(fault), code(error), found)
        for kernel, fault, error, found in report["rows"]["faults: planted"]
    ]
    return table(("kernel", "fault", "found as", "schedules"), rows)


def _coverage() -> str:
    found = sim.coverage()
    rows = [(code(r.op), "✓" if r.numpy else "", "✓" if r.xla else "", prose(r.reason or "")) for r in found]
    runs = (
        f"Of {len(rows)} ops {sum(r.numpy for r in found)} run on `numpy`, {sum(bool(r.xla) for r in found)} on `xla`."
    )
    return f"{runs}\n\n{table(('op', 'numpy', 'xla', 'why not'), rows)}"
