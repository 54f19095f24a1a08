"""`mosaic-tpu compile`: what the real TPU compiler says."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from mosaic_tpu.cli._errors import UsageError, source_line
from mosaic_tpu.cli._input import Source, source
from mosaic_tpu.cli._kernels import value_of
from mosaic_tpu.cli._options import COMMON, Common, Limit, Settings, SourceName, Targets, targets_of
from mosaic_tpu.cli._output import REPORT, answer, code, table, verdict, working

if TYPE_CHECKING:
    from mosaic_tpu.aot import Compilation

COMPILE: Final = "mosaic-tpu/compile/1"


def compile_(
    name: SourceName,
    /,
    *,
    targets: Targets = None,
    vmem_limit_bytes: Limit = None,
    flags: Annotated[
        list[str] | None, Parameter(name="--flag", negative=(), metavar="NAME=VALUE", help="A flag of libtpu.")
    ] = None,
    timeout: Annotated[float, Parameter(help="Seconds for each target.")] = 300.0,
    cache: Annotated[bool, Parameter(help="Take answers from the disk, and keep them there.")] = True,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Compile a kernel for TPUs with the real compiler; no TPU is needed.

    For all generations if no target is given.

    Exit code 1 if one of them refuses it.
    """
    from mosaic_tpu import aot

    found = source(name, settings)
    wanted = targets_of(targets) or list(aot.TARGETS)
    with working(f"{found.name} for {', '.join(wanted)} …"):
        results = aot.compile_all(
            {found.name: found.data}, wanted, vmem_limit_bytes=vmem_limit_bytes, flags=flags_of(flags),
            timeout=timeout, cache=cache, progress=False,
        )  # fmt: skip
    compiler = f"libtpu {results[0].compiler}"
    data = {
        "source": found.name,
        "compiler": compiler,
        "targets": [_as_dict(result) for result in results],
    }
    answer(common.json, COMPILE, found.placed(data), lambda out: _print(out, found, compiler, results))
    return 0 if all(result.ok for result in results) else 1


def flags_of(given: list[str] | None) -> dict[str, Any]:
    """Flags by name.

    Raises:
        UsageError: one has no value.
    """
    flags: dict[str, Any] = {}
    for text in given or ():
        name, found, value = text.partition("=")
        if not found:
            raise UsageError(f"--flag {text} has no value", "--flag NAME=VALUE")
        flags[name.lstrip("-")] = value_of(value)
    return flags


def _as_dict(result: "Compilation") -> dict[str, Any]:
    error = result.error
    names = ("summary", "op", "location", "hint", "raw")
    return {
        "target": str(result.target),
        "accepted": result.ok,
        "seconds": result.seconds,
        "cached": result.cached,
        "error": None if error is None else {"kind": type(error).__name__, **{n: getattr(error, n) for n in names}},
    }


def _print(out: Any, found: Source, compiler: str, results: list["Compilation"]) -> None:
    rows = [
        (
            result.target,
            verdict(result.ok, "accepted" if result.ok else f"REFUSED: {type(result.error).__name__}"),
            f"{result.seconds:.2f}",
            "disk" if result.cached else compiler,
        )
        for result in results
    ]
    out.print(table(["target", "verdict", "seconds", "answer of"], rows, right=["seconds"]))
    # Generations often refuse the same for the same reason.
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.error is not None:
            text = _told(found, result.error)
            reasons.setdefault(text, []).append(str(result.target))
    for text, names in reasons.items():
        out.print()
        code(out, f"{', '.join(names)}\n{text}", REPORT)


def _told(found: Source, error: Any) -> str:
    """An error without its target, which stands above it, and with the line of source where the file is here."""
    kept: list[str] = []
    for line in found.placed(str(error)).splitlines():
        if not line.startswith("  target: "):
            kept.append(line)
        if line.startswith("  at: ") and (text := source_line(line.removeprefix("  at: "))):
            kept.append(f"      {text}")
    return f"{type(error).__name__}: " + "\n".join(kept)
