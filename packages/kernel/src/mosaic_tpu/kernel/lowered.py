"""`LoweredKernel`: one config's body, and the call around it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mosaic_tpu.builder import body_text
from mosaic_tpu.builder.errors import ModuleFormatError
from mosaic_tpu.kernel._build import Operand


@dataclass(frozen=True)
class LoweredKernel:
    """What Pallas would have put into the program for one config.

    Attributes:
        name: the kernel's function name.
        body: MLIR bytecode, byte for byte Pallas's.
        ir_version: the body's stable_mosaic version, ``None`` for the newest the installed jaxlib writes.
        debug_locations: bytecode of the locations moved out of the body, or ``None``.
        backend_config: the custom call's JSON, complete.
        outputs: name, shape and dtype of each result.
        aliases: which result, by number, takes the memory of which operand.
        names: of the kernel's arguments, grid indices first and scratch last.
    """

    name: str
    body: bytes = field(repr=False)
    ir_version: int | None
    debug_locations: bytes | None = field(repr=False)
    backend_config: str = field(repr=False)
    outputs: tuple[Operand, ...] = field(repr=False)
    aliases: dict[int, int] = field(repr=False, hash=False)
    names: tuple[str, ...] = field(repr=False)
    _stablehlo: Callable[[], str] = field(repr=False, compare=False)

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
        """The ``stablehlo.custom_call @tpu_custom_call`` line with all its attributes.

        Raises:
            ModuleFormatError: the installed JAX writes the call in another form.
        """
        found = re.search(r"stablehlo\.custom_call @tpu_custom_call.*", self.stablehlo)
        if found is None:
            raise ModuleFormatError("the program has no such line", op=self.name, hint="read lowered.stablehlo")
        return found[0]

    def text(self, *, canonical: bool = False) -> str:
        """The body read back as MLIR text."""
        return body_text(self.body, canonical=canonical)
