"""The operations on values: how the builder writes each, and what NumPy says it gives.

Both meanings stand side by side and share nothing: expected values come from NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.fuzz.program import Type
from conformance.fuzz.tracked import Tracked
from mosaic_tpu.builder import Value


@dataclass(frozen=True)
class Application:
    """An operation on certain values: their numbers, parameters, and the type of the result."""

    args: tuple[int, ...]
    params: tuple[Any, ...]
    type: Type


Candidates = Callable[[Sequence[Type]], list[Application]]


@dataclass(frozen=True)
class Op:
    """An operation.

    Attributes:
        name: of it.
        candidates: what it can be applied to among values of these types, the newest first.
        emit: called with the builder, the values, the parameters.
        compute: called with `Tracked` arrays and the parameters.
    """

    name: str
    candidates: Candidates
    emit: Callable[..., Value]
    compute: Callable[..., Tracked]


OPS: Final[dict[str, Op]] = {}


def add(name: str, candidates: Candidates, emit: Callable[..., Value], compute: Callable[..., Tracked]) -> None:
    """Register an operation."""
    assert name not in OPS, name
    OPS[name] = Op(name, candidates, emit, compute)


# --- what operations apply to ----------------------------------------------------------------------------------------


def nothing(*results: tuple[tuple[Any, ...], Type]) -> Candidates:
    """No values; one of these parameters and results."""
    made = [Application((), params, type_) for params, type_ in results]
    return lambda types: made


def single(
    *dtypes: str,
    to: str | None = None,
    params: Sequence[tuple[Any, ...]] = ((),),
    scalars: bool = True,
) -> Candidates:
    """One value of these dtypes; the result has its shape."""

    def candidates(types: Sequence[Type]) -> list[Application]:
        return [
            Application((n,), chosen, Type(type_.shape, to or type_.dtype))
            for n, type_ in _newest(types)
            if type_.dtype in dtypes and (scalars or type_.shape)
            for chosen in params
        ]

    return candidates


def pair(*dtypes: str, to: str | None = None, scalars: bool = True) -> Candidates:
    """Two values of one type; the result has their shape."""

    def candidates(types: Sequence[Type]) -> list[Application]:
        return [
            Application((n, m), (), Type(type_.shape, to or type_.dtype))
            for n, type_ in _newest(types)
            if type_.dtype in dtypes and (scalars or type_.shape)
            for m, other in _newest(types)
            if other == type_
        ]

    return candidates


def shaped(result: Callable[[Type], Sequence[tuple[tuple[Any, ...], Type]]]) -> Candidates:
    """One vector; ``result`` gives parameters and types of results for its type."""

    def candidates(types: Sequence[Type]) -> list[Application]:
        return [
            Application((n,), params, made)
            for n, type_ in _newest(types)
            if type_.shape
            for params, made in result(type_)
        ]

    return candidates


def paired(result: Callable[[Type, Type], Sequence[tuple[tuple[Any, ...], Type]]]) -> Candidates:
    """Two values; ``result`` gives parameters and types of results for their types."""

    def candidates(types: Sequence[Type]) -> list[Application]:
        return [
            Application((n, m), params, made)
            for n, type_ in _newest(types)
            for m, other in _newest(types)
            for params, made in result(type_, other)
        ]

    return candidates


def selected(types: Sequence[Type]) -> list[Application]:
    """A condition and two values of its shape and of one type."""
    return [
        Application((c, n, m), (), type_)
        for c, condition in _newest(types)
        if condition.dtype == "i1"
        for n, type_ in _newest(types)
        if type_.shape == condition.shape and type_.dtype != "i1"
        for m, other in _newest(types)
        if other == type_
    ]


def _newest(types: Sequence[Type]) -> list[tuple[int, Type]]:
    return list(enumerate(types))[::-1]


from conformance.fuzz import ops_data, ops_elementwise  # noqa: E402, F401 - they fill the table
