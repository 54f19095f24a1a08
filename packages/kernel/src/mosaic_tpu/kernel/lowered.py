"""`LoweredKernel`: one config's body, and the call around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mosaic_tpu.builder import body_text


@dataclass(frozen=True)
class LoweredKernel:
    """What Pallas would have put into the program for one config.

    Attributes:
        name: the kernel's function name.
        body: MLIR bytecode, byte for byte Pallas's.
        ir_version: the body's stable_mosaic version, ``None`` for the newest the installed jaxlib writes.
        debug_locations: bytecode of the locations moved out of the body, or ``None``.
        backend_config: the custom call's JSON, complete.
    """

    name: str
    body: bytes
    ir_version: int | None
    debug_locations: bytes | None
    backend_config: str
    _stablehlo: Callable[[], str]

    @cached_property
    def config(self) -> dict[str, Any]:
        """`backend_config`, parsed."""
        return json.loads(self.backend_config)

    @cached_property
    def stablehlo(self) -> str:
        """A StableHLO module whose ``main`` is this call: text that any PJRT client can compile."""
        return self._stablehlo()

    @cached_property
    def custom_call_line(self) -> str:
        """The ``stablehlo.custom_call @tpu_custom_call`` line with all its attributes."""
        found = re.search(r"stablehlo\.custom_call @tpu_custom_call.*", self.stablehlo)
        assert found is not None
        return found[0]

    def text(self, *, canonical: bool = False) -> str:
        """The body read back as MLIR text."""
        return body_text(self.body, canonical=canonical)
