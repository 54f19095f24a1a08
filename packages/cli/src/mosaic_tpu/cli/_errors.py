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
from mosaic_tpu.cli._streams import silence

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
FULL: Final = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG)
#: Words that switch a flag on, as in ``--json=true``.
_YES: Final = ("yes", "y", "1", "true", "t")
#: What arguments of these types are called.
_TAKEN: Final = {"SourceName": "source", "Kernel": "kernel"}
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
    """Something does not take what is written to it, which is no fault of the command."""


def guarded(run: Callable[[], int], arguments: Sequence[str]) -> int:
    """Run a command; every exception becomes a message and an exit code."""
    try:
        return run()
    except BrokenPipeError:
        silence(sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt as error:
        return _told(error, arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else FAILED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (*FULL, errno.EBADF) and error.filename is None:
            silence(sys.stdout)
            why = "it is closed" if error.errno == errno.EBADF else error.strerror or "it cannot be written to"
            return _told(OutputError(f"standard output: {why}"), [])
        return _told(error, arguments)


def asked(flag: str, arguments: Sequence[str]) -> bool:
    """Whether a flag is on, as far as that can be told of arguments that may be wrong."""
    on = False
    for word in arguments:
        if word == "--":
            break
        name, given, value = word.partition("=")
        if name == flag:
            on = not given or value.lower() in _YES
    return on


def _told(error: BaseException, arguments: Sequence[str]) -> int:
    from mosaic_tpu.cli._output import print_error, print_json

    code, facts = _facts(error, arguments)
    if asked("--json", arguments):
        try:
            print_json(SCHEMA, {"exit_code": code, "error": facts})
            sys.stdout.flush()
        except OSError:  # standard error and the exit code say it still
            silence(sys.stdout)
    if code == FAULT and _debugs(arguments):
        sys.excepthook(type(error), error, error.__traceback__)
    print_error(facts)
    return code


def _debugs(arguments: Sequence[str]) -> bool:
    return asked("--debug", arguments) or bool(os.environ.get("MOSAIC_TPU_DEBUG"))


def _facts(error: BaseException, arguments: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is said: kind, cause, op, place with its source line, remedy."""
    if isinstance(error, UsageError):
        return USAGE, {"kind": "UsageError", "cause": error.summary, "remedy": error.hint}
    if _is_a(error, ("cyclopts.exceptions", "CycloptsError")):
        cause = _left_over(error) or str(error).strip()
        return USAGE, {"kind": "UsageError", "cause": cause, "remedy": _help_of(arguments)}
    if _is_a(error, _FLAG):  # it is the command that is wrong, and no kernel
        return USAGE, _of_ours(error)
    if any(_is_a(error, base) for base in _OURS):
        return TIMED_OUT if isinstance(error, TimeoutError) else FAILED, _of_ours(error)
    if isinstance(error, OutputError):
        return FAILED, {"kind": "OutputError", "cause": str(error), "remedy": "write it elsewhere"}
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, {"kind": "Interrupted", "cause": "interrupted from the keyboard"}
    if isinstance(error, MemoryError):
        cause = f"there is not enough memory: {error}".removesuffix(": ")
        return FAILED, {
            "kind": "MemoryError",
            "cause": cause,
            "remedy": "take a smaller file, or a smaller config with --set",
        }
    remedy = "this is a fault of mosaic-tpu: please report it, with the command and what `mosaic-tpu doctor` says"
    if not _debugs(arguments):
        remedy += "; --debug shows where it happened"
    first = str(error).strip().partition("\n")[0]
    return FAULT, {"kind": type(error).__name__, "cause": f"{type(error).__name__}: {first}", "remedy": remedy}


def _is_a(error: BaseException, base: tuple[str, str]) -> bool:
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
    if found is None:
        return ""
    # What `zoo emit` wrote names its files from the package on. Only files: a pipe would be waited for.
    here = next(filter(os.path.isfile, (os.path.join(folder, found[1]) for folder in ("", *sys.path))), None)
    if here is None:
        return ""
    linecache.checkcache(here)
    return linecache.getline(here, int(found[2])).strip()


def with_lines(text: str) -> str:
    """A report or an error with the line of source under each place, where the file is here."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        label, found, place = line.partition("at: ")
        if found and not label.strip() and (code := source_line(place)):
            lines.append(f"{label}    {code}")
    return "\n".join(lines)


def _left_over(error: Any) -> str:
    """What a verb takes, where more was given; nothing of another error."""
    words, target = getattr(error, "unused_tokens", None), getattr(error, "target", None)
    if not words or target is None:
        return ""
    import inspect

    taken = [p for p in inspect.signature(target).parameters.values() if p.kind is p.POSITIONAL_ONLY]
    kinds = {_TAKEN.get(getattr(p.annotation, "__name__", ""), "argument") for p in taken} or {"argument"}
    kind = kinds.pop() if len(kinds) == 1 else "argument"
    what = f"one {kind}" if len(taken) == 1 else f"{len(taken) or 'no'} {kind}s"
    left = f"{', '.join(map(repr, words))} {'is' if len(words) == 1 else 'are'} left over"
    return f"{' '.join(error.command_chain)} takes {what}, and {left}"


def _help_of(arguments: Sequence[str]) -> str:
    """The help of the verb that was meant."""
    from mosaic_tpu.cli._main import GROUPS, NAME, VERBS

    first, second = (*arguments, "", "")[:2]
    words = [first] if first in VERBS else []
    if second in GROUPS.get(first, ()):
        words.append(second)
    return f"see {' '.join([NAME, *words, '--help'])}"
