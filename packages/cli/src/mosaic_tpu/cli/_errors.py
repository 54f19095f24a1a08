"""From an exception to what the user reads, and to an exit code."""

from __future__ import annotations

import errno
import linecache
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from mosaic_tpu.cli._hints import for_shell

SCHEMA: Final = "mosaic-tpu/error/1"
FAILED: Final = 1
USAGE: Final = 2
#: EX_SOFTWARE of sysexits.h.
FAULT: Final = 70
#: As `timeout` of GNU has it.
TIMED_OUT: Final = 124
#: As shells have it: 128 and the number of the signal.
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
#: When the command ends with each.
EXIT_CODES: Final = {
    0: "All is well.",
    FAILED: "A check failed: a hazard, a refusal, a difference. Or an input is refused.",
    USAGE: "The command was used wrongly. The message ends with what to type instead.",
    FAULT: "A fault of ours. --debug shows its traceback.",
    TIMED_OUT: "No answer within --timeout: nothing is known of the kernel.",
    INTERRUPTED: "Interrupted from the keyboard.",
    BROKEN_PIPE: "The reader of a pipe went away.",
}

#: The bases of all errors of ours, by name: to ask for the classes would import them.
_OURS: Final = (("mosaic_tpu.builder.errors", "MosaicError"), ("mosaic_tpu.sim.errors", "ModuleError"))
_FLAG: Final = ("mosaic_tpu.aot.errors", "FlagError")
#: What a full or broken disk answers.
_FULL: Final = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
_PLACE: Final = re.compile(r"(.+\.\w+):(\d+)$")


class UsageError(Exception):
    """The command was used wrongly.

    Attributes:
        summary: what was wrong, one sentence.
        hint: what to type instead.
    """

    def __init__(self, summary: str, hint: str) -> None:
        self.summary = summary
        self.hint = hint
        super().__init__(summary)


def unreadable(file: object, error: OSError, hint: str) -> UsageError:
    """What to raise where a file cannot be read."""
    if isinstance(error, IsADirectoryError):
        return UsageError(f"cannot read {file}: it is a folder", "name a file in it")
    return UsageError(f"cannot read {file}: {error.strerror or error}", hint)


class OutputError(Exception):
    """Standard output cannot be written to."""


def guarded(run: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run a command; every exception becomes a message and an exit code."""
    try:
        return run()
    except BrokenPipeError:
        _silence(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # Rich has seen it first
            return BROKEN_PIPE
        return error.code if isinstance(error.code, int) else FAILED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            _silence(sys.stdout)
            return _told(OutputError(error.strerror or "it cannot be written to"), [])
        return _told(error, arguments)


def _told(error: Exception, arguments: Sequence[str]) -> int:
    from mosaic_tpu.cli._output import print_error, print_json

    code, facts = _facts(error, arguments)
    try:
        if "--json" in arguments:
            print_json(SCHEMA, {"exit_code": code, "error": facts})
            sys.stdout.flush()
        if code == FAULT and ("--debug" in arguments or os.environ.get("MOSAIC_TPU_DEBUG")):
            sys.excepthook(type(error), error, error.__traceback__)
        print_error(facts)
    except BrokenPipeError:
        _silence(sys.stdout)
    return code


def _facts(error: Exception, arguments: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is said: kind, cause, op, place with its source line, remedy."""
    if isinstance(error, UsageError):
        return USAGE, {"kind": "UsageError", "cause": error.summary, "remedy": error.hint}
    if _is_a(error, ("cyclopts.exceptions", "CycloptsError")):
        return USAGE, {"kind": "UsageError", "cause": str(error).strip(), "remedy": _help_of(arguments)}
    if _is_a(error, _FLAG):  # it is the command that is wrong, and no kernel
        return USAGE, _of_ours(error)
    if any(_is_a(error, base) for base in _OURS):
        return TIMED_OUT if isinstance(error, TimeoutError) else FAILED, _of_ours(error)
    if isinstance(error, OutputError):
        return FAILED, {"kind": "OutputError", "cause": f"standard output: {error}", "remedy": "write it elsewhere"}
    if isinstance(error, MemoryError):
        cause = f"there is not enough memory: {error}".removesuffix(": ")
        return FAILED, {
            "kind": "MemoryError",
            "cause": cause,
            "remedy": "take a smaller file, or a smaller config with --set",
        }
    remedy = "this is a fault of mosaic-tpu: please report it, with the command and what `mosaic-tpu doctor` says"
    if "--debug" not in arguments and not os.environ.get("MOSAIC_TPU_DEBUG"):
        remedy += "; --debug shows where it happened"
    first = str(error).strip().partition("\n")[0]
    return FAULT, {"kind": type(error).__name__, "cause": f"{type(error).__name__}: {first}", "remedy": remedy}


def _is_a(error: Exception, base: tuple[str, str]) -> bool:
    return any((cls.__module__, cls.__name__) == base for cls in type(error).__mro__)


def _of_ours(error: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"kind": type(error).__name__, "cause": error.summary}
    facts["operands"] = list(getattr(error, "operands", ()))
    for name in ("op", "location", "buffer", "device", "step", "seed", "related", "target"):
        facts[name] = getattr(error, name, None)
    facts = {name: value for name, value in facts.items() if value not in (None, [], "")}
    place = facts.get("location")
    if place is not None and (place.startswith("<") or "/mosaic_tpu/cli/" in place):
        del facts["location"]  # it is the command's own line, and no kernel's
    elif line := source_line(place):
        facts["line"] = line
    return facts | {"remedy": for_shell(error.hint)}


def source_line(place: str | None) -> str:
    """The line of source that ``"file.py:12"`` means; nothing where the file is not here."""
    found = _PLACE.match(place or "")
    if found is None or not os.path.isfile(found[1]):  # a pipe would be waited for
        return ""
    linecache.checkcache(found[1])
    return linecache.getline(found[1], int(found[2])).strip()


def with_lines(text: str) -> str:
    """A report or an error with the line of source under each place, where the file is here."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        label, found, place = line.partition("at: ")
        if found and not label.strip() and (code := source_line(place)):
            lines.append(f"{label}    {code}")
    return "\n".join(lines)


def _help_of(arguments: Sequence[str]) -> str:
    """The help of the verb that was meant."""
    from mosaic_tpu.cli._main import GROUPS, NAME, VERBS

    first, second = (*arguments, "", "")[:2]
    words = [first] if first in VERBS else []
    if second in GROUPS.get(first, ()):
        words.append(second)
    return f"see {' '.join([NAME, *words, '--help'])}"


def _silence(stream: Any) -> None:
    """Point a closed pipe elsewhere, or Python would complain once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
