"""`mosaic-tpu completion`: completion of the command line, of kernels and presets too."""

from typing import Annotated, Literal

from cyclopts import Parameter

from mosaic_tpu.cli._options import flag
from mosaic_tpu.cli._output import note, write


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="Which shell.")],
    /,
    *,
    install: Annotated[bool, flag("Install it where the shell looks for it.")] = False,
) -> int:
    """Print the completion script of a shell, or install it."""
    from mosaic_tpu.cli._main import app

    if install:
        note(f"installed in {app().install_completion(shell=shell)}; it holds for new shells")
    else:
        write(app().generate_completion(shell=shell), None)
    return 0
