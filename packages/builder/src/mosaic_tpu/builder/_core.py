"""The emission core every op stands on: locations, operand checks, constants, one `Operation.create` an op."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import (
    IrOperation,
    IrValue,
    inlined_func_call,
    ir,
    open_ir,
    python_traceback,
    tpu_ops,
)
from mosaic_tpu.builder._types import TypeInfo, Types, thread_types
from mosaic_tpu.builder._value import Number, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import Named
from mosaic_tpu.builder.errors import (
    ArityError,
    AttributeValueError,
    BuilderStateError,
    ClosedRegionError,
    ConcreteValueError,
    ConstantError,
    DTypeError,
    ForeignValueError,
    KindError,
    MosaicError,
    ShapeError,
    UnsupportedOpError,
    YieldTwiceError,
)
from mosaic_tpu.builder.views import RefView

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder
    from mosaic_tpu.builder.pallas import Pallas

#: Stands for "no block is open": not an insertion point, so that creating an op fails and is explained.
NO_BLOCK: Final[Any] = object()

_create: Final = open_ir.Operation.create
_traceback = python_traceback

#: Vectors and refs of more elements than any TPU holds are refused before MLIR counts them.
_MAX_ELEMENTS: Final = 1 << 40
_I64: Final = 1 << 63
_NUMBERS: Final = frozenset((int, float, bool))
#: What to write where something is neither a value nor a number.
ENTERS: Final = "arrays enter a kernel as refs"


class Scope:
    """One open block: where its values live, and where ops go while it is innermost."""

    __slots__ = ("block", "branch", "ip", "live", "owner", "parent")

    def __init__(self, owner: Builder, block: ir.Block, parent: Scope | None) -> None:
        self.owner = owner
        #: The builder while values of this scope may be used, ``None`` afterwards.
        self.live: Builder | None = owner
        self.block = block
        self.ip: ir.InsertionPoint = ir.InsertionPoint(block)
        self.parent = parent
        #: The branch of which this is a side, or the loop of which it is a body, where an idiom made it.
        self.branch: Branch | None = None


class Branch:
    """A branch or a loop as idioms make it: what JAX has as an array outside of it is its operand, made once.

    Args:
        scope: of the block it is in.
        anchor: the op before which Pallas makes the operands; at the end of the block if omitted.
        drops: whether JAX drops what nobody reads in it.
    """

    __slots__ = ("_ip", "_known", "_scope", "drops")

    def __init__(self, scope: Scope, anchor: IrOperation | None = None, *, drops: bool = True) -> None:
        self.drops = drops
        self._ip: ir.InsertionPoint = scope.ip if anchor is None else ir.InsertionPoint(anchor)
        self._scope = scope
        self._known: dict[tuple[object, ...], Value] = {}

    def operand(self, key: tuple[object, ...], number: Number, info: TypeInfo) -> Value:
        """The constant before it; ``key`` is the array that it is in JAX."""
        found = self._known.get(key)
        if found is None:
            b = self._scope.owner
            inside, b._ip = b._ip, self._ip
            try:
                found = self._known[key] = Value(b._raw_constant(number, info), info, self._scope)
            finally:
                b._ip = inside
        return found


class Core:
    """State and emission. Everything public is added by the mixins."""

    types: Types
    pallas: Pallas
    _scope: Scope
    _ip: ir.InsertionPoint
    _locate: Callable[[object], ir.Location]
    #: The location of all ops of an idiom that emits several: its line is looked up once.
    _line: ir.Location | None
    #: Whether ops were created that only MLIR's verifier checks in full.
    _needs_verifier: bool
    #: Regions that were made and have no terminator yet.
    _incomplete: int
    #: Whether ops were created that the installed jaxlib may not know.
    _foreign: bool
    #: Functions that were written in the generic form.
    _functions: int

    def _start(self) -> None:
        self.types = thread_types()
        self._locate = self.types.locator()
        self._line = None
        self._needs_verifier = False
        self._incomplete = 0
        self._foreign = False
        self._functions = 0
        self._ip = NO_BLOCK

    # --- locations ---------------------------------------------------------------------------------------------

    def _loc(self) -> ir.Location:
        """The kernel's line that is being built, as MLIR keeps it."""
        return self._line or self._locate(_traceback())

    # --- emission ------------------------------------------------------------------------------------------------

    def _emit(
        self,
        name: str,
        info: TypeInfo,
        operands: list[IrValue],
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> Value:
        """Create an op with one result at the end of the current block."""
        try:
            created = _create(
                name, info.results, operands, attributes, None, 0, self._line or self._locate(_traceback()), self._ip
            )
        except (TypeError, RuntimeError, IndexError):  # no block is open, or jaxlib refuses
            self._diagnose_create(name)
            raise
        return Value(created.result, info, self._scope)

    def _emit_void(self, name: str, operands: list[IrValue], attributes: dict[str, ir.Attribute] | None = None) -> None:
        """Create an op without results."""
        try:
            _create(name, None, operands, attributes, None, 0, self._line or self._locate(_traceback()), self._ip)
        except (TypeError, RuntimeError, IndexError):  # no block is open, or jaxlib refuses
            self._diagnose_create(name)
            raise

    def _emit_many(
        self,
        name: str,
        infos: Sequence[TypeInfo],
        operands: list[IrValue],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> IrOperation:
        """Create an op with any results and regions; the caller wraps the results."""
        try:
            return _create(name, [i.ir for i in infos], operands, attributes, None, regions, self._loc(), self._ip)
        except (TypeError, RuntimeError, IndexError):  # no block is open, or jaxlib refuses
            self._diagnose_create(name)
            raise

    def _inlined(
        self, key: object, operands: Sequence[Value], build: Callable[..., Sequence[Value]]
    ) -> Sequence[Value]:
        """The ops that ``build`` emits for operands of these types: emitted once, then cloned, ten times faster.

        ``build`` takes the operands and must depend on nothing but ``key`` and their types. Like Pallas's own cache of
        lowerings, this changes no byte.
        """
        infos = tuple([o._info for o in operands])
        template = self.types.templates.get((key, infos))
        if self._ip is NO_BLOCK:
            self._diagnose_create(str(key))
        if template is None:
            template = self.types.templates[key, infos] = self._template(infos, build)
        function, results = template
        location = self._loc()
        with location, self._ip:  # without an ambient location jaxlib crashes, although it is given one
            values = inlined_func_call(function, [self._use(o, str(key)) for o in operands], location)
        return [Value(v, i, self._scope) for v, i in zip(values, results, strict=True)]

    def _template(
        self, infos: tuple[TypeInfo, ...], build: Callable[..., Sequence[Value]]
    ) -> tuple[IrOperation, tuple[TypeInfo, ...]]:
        with self.types.context, self.types.unknown:
            kind = ir.FunctionType.get([i.ir for i in infos], [])  # what it returns is known once it is built
            attributes = {"function_type": ir.TypeAttr.get(kind), "sym_name": self.types.string("template")}
            function = open_ir.Operation.create("func.func", attributes=attributes, regions=1, ip=False)
            block = function.regions[0].blocks.append(*(i.ir for i in infos))
        outer, outer_ip, line = self._scope, self._ip, self._line
        scope = Scope(cast("Builder", self), block, None)
        self._scope, self._ip, self._line = scope, scope.ip, self.types.unknown
        try:
            values = build(*[Value(a, i, scope) for a, i in zip(block.arguments, infos, strict=True)])
            self._emit_void("func.return", [v._ir for v in values])
        finally:
            scope.live = None
            self._scope, self._ip, self._line = outer, outer_ip, line
        return function, tuple([v._info for v in values])

    def _diagnose_create(self, name: str) -> None:
        if self._ip is not NO_BLOCK:
            if isinstance(sys.exception(), IndexError):  # an op built by hand has ended the block
                self.fail(YieldTwiceError, "the current region has already yielded", op=name)
            return
        live = getattr(self, "_scope", None)
        if live is None:
            self.fail(BuilderStateError, "no arguments declared yet", op=name, hint="call b.declare_args(…) first")
        if live.live is None:
            self.fail(BuilderStateError, "the builder is finished", op=name, hint="make a new Builder")
        self.fail(YieldTwiceError, "the current region has already yielded", op=name)

    def fail(
        self,
        error: type[MosaicError],
        summary: str,
        *,
        op: str | None = None,
        operands: Sequence[object] = (),
        hint: str | None = None,
    ) -> NoReturn:
        """Raise ``error`` with the operands' types; it finds the kernel's line itself."""
        raise error(summary, op=op, operands=[_described(o) for o in operands], hint=hint)

    # --- operands ------------------------------------------------------------------------------------------------

    def _use(self, value: Value, op: str) -> IrValue:
        """The MLIR value of an operand, after checking that it may be used here."""
        try:
            if value._scope.live is self:
                return value._ir
        except AttributeError:
            self._refuse(value, op)
        if value._scope.owner is not self:
            self.fail(ForeignValueError, "a value of another builder was used", op=op, operands=[value])
        scope = getattr(self, "_scope", None)
        if scope is not None and scope.live is None:
            self.fail(BuilderStateError, "the builder is finished", op=op, hint="make a new Builder")
        self.fail(ClosedRegionError, "a value was used after its region closed", op=op, operands=[value])

    def _refuse(self, value: object, op: str, hint: str = "wrap numbers with b.lift(…) or b.c_index(…)") -> NoReturn:
        """Say of what is no value of this kernel what to write."""
        if isinstance(value, RefView) or (isinstance(value, Value) and value._info.is_ref):
            self.fail(KindError, "a ref is not a value", op=op, operands=[value], hint="load it first: ref[...]")
        shown = " ".join(repr(value).split())
        shown = f"{shown[:60]}…" if len(shown) > 60 else shown
        if getattr(value, "shape", None) == () and hasattr(value, "dtype"):
            dtype = cast("Any", value).dtype
            module = "np" if hasattr(np, str(dtype)) else "ml_dtypes"
            hint = f"a Python number, or a NumPy scalar, which keeps its type: {module}.{dtype}(…)"
        elif hasattr(value, "__array__"):
            hint = ENTERS
        self.fail(KindError, f"{shown} is a {type(value).__name__}, not a value of this kernel", op=op, hint=hint)

    def _use_vector(self, value: Value, op: str) -> IrValue:
        used = self._use(value, op)
        if value._info.is_ref:
            self._refuse(value, op)
        if not value._info.is_vector:
            hint = "b.broadcast_to(x, shape) makes one of a scalar"
            self.fail(KindError, "a vector is needed", op=op, operands=[value], hint=hint)
        return used

    def _use_ref(self, value: Value, op: str) -> IrValue:
        used = self._use(value, op)
        if not value._info.is_ref:
            self.fail(KindError, "a ref is needed", op=op, operands=[value], hint="pass a declared argument")
        return used

    def _sequence(self, values: Sequence[object], op: str) -> None:
        if not isinstance(values, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(ArityError, "a sequence is needed", op=op, operands=[values], hint="write [x] for a single one")

    def _use_all(self, values: Sequence[Value], op: str) -> list[IrValue]:
        self._sequence(values, op)
        return [self._use(v, op) for v in values]

    # --- attributes ----------------------------------------------------------------------------------------------

    def _int(self, value: int, op: str, what: str) -> int:
        """A Python int, from anything that is one to Python, but for booleans."""
        if type(value) is int:
            return value
        if isinstance(value, Value):
            self.fail(
                ConcreteValueError, f"the {what} is static", op=op, operands=[value], hint="an int, from the config"
            )
        try:
            if not isinstance(value, bool):
                return operator.index(value)
        except TypeError:
            pass
        self.fail(AttributeValueError, f"the {what} is {value!r}", op=op, hint="an int")

    def _i32_attribute(self, value: int, op: str, what: str) -> int:
        """An int of an i32 attribute that counts or names something."""
        found = self._int(value, op, what)
        if not 0 <= found < 1 << 31:
            self.fail(AttributeValueError, f"{what} {found}", op=op, hint="0 or more, and an i32")
        return found

    def _text(self, value: str, op: str, what: str) -> str:
        """A string that can be written as UTF-8."""
        if isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            try:
                value.encode()
            except UnicodeEncodeError:
                pass
            else:
                return value
        self.fail(AttributeValueError, f"the {what} is {value!r}", op=op, hint="a string")

    def _require(self, op: str) -> None:
        """Refuse an op that the installed jaxlib's dialect does not have."""
        if not self.types.context.is_registered_operation(op):
            self.fail(UnsupportedOpError, f"the installed jaxlib has no {op}", op=op, hint=_versions(op))

    def _flag(self, value: bool, op: str, what: str) -> bool:
        """True or False; values and arrays are neither."""
        if value is True or value is False:
            return value
        self.fail(AttributeValueError, f"{what} is {value!r}", op=op, hint="True or False")

    def _ints(self, values: Sequence[int], op: str, what: str) -> tuple[int, ...]:
        """A sequence of ints as a tuple."""
        if isinstance(values, tuple):
            for v in values:
                if type(v) is not int or not -_I64 <= v < _I64:
                    break
            else:
                return values
        if isinstance(values, str | Value) or not hasattr(values, "__iter__") or getattr(values, "ndim", 1) == 0:
            self.fail(ArityError, f"the {what} are {values!r}", op=op, hint="a sequence of ints")
        found = tuple(self._int(v, op, f"entry of the {what}") for v in values)
        if any(not -_I64 <= v < _I64 for v in found):
            self.fail(AttributeValueError, f"the {what} {found} do not fit in 64 bits", op=op)
        return found

    def _shape(self, shape: Sequence[int], op: str) -> tuple[int, ...]:
        """A static shape as a tuple of positive ints."""
        found = self._ints(shape, op, "sizes of the shape")
        elements = 1
        for s in found:
            elements *= s
            if s < 1 or elements > _MAX_ELEMENTS:
                self.fail(ShapeError, f"shape {found}", op=op, hint="sizes are positive ints that fit in memory")
        return found

    def _dtype(self, dtype: DType, op: str) -> DType:
        """An element type; names and NumPy dtypes are understood."""
        if type(dtype) is DType:
            return dtype
        try:
            return dt.as_dtype(dtype)
        except DTypeError as error:
            self.fail(DTypeError, error.summary, op=op, hint=error.hint)

    def _data_type(self, dtype: DType, op: str) -> DType:
        """An element type of scalars and vectors: no semaphore."""
        found = self._dtype(dtype, op)
        if found.kind == "semaphore":
            self.fail(DTypeError, f"{found} is no number", op=op, hint="b.sem_alloc(kind) makes semaphores")
        return found

    def _element(self, dtype: DType, op: str) -> DType:
        """An element type of vectors: no index, no semaphore."""
        found = self._data_type(dtype, op)
        if found is dt.index:
            self.fail(DTypeError, "index values are scalars", op=op, hint="use i32 elements")
        return found

    def _member[E: Named](self, kind: type[E], value: E | str, op: str) -> E:
        """The member of an enumeration, from its spelling too."""
        if type(value) is kind:
            return value  # pyright: ignore[reportReturnType]
        try:
            return kind.of(value)
        except MosaicError as error:
            self.fail(type(error), error.summary, op=op, hint=error.hint)

    # --- constants -----------------------------------------------------------------------------------------------

    def _raw_constant(self, value: Number, info: TypeInfo) -> IrValue:
        """`_constant` where no `Value` is needed."""
        attributes = self.types.constants.get((value, info)) if type(value) in _NUMBERS else None
        if attributes is None:
            attributes = self._constant_attributes(value, info)
            if (value or not info.dtype.is_float) and value == value:
                self.types.constants[value, info] = attributes
        try:
            created = _create(
                "arith.constant",
                info.results,
                None,
                attributes,
                None,
                0,
                self._line or self._locate(_traceback()),
                self._ip,
            )
        except (TypeError, RuntimeError, IndexError):  # no block is open, or jaxlib refuses
            self._diagnose_create("arith.constant")
            raise
        return created.result

    def _constant(self, value: Number, info: TypeInfo) -> Value:
        """A fresh ``arith.constant``, never shared: Pallas makes one per use."""
        return Value(self._raw_constant(value, info), info, self._scope)

    def _constant_attributes(self, value: Number, info: TypeInfo) -> dict[str, ir.Attribute]:
        dtype = info.dtype
        if type(value) not in _NUMBERS:
            value = self._plain_number(value, dtype)
        if dtype.is_float:
            try:
                number = float(value)
            except OverflowError:
                self.fail(ConstantError, f"{value!r} overflows {dtype}", op="arith.constant")
            if number != number:
                return self.types.constant(number, 0.0, info)
            sign = math.copysign(1.0, number)
            if dtype.bits < 64 and math.isfinite(number):
                self._check_finite(number, dtype)
            return self.types.constant(number, sign, info)
        if isinstance(value, float):
            if not value.is_integer():
                self.fail(
                    ConstantError, f"{value!r} is not an integer, the element type is {dtype}", op="arith.constant"
                )
            value = int(value)
        if dtype is dt.index and not -(1 << 63) <= value < (1 << 63):
            self.fail(ConstantError, f"{value!r} does not fit in {dtype}", op="arith.constant")
        if dtype.bits and not -(1 << (dtype.bits - 1)) <= value < (1 << dtype.bits):
            self.fail(ConstantError, f"{value!r} does not fit in {dtype}", op="arith.constant")
        if dtype.bits and value >= (1 << (dtype.bits - 1)) and dtype.bits > 1:
            value -= 1 << dtype.bits
        return self.types.constant(int(value), 1.0, info)

    def _plain_number(self, value: object, dtype: DType) -> Number:
        plain: object = cast("Any", value).item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool | int | float):
            return plain
        self.fail(
            KindError,
            f"{plain!r} is a {type(plain).__name__}, not a number of type {dtype}",
            op="arith.constant",
            hint="pass an int or a float; a value is cast with .to(dtype)",
        )

    def _check_finite(self, number: float, dtype: DType) -> None:
        if dtype is dt.f32 and abs(number) <= 3.4028235677973366e38:
            return
        if dtype is dt.bf16 and abs(number) <= 3.3961775292304e38:
            return
        with np.errstate(over="ignore"):
            if dtype.numpy is not None and not np.isfinite(np.asarray(number).astype(dtype.numpy).astype(np.float64)):
                self.fail(
                    ConstantError, f"{number!r} overflows {dtype}", op="arith.constant", hint="use math.inf if meant"
                )

    def _number(self, value: object, like: DType) -> tuple[Number, DType]:
        """A Python or NumPy number and the element type it takes beside an operand of type ``like``."""
        if isinstance(value, np.generic):
            scalar = cast("Any", value)
            return scalar.item(), dt.as_dtype(scalar.dtype)  # NumPy scalars keep their own width
        if isinstance(value, bool | int | float):
            if like.is_int and isinstance(value, float) and not value.is_integer():
                written = f", or write {round(value)}" if math.isfinite(value) else ""
                self.fail(
                    ConstantError,
                    f"{value!r} is a float beside an operand of type {like}",
                    op="arith.constant",
                    hint=f"cast the operand first: x.to(f32){written}",
                )
            return value, like
        self._refuse(value, "arith.constant", ENTERS)

    def _index(self, value: Value | int, op: str) -> IrValue:
        """An index operand: a Value of type index, or a fresh constant."""
        if isinstance(value, Value):
            used = self._use(value, op)
            if value._info is not self.types.index:
                self.fail(
                    DTypeError, "indices must be of type index", op=op, operands=[value], hint="use b.to_index(v)"
                )
            return used
        return self._raw_constant(self._int(value, op, "index"), self.types.index)

    def _same(self, lhs: Value, rhs: Value, op: str) -> None:
        """Refuse operands whose MLIR types differ."""
        a, b = lhs._info, rhs._info
        if a is b or a.ir is b.ir:
            return
        if a.kind != b.kind:
            self.fail(
                KindError,
                f"a {a.kind} and a {b.kind}",
                op=op,
                operands=[lhs, rhs],
                hint="b.broadcast_to(scalar, shape) makes a vector of a scalar",
            )
        if a.shape != b.shape:
            self.fail(ShapeError, f"shapes {a.shape} and {b.shape} differ", op=op, operands=[lhs, rhs])
        self.fail(DTypeError, f"element types {a.dtype} and {b.dtype} differ", op=op, operands=[lhs, rhs])

    # --- ops through jaxlib's generated classes: slower, for what is rare --------------------------------------------

    def _native(self, class_name: str, name: str, *arguments: Any, **attributes: Any) -> IrOperation:
        """Create an op through its generated class, which converts Python attributes itself."""
        cls = getattr(tpu_ops(), class_name, None)
        if cls is None:
            self.fail(UnsupportedOpError, f"the installed jaxlib has no {name}", op=name, hint=_versions(name))
        if self._ip is NO_BLOCK:
            self._diagnose_create(name)
        self._needs_verifier = True
        with self.types.context:
            return cls(*arguments, **attributes, loc=self._loc(), ip=self._ip).operation


def _described(operand: object) -> str:
    """An operand in an error; of a ref of booleans its type does not say so."""
    if isinstance(operand, RefView):
        return f"view {operand.shape} of {_described(operand.ref)}"
    info = operand._info if isinstance(operand, Value) else operand
    if not isinstance(info, TypeInfo):
        return repr(operand)
    return str(info) if info.dtype is info.element else f"{info} of booleans"


def _versions(name: str) -> str:
    known = {
        "tpu.repeat": "jaxlib 0.11 had it; since 0.12 repeat and tile emit tpu.concatenate",
        "tpu.rotate": "no jaxlib since 0.10.2 has it; pltpu.roll emits tpu.dynamic_rotate",
    }
    return known.get(name, "a newer jaxlib may have it")
