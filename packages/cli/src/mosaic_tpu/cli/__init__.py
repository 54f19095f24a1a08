"""The command `mosaic-tpu`: `mosaic-tpu --help` lists its verbs."""

from mosaic_tpu.cli._main import main as main

__all__ = ["main"]
