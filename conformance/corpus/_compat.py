"""The private names of JAX that the corpus needs.

`lowering.lowering_rules`: Pallas's rules for TPUs, a dict of primitives to rules for each kind of core. JAX publishes
    no list of what a kernel may hold. If it moves: whatever `jaxpr_subcomp` of Pallas's TPU lowering looks rules up in.
`pipeline`, `einshape`: imported for their effect, since each adds rules of its own to that table.
`config.use_emit_pipeline_primitive`: whether `pltpu.emit_pipeline` is bound as a primitive or traced where it is
    called. If it moves, the primitive has become the one way or is gone.
`core.Jaxpr`: to find jaxprs among the parameters of a primitive. If it moves: the type of `jax.make_jaxpr(f)()`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from jax._src import config, core
from jax._src.pallas import einshape as _einshape  # noqa: F401  # pyright: ignore[reportUnusedImport]
from jax._src.pallas.mosaic import core as tpu_core
from jax._src.pallas.mosaic import lowering
from jax._src.pallas.mosaic import pipeline as _pipeline  # noqa: F401  # pyright: ignore[reportUnusedImport]
from jaxlib.mlir import ir

_TENSOR_CORE = tpu_core.CoreType.TC


def _rules() -> dict[Any, Callable[..., Any]]:
    return lowering.lowering_rules[_TENSOR_CORE]


def tensor_core_primitives() -> frozenset[str]:
    """The names of the primitives that Pallas's table has a TensorCore rule for."""
    names = [primitive.name for primitive in _rules()]
    assert len(names) == len(set(names)), "two primitives of one name: tell them apart before counting"
    return frozenset(names)


@contextlib.contextmanager
def rules_that_run() -> Iterator[dict[str, set[str]]]:
    """The primitives whose rule runs meanwhile, each with the MLIR ops that it emits, also through other rules."""
    rules = _rules()
    kept = dict(rules)
    ran: dict[str, set[str]] = {}

    def watched(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **params: Any) -> Any:
            emitted = ran.setdefault(name, set())
            operations = ir.InsertionPoint.current.block.operations
            before = len(operations)
            results = rule(*args, **params)
            for number in range(before, len(operations)):
                _add_names(operations[number].operation, emitted)
            return results

        return run

    for primitive, rule in kept.items():
        rules[primitive] = watched(primitive.name, rule)
    try:
        yield ran
    finally:
        rules.update(kept)


def pipelines_as_primitives() -> contextlib.AbstractContextManager[Any]:
    """Bind `pltpu.emit_pipeline` as a primitive, which its rule expands."""
    return config.use_emit_pipeline_primitive(True)


def primitives_in_kernels(jaxpr: Any) -> frozenset[str]:
    """The primitives that are bound inside the `pallas_call`s of a jaxpr, in their index maps and inner jaxprs too."""
    found: set[str] = set()
    _collect(jaxpr, in_kernel=False, found=found)
    return frozenset(found)


def _collect(jaxpr: Any, in_kernel: bool, found: set[str]) -> None:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if in_kernel:
            found.add(name)
        for inner in _jaxprs_in(equation.params):
            _collect(inner, in_kernel or name in KERNELS, found)


def _add_names(operation: ir.Operation, names: set[str]) -> None:
    names.add(operation.name)
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                _add_names(inner.operation, names)


#: The primitives that hold a kernel.
KERNELS = ("pallas_call", "core_map", "mpmd_map")


def _jaxprs_in(params: Any) -> Iterator[Any]:
    """The jaxprs among the parameters of a primitive, at any depth; of a grid mapping, its index maps."""
    if isinstance(params, core.Jaxpr):
        yield params
    elif isinstance(
        inner := getattr(params, "jaxpr", None), core.Jaxpr
    ):  # JAX 0.11 closes jaxprs in a class of its own
        yield inner
    elif isinstance(params, dict):
        for value in params.values():
            yield from _jaxprs_in(value)
    elif isinstance(params, list | tuple):
        for value in params:
            yield from _jaxprs_in(value)
    elif (mappings := getattr(params, "block_mappings", None)) is not None:
        for mapping in mappings:
            yield from _jaxprs_in(mapping.index_map_jaxpr)
