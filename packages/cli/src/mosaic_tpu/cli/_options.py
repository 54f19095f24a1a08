"""Options that several verbs have."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from cyclopts import Parameter
from cyclopts.validators import Number

from mosaic_tpu.cli._errors import UsageError
from mosaic_tpu.cli._files import is_special, writable


def _kernels(context: Any) -> list[str]:
    """Kernels and presets, as a shell completes them."""
    from mosaic_tpu.zoo import KERNELS

    return [name for kernel, info in KERNELS.items() for name in (kernel, *(f"{kernel}:{p}" for p in info.fields))]


def _sources(context: Any) -> list[str]:
    """Files too, beside kernels."""
    begun = str(context.incomplete)
    files = [f"{name}/" if Path(name).is_dir() else name for name in sorted(glob.glob(f"{glob.escape(begun)}*"))]
    return [*_kernels(context), *files]


def flag(text: str, **more: Any) -> Parameter:
    """An option that is off unless it is given."""
    return Parameter(help=text, negative=(), show_default=False, **more)


def no_option(_: Any, value: Any) -> None:
    """Let ``-`` stand where a name may, and no other word that begins so.

    Raises:
        UsageError: another does.
    """
    for name in map(str, cast("list[Any]", value) if isinstance(value, list) else [value]):
        if name.startswith("-") and name != "-":
            raise UsageError(f"there is no option {name} here", f"--help lists them; a file of this name is ./{name}")


def _file(_: Any, tokens: Sequence[Any]) -> Path:
    """A file to write.

    Raises:
        UsageError: it cannot be written: told before the work and not after it.
    """
    no_option(_, tokens[0].value)
    if tokens[0].value == "-":
        raise UsageError(f"{tokens[0].keyword} - would mix with the answer", "name a file")
    return writable(tokens[0].value)


def _kept(_: Any, tokens: Sequence[Any]) -> Path:
    """A file that is read and written.

    Raises:
        UsageError: it cannot be, or is no regular file.
    """
    file = _file(_, tokens)
    if is_special(file):
        raise UsageError(f"{tokens[0].keyword} {file} cannot be kept: it is no regular file", "name another file")
    return file


def _file_or_output(_: Any, tokens: Sequence[Any]) -> Path | None:
    """The file of ``-o``; ``-`` is standard output, as where it is not given."""
    return None if tokens[0].value == "-" else _file(_, tokens)


def keeps(name: str, text: str) -> Parameter:
    """An option that names a file to go on with."""
    return writes(name, text, _kept)


def writes(name: str | tuple[str, ...], text: str, converter: Any = _file) -> Parameter:
    """An option that names a file to write, beside the answer unless a converter says otherwise."""
    return Parameter(name=name, help=text, metavar="FILE", allow_leading_hyphen=True, converter=converter)


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What every verb takes."""

    json: Annotated[bool, flag("Answer in JSON.", group="Common")] = False
    debug: Annotated[bool, flag("Show the traceback of a fault.", group="Common")] = False


COMMON = Common()
#: As `mosaic_tpu.aot.TARGETS` has them, which the help would have to import.
GENERATIONS: Final = "v4, v5e, v5p, v6e, tpu7x"
#: Of a time-out: up to a year.
SECONDS: Final = Number(gt=0, lte=366 * 24 * 3600)
#: Numbers that a seed may be, and how many of them may follow one another: the simulator's own limit is the sum.
SEEDS: Final = 1 << 62

type Engine = Annotated[
    Literal["numpy", "xla"], Parameter(help="xla is faster for big shapes; only numpy looks for all hazards.")
]
type Kernel = Annotated[
    str,
    Parameter(
        name="KERNEL",
        help="KERNEL, KERNEL:PRESET, or a config's file (.json, .toml).",
        completer=_kernels,
    ),
]
type SourceName = Annotated[
    str,
    Parameter(
        name="SOURCE",
        help="A module's or a program's file, - for standard input, KERNEL[:PRESET] of the zoo, or a config's file.",
        completer=_sources,
        allow_leading_hyphen=True,
        validator=no_option,
    ),
]
type Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", help="Change a field of a zoo kernel's config.", metavar="FIELD=VALUE", negative=()),
]
type Targets = Annotated[
    list[str] | None,
    Parameter(
        name="--target",
        help=f"Of {GENERATIONS}, some with commas between; or topologies of them, v5e:2x2.",
        metavar="NAMES",
        negative=(),
    ),
]
type Limit = Annotated[
    int | None,
    Parameter(name="--vmem-limit-bytes", help="VMEM that a kernel may use.", validator=Number(gte=1, lte=1 << 40)),
]
type Output = Annotated[Path | None, writes(("--output", "-o"), "Write to this file.", _file_or_output)]
type Timeout = Annotated[float, Parameter(help="Seconds for the compiler, on each target.", validator=SECONDS)]
type Seed = Annotated[
    int, Parameter(help="Of the schedule and of generated inputs.", validator=Number(gte=0, lt=SEEDS))
]
type Large = Annotated[bool, flag("Go on where the arrays take gigabytes of memory.")]
type Which = Annotated[
    str | None, Parameter(name="--kernel", help="Which kernel of a program with several: its name or number.")
]


@Parameter(name="*")
@dataclass(frozen=True)
class Compiler:
    """What verbs take that ask the compiler; `vars` are arguments of `mosaic_tpu.aot.compile`."""

    vmem_limit_bytes: Limit = None
    timeout: Timeout = 300.0
    cache: Annotated[bool, Parameter(help="Take answers from the disk, and keep them there.")] = True


COMPILER = Compiler()


def targets_of(given: Sequence[str] | None) -> list[str] | None:
    """The names between commas, each one a target.

    Raises:
        UsageError: one is not.
    """
    from mosaic_tpu.aot.errors import TargetError
    from mosaic_tpu.aot.targets import find_target

    if given is None:
        return None
    names = [name for text in given for name in text.split(",") if name]
    if not names:
        raise UsageError("no target is given", "--target v5e,v6e")
    for name in names:
        try:
            find_target(name)
        except TargetError as error:
            raise UsageError(error.summary, error.hint) from None
    return list(dict.fromkeys(names))


def target_of(name: str) -> str:
    """One target.

    Raises:
        UsageError: it is none, or several.
    """
    found = targets_of([name]) or []
    if len(found) != 1:
        raise UsageError(f"this needs one target and not {len(found)}", "--target v6e")
    return found[0]
