"""What the TPU compiler says, as typed errors: its text taken apart, the cause found, the line of the kernel named."""

from mosaic_tpu.aot._diagnose._diagnose import Locate as Locate
from mosaic_tpu.aot._diagnose._diagnose import diagnose as diagnose
from mosaic_tpu.aot._diagnose._locate import locator as locator
from mosaic_tpu.aot._diagnose._memory import limit_above as limit_above
from mosaic_tpu.aot._diagnose._memory import used_and_limit as used_and_limit

__all__ = ["Locate", "diagnose", "limit_above", "locator", "used_and_limit"]
