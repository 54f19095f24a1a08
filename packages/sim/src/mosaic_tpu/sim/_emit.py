"""From a function of a module to the source of a Python function over NumPy arrays.

A scalar is a Python int or bool, or a NumPy scalar where it is a float. A vector is an array of the type's rank whose
sizes are the type's or 1: a broadcast costs nothing until an op needs all elements. A memref is never a value at run
time: its slices are folded into the subscripts of the loads, stores and DMAs that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mosaic_tpu.sim._effects import called as called
from mosaic_tpu.sim._effects import callee as callee
from mosaic_tpu.sim._effects import dead_ops, deferred, guarded_roots, overhanging, whole_tiles, writes
from mosaic_tpu.sim._effects import root_of as root_of
from mosaic_tpu.sim._effects import waits as waits
from mosaic_tpu.sim._module import Block, Function, Module, Operation, Value
from mosaic_tpu.sim._ref import Dim as Dim
from mosaic_tpu.sim._ref import Ref as Ref
from mosaic_tpu.sim._ref import end_of, sizes_of
from mosaic_tpu.sim._registry import RULES as RULES
from mosaic_tpu.sim._registry import UNSUPPORTED as UNSUPPORTED
from mosaic_tpu.sim._registry import VIEWS as VIEWS
from mosaic_tpu.sim._registry import WAITS as WAITS
from mosaic_tpu.sim._registry import WRITES as WRITES
from mosaic_tpu.sim._registry import rule as rule
from mosaic_tpu.sim.errors import UnsupportedOpError


@dataclass(frozen=True, slots=True)
class Info:
    """What generated code knows of a scalar or vector.

    Attributes:
        text: the expression.
        shape: the array's actual shape, each size the type's or 1, or ``()`` for one element of any rank.
        known: the value of a scalar constant, or of a vector's one element.
        truth: of an integer that was extended from an i1, that boolean.
        product: the factors of a product that was not computed, since only its sums are used.
    """

    text: str
    shape: tuple[int, ...] = ()
    known: Any = None
    truth: str | None = None
    product: tuple[Value, Value] | None = None


class Emitter:
    """The source of one function as it grows, rule by rule."""

    def __init__(
        self, module: Module, function: Function, names: dict[str, Any], *, checks: bool, several: bool
    ) -> None:
        self.module = module
        self.function = function
        self.names = names
        self.checks = checks
        self.several = several
        self.lines: list[str] = []
        self.marks: list[int] = []
        self.depth = 1
        self.op: Operation = function.operation
        self.infos: dict[int, Info] = {}
        self.refs: dict[int, Ref] = {}
        self.histograms: list[dict[str, int]] = []
        self.blocks: list[Block] = []
        self.guarded = guarded_roots(module, function)
        self.dead = dead_ops(function)
        self.bounds: list[set[str]] = [set()]
        #: Where the result about to be defined is undefined, and why.
        self.suspect: tuple[str, str] | None = None
        self.allocations: list[list[tuple[int, str]]] = [[]]
        self._fresh = 0
        self._constants: dict[Any, str] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    # --- lines -------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)
        self.marks.append(self.op.number)

    def name(self, prefix: str = "t") -> str:
        """A name not used before."""
        self._fresh += 1
        return f"{prefix}{self._fresh}"

    def constant(self, value: Any) -> str:
        """The name of a constant that lives outside the function."""
        key: Any = (value.dtype, value.tobytes(), value.shape) if hasattr(value, "tobytes") else value
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = f"k{len(self.names)}"
            self.names[found] = value
        return found

    def constant_object(self, value: object) -> str:
        """The name of any object that lives outside the function."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def runtime(self, function: Callable[..., Any]) -> str:
        """The name of a function that generated code calls."""
        self.names[function.__name__] = function
        return function.__name__

    # --- values ------------------------------------------------------------------------------------------------------

    def info(self, value: Value) -> Info:
        """Of a scalar or vector."""
        return self.infos[value.index]

    def text(self, value: Value) -> str:
        """The expression of a scalar or vector."""
        return self.infos[value.index].text

    def known(self, value: Value) -> Any:
        """The value of a constant, else ``None``."""
        return self.infos[value.index].known

    def full(self, value: Value) -> str:
        """The expression of a vector with all its elements."""
        info = self.infos[value.index]
        if info.shape == value.type.shape or value.type.kind != "vector":
            return info.text
        return f"np.broadcast_to({info.text}, {value.type.shape})"

    def define(self, value: Value, text: str, shape: tuple[int, ...] | None = None) -> None:
        """Give a result its expression; ``shape`` is the actual one of a vector, its type's if not given."""
        users = self.users(value)
        suspect, self.suspect = self.suspect, None
        if not users:
            return
        if suspect is not None:
            self._doubted(value, text, shape, *suspect)
            return
        kind = value.type.kind
        if kind == "vector":
            actual = value.type.shape if shape is None else shape
            if self._constants_only() and self._hoist(value, text, actual):
                return
            inline = self.op.name in VIEWS and len(users) == 1 and not self._crosses(value) and len(text) < 160
            if not _is_name(text) and not inline:
                name = f"v{value.index}"
                self.line(f"{name} = {text}")
                text = name
            self.infos[value.index] = Info(text if _is_name(text) or not _loose(text) else f"({text})", actual)
            return
        if self._constants_only() and self._hoist_number(value, text):
            return
        if len(users) > 1 or len(text) > 120 or self._crosses(value):
            name = f"s{value.index}"
            self.line(f"{name} = {text}")
            text = name
        elif not _is_name(text):
            text = f"({text})"
        self.infos[value.index] = Info(text)

    def _doubted(self, value: Value, text: str, shape: tuple[int, ...] | None, where: str, what: str) -> None:
        """A result that is undefined in places: they hold what uninitialised memory does."""
        name = f"{'v' if value.type.kind == 'vector' else 's'}{value.index}"
        self.line(f"{name} = {text}")
        dtype = self.constant_object(value.type.dtype)
        test = f"np.any({where})" if value.type.kind == "vector" else where
        self.line(f"if {test}: {name} = core.unknown({self.op.number}, {what!r}, {where}, {name}, {dtype})")
        actual = value.type.shape if shape is None else shape
        self.infos[value.index] = Info(name, actual if value.type.kind == "vector" else ())

    def _constants_only(self) -> bool:
        """Whether all operands of the op are constants, so that its result is one."""
        operands = self.op.operands
        infos = [self.infos.get(o.index) for o in operands]
        return bool(operands) and all(i is not None and (i.text in self.names or i.known is not None) for i in infos)

    def _hoist(self, value: Value, text: str, shape: tuple[int, ...]) -> bool:
        """A result that is computed once, now; not where the text uses a line before it."""
        try:
            with np.errstate(all="ignore"):
                made = np.asarray(eval(text, self.names))
        except NameError:
            return False
        self.infos[value.index] = Info(self.constant(made), shape, made[()] if shape == () else None)
        return True

    def _hoist_number(self, value: Value, text: str) -> bool:
        """A scalar that is computed once, now."""
        try:
            with np.errstate(all="ignore"):
                made: Any = eval(text, self.names)
        except NameError:
            return False
        self.fold(value, bool(made) if value.type.element == "i1" else made)
        return True

    def users(self, value: Value) -> list[Operation]:
        """The ops that take a value and are not dead."""
        return [u for u in value.users if u.number not in self.dead]

    def _crosses(self, value: Value) -> bool:
        """Whether the use is in an inner region, where it could be computed many times."""
        return value.definition is not None and self.users(value)[0].parent is not value.definition.parent

    def assign(self, value: Value, text: str) -> None:
        """Give a result its expression in a variable of its own."""
        if self.users(value):
            name = f"s{value.index}"
            self.line(f"{name} = {text}")
            self.infos[value.index] = Info(name)

    def fold(self, value: Value, known: Any) -> None:
        """A result that is a constant."""
        if value.type.kind == "vector":
            self.infos[value.index] = Info(self.constant(known), known.shape, known if known.shape == () else None)
        elif isinstance(known, bool | int):
            self.infos[value.index] = Info(str(known) if known >= 0 else f"({known})", known=known)
        else:
            self.infos[value.index] = Info(self.constant(known), known=known)

    def alias(self, value: Value, other: Value) -> None:
        """A result that is its operand."""
        self.infos[value.index] = self.infos[other.index]

    def atom(self, text: str) -> str:
        """The expression as a name or number, for use more than once."""
        if _is_name(text):
            return text
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    # --- memrefs -----------------------------------------------------------------------------------------------------

    def ref(self, value: Value) -> Ref:
        """Of a memref."""
        return self.refs[value.index]

    def set_ref(self, value: Value, ref: Ref) -> None:
        """Give a result that is a memref its view."""
        self.refs[value.index] = replace(ref, type=value.type)

    def root(self, value: Value, base: str, buffer: str, root: object, shape: tuple[int, ...] | None = None) -> None:
        """Give an argument or allocation its memory; ``shape`` is the array's, where it has more than the type's."""
        sizes = value.type.shape
        dims = tuple(Dim(0, n, room=m - n) for n, m in zip(sizes, shape or sizes, strict=True))
        self.refs[value.index] = Ref(base, buffer, root, dims, value.type)

    def index(self, value: Value) -> str | int:
        """An index as a number or an expression."""
        known = self.known(value)
        return int(known) if known is not None else self.text(value)

    def slice(
        self,
        ref: Ref,
        starts: Sequence[str | int],
        sizes: Sequence[int | str],
        *,
        drop: int = 0,
        strides: Sequence[int] | None = None,
        overhangs: Sequence[bool] = (),
    ) -> Ref:
        """A part of a view, its bounds checked; the first ``drop`` dimensions are squeezed.

        Where it ``overhangs`` a dimension, it may reach into the rest of the last tile.
        """
        dims: list[Dim] = []
        k = 0
        for d in ref.dims:
            if d.squeezed:
                dims.append(d)
                continue
            start, size = starts[k], sizes[k]
            span: int | str = size if strides is None or isinstance(size, str) else (size - 1) * strides[k] + 1
            limit = d.size + d.room if isinstance(d.size, int) and overhangs and overhangs[k] else d.size
            start = self.bounded(start, span, limit, k, ref)
            dims.append(Dim(_plus(self, d.start, start), span, k < drop))
            k += 1
        return replace(ref, dims=tuple(dims))

    def bounded(self, start: str | int, size: int | str, limit: int | str, dim: int, ref: Ref) -> str | int:
        """Check that ``size`` elements from ``start`` lie within ``limit``."""
        if isinstance(start, int) and isinstance(size, int) and isinstance(limit, int):
            if start == 0 and size == limit:
                return 0
            if not 0 <= start <= limit - size:
                self.line(self._outside(str(start), size, limit, dim, ref))
            return start
        start = self.atom(str(start))
        highest = limit - size if isinstance(limit, int) and isinstance(size, int) else f"{limit} - {size}"
        test = f"0 <= {start} <= {highest}"
        if not any(test in known for known in self.bounds):
            self.bounds[-1].add(test)
            self.line(f"if not {test}: {self._outside(start, size, limit, dim, ref)}")
        return start

    def _outside(self, start: str, size: int | str, limit: int | str, dim: int, ref: Ref) -> str:
        what = f"f'index {{{start}}} of dimension {dim}, {{{size}}} long, in a size of {{{limit}}}'"
        return f"core.outside({self.op.number}, {what}, {ref.buffer})"

    def view(self, ref: Ref) -> str:
        """The expression of a view's array."""
        if ref.packed is not None:
            raise UnsupportedOpError(
                "a bitcast memref is used where only loads and stores may be",
                op=self.op.name,
                location=self.module.line(self.op),
            )
        if all(not d.squeezed and d.start == 0 for d in ref.dims) and sizes_of(ref) == self._base_sizes(ref):
            return ref.base
        return self.part(ref)

    def part(self, ref: Ref) -> str:
        """The expression of a part of the base."""
        if not ref.static or len(ref.dims) < 2:
            return f"{ref.base}[{ref.subscript()}]"
        key = ("subscript", ref.dims)
        found = self._constants.get(key)
        if found is None:
            made = tuple(d.start if d.squeezed else slice(d.start, end_of(d)) for d in ref.dims)
            found = self._constants[key] = self.constant_object(made)
        return f"{ref.base}[{found}]"

    def _base_sizes(self, ref: Ref) -> tuple[int | str, ...]:
        return self._shapes.get(ref.base, ())

    def remember(self, base: str, shape: tuple[int, ...]) -> None:
        """The shape of an array that views are made of."""
        self._shapes[base] = shape

    def check(self, ref: Ref, view: str, *, writes: bool) -> None:
        """Look for hazards, where a DMA or another core can reach the memory."""
        if not self.checks or ref.root not in self.guarded:
            return
        call = f"core.{'writing' if writes else 'reading'}({ref.buffer}, {view}, {self.op.number})"
        if self.several:
            self.line(call)
        else:
            self.line(f"if {ref.buffer}.pending: {call}")

    def look(self, ref: Ref, view: str) -> None:
        """Note what a load sees, if it may be memory that nobody wrote."""
        if self.checks and ref.buffer != "None":
            self.line(f"if {ref.buffer}.blank: core.loaded({self.op.number}, {view}, {ref.buffer})")

    # --- blocks ------------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The ops of a block but its terminator."""
        number = len(self.histograms)
        histogram: dict[str, int] = {}
        self.histograms.append(histogram)
        self.blocks.append(block)
        self.line(f"counts[{number}] += 1")
        for op in block.operations[:-1]:
            if op.number in self.dead:
                continue
            histogram[op.name] = histogram.get(op.name, 0) + 1
            self.emit(op)
        self.op = block.terminator

    def emit(self, op: Operation) -> None:
        """One op by its rule."""
        self.op = op
        found = RULES.get(op.name)
        if found is None:
            raise unsupported(self.module, op)
        found(self, op)

    def inner(self, block: Block, ending: Callable[[], None]) -> None:
        """A block one level deeper, with lines after its ops."""
        self.depth += 1
        outer = self.op
        self.bounds.append(set())
        self.block(block)
        ending()
        self.bounds.pop()
        self.op = outer
        self.depth -= 1

    def copied(self, op: Operation) -> bool:
        """Whether what a load makes must be a copy: something may write the memory before the last use."""
        assert op.parent is not None
        operations = op.parent.operations
        place = operations.index(op)
        last = place
        todo = list(op.results)
        positions = {o.number: i for i, o in enumerate(operations[place:], place)}
        while todo:
            for user in self.users(todo.pop()):
                if user.parent is not op.parent or user is op.parent.terminator or _keeps(user):
                    return True
                last = max(last, positions[user.number])
                if user.name in VIEWS or deferred(user):
                    todo += user.results
        return any(writes(o) for o in operations[place + 1 : last])


def _keeps(op: Operation) -> bool:
    """Whether an op may hand on what it takes to who knows where: a loop its first values, a function its arguments."""
    return bool(op.regions) or op.name == "func.call"


def unsupported(module: Module, op: Operation, why: str = "") -> UnsupportedOpError:
    """An op without a rule, or a form of it that its rule does not know."""
    reason = (
        why
        or UNSUPPORTED.get(op.name)
        or (f"this form of it has no rule ({op.attributes.raw})" if op.name in RULES else "")
    )
    message = f"the simulator has no rule for {op.name}" + (f": {reason}" if reason else "")
    return UnsupportedOpError(message, op=op.name, location=module.line(op))


def _plus(e: Emitter, a: str | int, b: str | int) -> str | int:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0 or b == 0:
        return b if a == 0 else a
    return e.atom(f"{a} + {b}")


def _is_name(text: str) -> bool:
    return text.isidentifier() or text.isdecimal() or (text[0] == "-" and text[1:].isdecimal())


def _loose(text: str) -> bool:
    """Whether an expression needs parentheses where something is attached to it."""
    depth = 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c in " -+~":
            return True
    return False


@dataclass
class Source:
    """The generated source of a function.

    Attributes:
        text: Python.
        marks: for each line, the number of the op it comes from.
        waits: whether it is a generator.
        histograms: for each block, how often each op stands in it.
        blocks: the blocks themselves.
    """

    text: str
    marks: list[int]
    waits: bool
    histograms: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    blocks: list[Block] = field(default_factory=list[Block])


def generate(module: Module, function: Function, names: dict[str, Any], *, checks: bool, several: bool) -> Source:
    """The Python source of a function of a module."""
    e = Emitter(module, function, names, checks=checks, several=several)
    padded = overhanging(function) if function is module.kernel else frozenset[object]()
    parameters: list[str] = []
    for argument in function.arguments:
        name = f"a{argument.index}"
        if argument.type.kind == "memref":
            parameters += (name, f"b{argument.index}")
            shape = argument.type.shape
            if argument.index in padded:
                shape = whole_tiles(argument.type)
            e.root(argument, name, f"b{argument.index}", argument.index, shape)
            e.remember(name, shape)
        else:
            parameters.append(name)
            e.infos[argument.index] = Info(name, argument.type.shape)
    generator = waits(module, function)
    e.line("counts = core.counts")
    e.line("tick = core.tick")
    if generator:
        e.line("if False: yield  # a generator even if every wait in it is dead")
    e.block(function.body)
    e.emit(function.body.terminator)
    if function.name in called(module):  # what runs in it is not counted
        e.lines[0] = f"    counts = [0] * {len(e.histograms)}"
    head = f"def {_identifier(function.name)}(core{''.join(', ' + p for p in parameters)}):"
    return Source("\n".join([head, *e.lines]), [function.operation.number, *e.marks], generator, e.histograms, e.blocks)


def _identifier(name: str) -> str:
    return "f_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
