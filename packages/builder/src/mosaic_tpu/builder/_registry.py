"""The one registry of every op and idiom; the tests walk it, and `registry` hands it to whoever else wants to.

`op` and `idiom` are decorators over hand-written typed methods; they record an `OpSpec` and return the function
unchanged, so that editors, type checkers and the call itself see nothing but the method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

Trait = Literal["elementwise", "constant", "load", "store", "reduction", "region", "dma", "semaphore", "debug", "pure"]


@dataclass(frozen=True)
class OpSpec:
    """What the registry knows of one function.

    Attributes:
        name: how a kernel calls it: ``"addf"`` for an op, ``"pallas.sum"`` for an idiom.
        group: the dialect (``"arith"``) or the idiom's theme (``"pallas.reductions"``).
        emits: the MLIR operations it emits, most telling first; empty when it emits none.
        source: the spelling of ZML's Zig DSL, or the Pallas expression or MLIR op it stands for.
        traits: named sets it belongs to.
        function: the method itself, with its docstring and signature.
    """

    name: str
    group: str
    emits: tuple[str, ...]
    source: str
    traits: frozenset[Trait]
    function: Callable[..., Any]

    @property
    def is_idiom(self) -> bool:
        """Whether it lives on ``b.pallas``."""
        return self.group.startswith("pallas.")


_REGISTRY: Final[dict[str, OpSpec]] = {}


def _register(spec: OpSpec) -> None:
    if spec.name in _REGISTRY:
        raise ValueError(f"{spec.name} is registered twice")
    _REGISTRY[spec.name] = spec


def op[F: Callable[..., Any]](
    *emits: str, group: str | None = None, source: str = "", traits: tuple[Trait, ...] = ("pure",)
) -> Callable[[F], F]:
    """Register a builder method under the MLIR operations it emits."""

    def register(function: F) -> F:
        name = function.__name__.removesuffix("_") if function.__name__ == "yield_" else function.__name__
        found = group or (emits[0].split(".")[0] if emits else "builder")
        _register(OpSpec(name, found, emits, source, frozenset(traits), function))
        return function

    return register


def idiom[F: Callable[..., Any]](
    source: str, *emits: str, group: str, traits: tuple[Trait, ...] = ("pure",)
) -> Callable[[F], F]:
    """Register a ``b.pallas`` method under the Pallas expression whose emission it reproduces."""

    def register(function: F) -> F:
        _register(OpSpec(f"pallas.{function.__name__}", f"pallas.{group}", emits, source, frozenset(traits), function))
        return function

    return register


def registry() -> Mapping[str, OpSpec]:
    """Every registered op and idiom by name, in the order of definition.

    Example:
        >>> from mosaic_tpu.builder import registry
        >>> registry()["addf"].emits
        ('arith.addf',)
    """
    return MappingProxyType(_REGISTRY)
