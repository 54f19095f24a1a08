"""What docs, command line and tests read of each kernel in the zoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from mosaic_tpu.kernel import Kernel


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of the zoo.

    Attributes:
        name: of the JAX-facing function, ``mosaic_tpu.zoo.<name>``.
        title: for headings.
        summary: what it computes, one sentence.
        tags: for an index.
        function: the JAX-facing function.
        kernel: the `Kernel` below it.
        reference: float64 NumPy reference with the function's arguments.
        validate: host-side check of the values of concrete arrays.
        twin: the Pallas kernel whose bytes it equals: an import path, or a file of the conformance suite.
        presets: named configs: ``default`` and shapes of models.
        refusals: target → the compiler's reason, where a generation lacks what the kernel needs.
    """

    name: str
    title: str
    summary: str
    tags: tuple[str, ...]
    function: Callable[..., Any]
    kernel: Kernel[Any]
    reference: Callable[..., Any]
    validate: Callable[..., None] | None
    twin: str
    presets: Mapping[str, Any]
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def default(self) -> Any:
        """The config of the preset ``default``."""
        return self.presets["default"]
