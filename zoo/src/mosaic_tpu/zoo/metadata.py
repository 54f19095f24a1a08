"""What docs, command line and tests read of each kernel in the zoo.

The description is plain data. What needs JAX (functions, kernel, configs) is imported when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from mosaic_tpu.kernel import Kernel
    from mosaic_tpu.zoo.examples import Example
    from mosaic_tpu.zoo.tolerances import Expected


@dataclass(frozen=True)
class Parts:
    """The code of a kernel.

    Attributes:
        function: the JAX-facing function.
        kernel: the `Kernel` below it.
        reference: float64 NumPy reference with the function's arguments.
        expected: the results, one for each output, and how far rounding may carry them: from concrete arrays.
        example: arrays and options of a call that a config serves.
        validate: host-side check of the values of concrete arrays.
        prepare: from a config and the function's arrays, by name, to the kernel's operands, where those differ.
    """

    function: Callable[..., Any]
    kernel: Kernel[Any]
    reference: Callable[..., Any]
    expected: Callable[..., Sequence[Expected]]
    example: Callable[[Any, np.random.Generator], Example]
    validate: Callable[..., None] | None = None
    prepare: Callable[..., Mapping[str, Any]] | None = None


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of the zoo.

    Attributes:
        name: of the JAX-facing function, ``mosaic_tpu.zoo.<name>``.
        title: for headings.
        summary: what it computes, one sentence.
        tags: for an index.
        twin: the Pallas kernel whose bytes it equals: an import path, or a file of the conformance suite.
        fields: of the config of each preset: ``default`` and shapes of models.
        parts: imports the kernel's code.
        refusals: target → the compiler's reason, where a generation lacks what the kernel needs.
    """

    name: str
    title: str
    summary: str
    tags: tuple[str, ...]
    twin: str
    fields: Mapping[str, Mapping[str, Any]] = field(hash=False)
    parts: Callable[[], Parts] = field(repr=False)
    refusals: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @cached_property
    def _parts(self) -> Parts:
        return self.parts()

    @property
    def function(self) -> Callable[..., Any]:
        """The JAX-facing function."""
        return self._parts.function

    @property
    def kernel(self) -> Kernel[Any]:
        """The `Kernel` below it."""
        return self._parts.kernel

    @property
    def reference(self) -> Callable[..., Any]:
        """Float64 NumPy reference with the function's arguments."""
        return self._parts.reference

    @property
    def expected(self) -> Callable[..., Sequence[Expected]]:
        """The results, one for each output, and how far rounding may carry them: from concrete arrays."""
        return self._parts.expected

    @property
    def example(self) -> Callable[[Any, np.random.Generator], Example]:
        """Arrays and options of a call that a config serves."""
        return self._parts.example

    @property
    def validate(self) -> Callable[..., None] | None:
        """Host-side check of the values of concrete arrays."""
        return self._parts.validate

    @property
    def prepare(self) -> Callable[..., Mapping[str, Any]] | None:
        """From a config and the function's arrays, by name, to the kernel's operands, where those differ."""
        return self._parts.prepare

    @cached_property
    def presets(self) -> Mapping[str, Any]:
        """Named configs: ``default`` and shapes of models."""
        return MappingProxyType({name: self.kernel.config(**fields) for name, fields in self.fields.items()})

    @property
    def default(self) -> Any:
        """The config of the preset ``default``."""
        return self.presets["default"]
