"""`main`: finds the verb, and runs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mosaic_tpu.cli._errors import EXIT_CODES, guarded
from mosaic_tpu.cli._jax import without_tpu
from mosaic_tpu.cli._streams import prepare

if TYPE_CHECKING:
    from cyclopts import App
    from rich.console import Console

NAME: Final = "mosaic-tpu"
#: Where each verb lives, and what the list of verbs says of it: a verb is imported when it is used.
VERBS: Final = {
    "zoo": ("zoo:app", "List, show, emit and run the kernels of the zoo."),
    "ir": ("ir:app", "Show, compare, verify and lift Mosaic modules."),
    "simulate": ("simulate:simulate", "Run a kernel on the CPU, and look for races, deadlocks and stray memory."),
    "lint": ("lint:lint", "Say what the TPU compiler would refuse, without it."),
    "compile": ("compile:compile_", "Compile for TPUs with the real compiler; no TPU is needed."),
    "schedule": ("schedule:schedule", "Show what the compiler made: bundles, loops, slots, copies."),
    "tune": ("tune:tune", "Rank configs of a kernel by the compiler's estimates."),
    "conformance": ("conformance:conformance", "Show the last reports of the conformance suite."),
    "doctor": ("doctor:doctor", "Say what is installed, and what of it works."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}
#: Verbs of those that have some.
GROUPS: Final = {"zoo": ("list", "show", "emit", "run"), "ir": ("show", "diff", "verify", "lift")}

_CODES: Final = "\n".join(f"{number:>4}  {when}" for number, when in EXIT_CODES.items())
_EPILOGUE: Final = f"""A SOURCE is a module's file, - for standard input, or a kernel of the zoo: matmul:default.
Each verb has --help, and --json for programs. Exit codes:

{_CODES}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: as after the command's name; the process's own if not given.

    Returns:
        The exit code, one of `EXIT_CODES`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _run(given), given)


def _run(arguments: list[str]) -> int:
    prepare()
    without_tpu()
    if arguments == ["--version"]:  # asked by scripts, and often: in a tenth of the time
        print(version(), flush=True)
        return 0
    made = app(arguments[0] if arguments else "")
    result = made(
        arguments, console=_helps(arguments), exit_on_error=False, print_error=False, result_action="return_value"
    )
    sys.stdout.flush()  # here, where a closed pipe is expected
    return result if isinstance(result, int) else 0


def _helps(arguments: list[str]) -> Console | None:
    """The console that help is printed on; other answers need not import Rich for it."""
    if len(arguments) > 1 and not {"--help", "-h", "--version"} & {*arguments}:
        return None
    from mosaic_tpu.cli._console import console

    return console(wide=False)


def app(used: str = "") -> App:
    """The verbs, none of them imported yet; the one that is used describes itself."""
    from cyclopts import App

    made = App(
        name=NAME,
        help="Mosaic TPU kernels: emit, read, simulate, lint, compile and tune them; no TPU is needed.",
        help_epilogue=_EPILOGUE,
        help_format="plaintext",
        version=version,
        suppress_keyboard_interrupt=False,
    )
    for name, (place, summary) in VERBS.items():
        own = {} if name in GROUPS else {"help_epilogue": ""}
        told = None if name == used else summary
        made.command(f"mosaic_tpu.cli.verbs.{place}", name=name, help=told, **own)
    return made


def version() -> str:
    """The command's name and version."""
    from importlib import metadata

    try:
        return f"{NAME} {metadata.version(NAME)}"
    except metadata.PackageNotFoundError:
        return f"{NAME}, run from its source"
