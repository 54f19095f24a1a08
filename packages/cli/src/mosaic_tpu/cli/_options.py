"""Options that several verbs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mosaic_tpu.cli._errors import UsageError


def _kernels(context: Any) -> list[str]:
    """Kernels and presets, as a shell completes them."""
    from mosaic_tpu.zoo import KERNELS

    return [name for kernel, info in KERNELS.items() for name in (kernel, *(f"{kernel}:{p}" for p in info.fields))]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """What every verb takes."""

    json: Annotated[bool, Parameter(negative=(), help="Answer in JSON.", group="Common")] = False
    debug: Annotated[bool, Parameter(negative=(), help="Show the traceback of a fault.", group="Common")] = False


COMMON = Common()

type Kernel = Annotated[
    str, Parameter(help="KERNEL, KERNEL:PRESET, or a config's file (.json, .toml).", completer=_kernels)
]
type SourceName = Annotated[
    str,
    Parameter(
        help="A module's file, - for standard input, KERNEL[:PRESET] of the zoo, or a config's file.",
        completer=_kernels,
    ),
]
type Settings = Annotated[
    list[str] | None,
    Parameter(name="--set", help="Change a field of a zoo kernel's config: --set m=1024.", negative=()),
]
type Targets = Annotated[
    list[str] | None,
    Parameter(name="--target", help="Generations, v5e,v6e, or topologies of one, v5e:2x2.", negative=()),
]
type Limit = Annotated[int | None, Parameter(name="--vmem-limit-bytes", help="VMEM that a kernel may use.")]
type Output = Annotated[Path | None, Parameter(name=("--output", "-o"), help="Write to this file.")]
type Which = Annotated[
    str | None, Parameter(name="--kernel", help="Which kernel of a program with several: its name or number.")
]


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


def number_or_name(text: str | None) -> str | int | None:
    """Which kernel is meant."""
    return int(text) if text is not None and text.isdecimal() else text
