"""Hints of the packages speak to those who call them from Python; here they speak of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

#: What a hint says to a caller, and what it means to one who types.
_SAID: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"see help\([\w.]+\)", "see --help of the verb"),
    (r"^mosaic_tpu\.sim\.coverage\(\) lists the ops each engine runs", "the other --engine may run it"),
    (r"\bwith collect=True the trace", "with --trace and --json the trace"),
    (
        r"(?:pass|say) (?:outputs|inputs)=\[\(shape, dtype\), …\](?:, one for each)?",
        "give the program it is called in",
    ),
    (r"raise timeout or max_steps", "raise --timeout"),
    (r"\b(give|with) vmem_limit_bytes=(\d+)", r"\1 --vmem-limit-bytes \2"),
    (r"\braise (timeout|vmem_limit_bytes)\b", lambda m: f"raise --{m[1].replace('_', '-')}"),
    (r"compile without schedule=True", "leave the schedule out, as mosaic-tpu compile does"),
    (r"look at compile\(…, schedule=True\)\.schedule, which says", "mosaic-tpu schedule says"),
    (r"\bflags are libtpu's own, by their names without dashes: ", "flags are libtpu's own: "),
    (r"\bflags=\{'xla_tpu_…': value\}", "--flag xla_tpu_…=VALUE"),
    (r"\berror\.raw is what", "with --json, raw is what"),
    (r"\berror\.raw has", "with --json, raw has"),
    (r"mosaic_tpu\.sim\.ir\.read, or lint the module", "mosaic-tpu ir show, or lint the module"),
    (r"\blint\(source, target='([\w:]+)'\)", r"--target \1"),
    (r"one of mosaic_tpu\.aot\.TARGETS", "--help names the generations"),
    (r"\bengine=[\"'](\w+)[\"']", r"--engine \1"),
    (r"\bstyle=[\"'](\w+)[\"']", r"--style \1"),
    (r"\bkernel= takes\b", "--kernel takes"),
    (r"\bcache=False\b", "--no-cache"),
    (r"\bas_dtype\(…\) makes a DType", "the name of an element type: bf16"),
    (r"^True or False$", "true or false"),
    (r"^None(?= leaves\b)|\bor None\b", lambda m: m[0].replace("None", "null")),
)
#: A hint in a report, as people read it.
_LINE: Final = r"(?m)^( *hint: )(.*)$"


def for_shell(hint: str) -> str:
    """A hint, with options in place of arguments.

    Example:
        >>> for_shell('run it with engine="numpy"')
        'run it with --engine numpy'
    """
    for pattern, meant in _SAID:
        hint = re.sub(pattern, meant, hint)
    return hint


def hints_for_shell(report: str) -> str:
    """A report, with such hints."""
    return re.sub(_LINE, lambda found: found[1] + for_shell(found[2]), report)


def answer_for_shell(value: Any) -> Any:
    """An answer in plain data, with such hints."""
    if isinstance(value, Mapping):
        return {
            name: for_shell(v) if name in ("hint", "remedy") and isinstance(v, str) else answer_for_shell(v)
            for name, v in cast("Mapping[str, Any]", value).items()
        }
    return [answer_for_shell(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value
