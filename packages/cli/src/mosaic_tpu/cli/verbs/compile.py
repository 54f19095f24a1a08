"""`mosaic-tpu compile`: what the real TPU compiler says."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from mosaic_tpu.cli._errors import FAILED, TIMED_OUT, UsageError, with_lines
from mosaic_tpu.cli._input import Source, source
from mosaic_tpu.cli._kernels import each_once
from mosaic_tpu.cli._notes import noted
from mosaic_tpu.cli._options import (
    COMMON,
    COMPILER,
    Common,
    Compiler,
    Settings,
    SourceName,
    Targets,
    targets_of,
)
from mosaic_tpu.cli._output import answer, report, table, verdict, working

if TYPE_CHECKING:
    from mosaic_tpu.aot import Compilation

COMPILE: Final = "mosaic-tpu/compile/1"
_WORDS: Final = {
    "accepted": "accepted", "refused": "REFUSED: {}", "timed-out": "TIMED OUT", "no-answer": "NO ANSWER: {}",
}  # fmt: skip


def compile_(
    name: SourceName,
    /,
    *,
    targets: Targets = None,
    flags: Annotated[
        list[str] | None, Parameter(name="--flag", negative=(), metavar="NAME=VALUE", help="A flag of libtpu.")
    ] = None,
    compiler: Compiler = COMPILER,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Compile a kernel for TPUs with the real compiler; no TPU is needed.

    For all generations if no target is given.

    Exit code 1 if one of them refuses it, 124 if the compiler was too slow.
    """
    from mosaic_tpu import aot
    from mosaic_tpu.aot.errors import FlagError, OptionError

    given = flags_of(flags)
    found = source(name, settings)
    wanted = targets_of(targets) or list(aot.TARGETS)
    try:
        with noted(), found.named(), working(f"{found.name} for {', '.join(wanted)}"):
            results = aot.compile_all({found.name: found.data}, wanted, flags=given, progress=False, **vars(compiler))
    except OptionError as error:  # of the flags: all else has its limits in the command line
        raise UsageError(f"--flag: {error.summary}", f"--flag xla_tpu_…=VALUE: {error.hint}") from None
    for result in results:
        if isinstance(result.error, FlagError):  # no word on the kernel
            raise result.error
    libtpu = f"libtpu {results[0].compiler}"
    data = {
        "source": found.name,
        "compiler": libtpu,
        "targets": [_as_dict(result) for result in results],
    }
    answer(common.json, COMPILE, found.placed(data), lambda out: _print(out, found, libtpu, results))
    words = {_verdict(result) for result in results}
    return 0 if words == {"accepted"} else TIMED_OUT if words <= {"accepted", "timed-out"} else FAILED


def flags_of(given: list[str] | None) -> dict[str, Any]:
    """Flags by name.

    Raises:
        UsageError: one has no name or no value, or is given twice.
    """
    return each_once("--flag", [text.lstrip("-") for text in given or ()], "xla_tpu_…=VALUE")


def _verdict(result: "Compilation") -> str:
    """What became of it: a refusal is what the compiler says of the kernel, and no other end."""
    if result.error is None:
        return "accepted"
    if isinstance(result.error, TimeoutError):
        return "timed-out"
    return "no-answer" if result.error.transient else "refused"


def _as_dict(result: "Compilation") -> dict[str, Any]:
    error = result.error
    names = ("summary", "op", "location", "hint", "raw")
    return {
        "target": str(result.target),
        "accepted": result.ok,
        "verdict": _verdict(result),
        "seconds": result.seconds,
        "cached": result.cached,
        "error": None if error is None else {"kind": type(error).__name__, **{n: getattr(error, n) for n in names}},
    }


def _print(out: Any, found: Source, compiler: str, results: list["Compilation"]) -> None:
    rows = [
        (
            result.target,
            verdict(result.ok, _WORDS[_verdict(result)].format(type(result.error).__name__)),
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
        report(out, f"{', '.join(names)}\n{text}")


def _told(found: Source, error: Any) -> str:
    """An error without its target, which stands above it, and with the line of source where the file is here."""
    kept = [line for line in found.placed(str(error)).splitlines() if not line.startswith("  target: ")]
    return f"{type(error).__name__}: " + with_lines("\n".join(kept))
