"""The command `mosaic-tpu`: `mosaic-tpu --help` lists its verbs."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: as after the command's name; the process's own if not given.

    Returns:
        The exit code; `mosaic-tpu --help` lists them.
    """
    try:
        from mosaic_tpu.cli import _main

        return _main.main(arguments)
    except KeyboardInterrupt:  # before there is anyone to tell, or once more while it is told
        return 130
