"""What the TPU compiler says, as typed errors: its text taken apart, the cause found, the line of the kernel named."""

from mosaic_tpu.aot._diagnose._diagnose import Locate as Locate
from mosaic_tpu.aot._diagnose._diagnose import diagnose as diagnose
from mosaic_tpu.aot._diagnose._locate import locator as locator

__all__ = ["Locate", "diagnose", "locator"]
