"""The generations that the suite asks the TPU compiler for, where not for all."""

from __future__ import annotations

from typing import Final

#: Every kernel of the zoo must compile for these; schedules, estimates and tuned blocks are made for them.
REQUIRED: Final = ("v5e", "v6e", "tpu7x")
