"""Arithmetic."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, Info, rule, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim._types import parse_constant
from mosaic_tpu.sim.rules._elementwise import (
    dtype,
    floats,
    guard,
    integers,
    is_vector,
    narrow_int,
    narrowed,
    shape_of,
    signed,
    unsigned,
    width,
    wrap_known,
    wrapped,
)


@rule("arith.constant")
def _constant(e: Emitter, op: Operation) -> None:
    value = parse_constant(op.attributes.text("value"))
    if is_vector(op.result) and not isinstance(value, np.ndarray):
        value = np.asarray(value, op.result.type.dtype)
    e.fold(op.result, value)


_INTEGERS: Final = {
    "arith.addi": ("{0} + {1}", None),
    "arith.subi": ("{0} - {1}", None),
    "arith.muli": ("{0} * {1}", None),
    "arith.andi": ("{0} & {1}", None),
    "arith.ori": ("{0} | {1}", None),
    "arith.xori": ("{0} ^ {1}", None),
    "arith.maxsi": ("np.maximum({0}, {1})", "max({0}, {1})"),
    "arith.minsi": ("np.minimum({0}, {1})", "min({0}, {1})"),
}
#: Their results fit the type whenever the operands do.
_EXACT: Final = {"arith.andi", "arith.ori", "arith.xori", "arith.maxsi", "arith.minsi"}


#: Of i1, whose 1 is -1 where it is signed.
_BOOLEANS: Final = {
    "arith.addi": "{0} ^ {1}",
    "arith.subi": "{0} ^ {1}",
    "arith.muli": "{0} & {1}",
    "arith.maxsi": "{0} & {1}",
    "arith.minsi": "{0} | {1}",
}


@rule(*_INTEGERS)
def _integer(e: Emitter, op: Operation) -> None:
    template, scalar = _INTEGERS[op.name]
    known = [e.known(v) for v in op.operands]
    if op.result.type.element == "i1":
        integers(e, op, _BOOLEANS.get(op.name, template))
    elif op.name in _EXACT and not is_vector(op.result) and None in known:
        e.define(op.result, (scalar or template).format(*(e.text(v) for v in op.operands)))
    elif op.name in ("arith.addi", "arith.subi") and not is_vector(op.result) and known[1] == 0:
        e.alias(op.result, op.operands[0])
    elif op.name == "arith.addi" and not is_vector(op.result) and known[0] == 0:
        e.alias(op.result, op.operands[1])
    elif op.name == "arith.muli" and not is_vector(op.result) and known[1] == 1:
        e.alias(op.result, op.operands[0])
    else:
        integers(e, op, template, scalar)


_FLOATS: Final = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "arith.remf": "np.fmod({0}, {1})",
    "arith.maximumf": "np.maximum({0}, {1})",
    "arith.minimumf": "np.minimum({0}, {1})",
    "arith.maxnumf": "np.fmax({0}, {1})",
    "arith.maximumnumf": "np.fmax({0}, {1})",
    "arith.minimumnumf": "np.fmin({0}, {1})",
    "arith.minnumf": "np.fmin({0}, {1})",
    "arith.negf": "-{0}",
}


@rule(*_FLOATS)
def _float(e: Emitter, op: Operation) -> None:
    if op.name == "arith.mulf" and is_f32_matrix(op.result):
        a, b = op.operands
        shapes = {e.info(a).shape, e.info(b).shape}
        rows, columns = op.result.type.shape
        if rows > 1 and columns > 1 and shapes == {(rows, 1), (1, columns)}:
            # An outer product: each element is one product, so BLAS rounds it alike.
            left, right = (a, b) if e.info(a).shape == (rows, 1) else (b, a)
            e.define(op.result, f"np.dot({e.text(left)}, {e.text(right)})")
            return
        (user,) = users if len(users := e.users(op.result)) == 1 else (None,)
        if user is not None and user.parent is op.parent and is_dot(e, user, a, b):
            e.infos[op.result.index] = Info("None", product=(a, b))
            return
    floats(e, op, _FLOATS[op.name])


def is_f32_matrix(value: Value) -> bool:
    """Whether BLAS has products of it."""
    return value.type.kind == "vector" and value.type.element == "f32" and len(value.type.shape) == 2


def is_dot(e: Emitter, user: Operation, a: Value, b: Value) -> bool:
    """Whether a product is only summed, along the dimension in which one factor is a column or a row."""
    if user.name != "vector.multi_reduction" or user.attributes.keyword("kind") != "add":
        return False
    axes = user.attributes.integers("reduction_dims")
    shapes = [e.info(v).shape for v in (a, b)]
    full = a.type.shape
    vector = (full[0], 1) if axes == (0,) else (1, full[1])
    return len(axes) == 1 and 1 not in full and sorted(shapes) == sorted([full, vector])


# --- division and shifts: undefined for some operands --------------------------------------------------------------


_DIVISIONS: Final = {
    "arith.divsi": (runtime.divide, runtime.divide_vectors),
    "arith.remsi": (runtime.remainder, runtime.remainder_vectors),
    "arith.divui": (runtime.divide, runtime.divide_vectors),
    "arith.remui": (runtime.remainder, runtime.remainder_vectors),
    "arith.floordivsi": (runtime.floor_divide, runtime.floor_divide_vectors),
    "arith.ceildivsi": (runtime.ceil_divide, runtime.ceil_divide_vectors),
    "arith.ceildivui": (runtime.ceil_divide, runtime.ceil_divide_vectors),
}
#: By a positive number, of one that is not negative.
_PLAIN: Final = {"arith.divui": "//", "arith.floordivsi": "//", "arith.remui": "%"}
#: By a positive number: toward zero.
_TOWARD_ZERO: Final = {"arith.divsi": "//", "arith.remsi": "%"}


@rule(*_DIVISIONS)
def _division(e: Emitter, op: Operation) -> None:
    _, b = op.operands
    known = e.known(b)
    if known is None or np.any(known == 0):
        guard(e, f"{e.text(b)} == 0", "division by zero")
    if is_vector(op.result):
        _vector_division(e, op)
    else:
        _scalar_division(e, op)


def _vector_division(e: Emitter, op: Operation) -> None:
    call = e.runtime(_DIVISIONS[op.name][1])
    type_ = op.result.type
    texts = [e.text(v) for v in op.operands]
    if op.name.endswith("ui"):
        texts = [unsigned(t, v) for t, v in zip(texts, op.operands, strict=True)]
        e.define(op.result, signed(e, f"{call}({', '.join(texts)})", type_), shape_of(e, op.operands))
        return
    if narrow_int(type_):
        texts = [f"({t}).astype(np.int8)" for t in texts]
        e.define(op.result, narrowed(e, f"{call}({', '.join(texts)})", type_), shape_of(e, op.operands))
        return
    e.define(op.result, f"{call}({', '.join(texts)})", shape_of(e, op.operands))


def _scalar_division(e: Emitter, op: Operation) -> None:
    function = _DIVISIONS[op.name][0]
    a, b = op.operands
    type_ = op.result.type
    is_unsigned = op.name.endswith("ui")
    known = e.known(b)
    if known is not None and e.known(a) is not None:
        mask = (1 << width(type_)) - 1
        numbers = [int(n) & mask if is_unsigned else int(n) for n in (e.known(a), known)]
        e.fold(op.result, wrap_known(function(*numbers), type_))
        return
    text = unsigned(e.text(a), a) if is_unsigned else e.text(a)
    if known is not None and known > 0 and op.name in _PLAIN:
        made = f"{text} {_PLAIN[op.name]} {known}"
        e.define(op.result, wrapped(made, type_) if is_unsigned and known == 1 else made)
        return
    if known is not None and known > 0 and op.name in _TOWARD_ZERO:
        text = e.atom(text)
        sign = _TOWARD_ZERO[op.name]
        e.define(op.result, f"{text} {sign} {known} if {text} >= 0 else -(-{text} {sign} {known})")
        return
    divisor = unsigned(e.text(b), b) if is_unsigned else e.text(b)
    e.define(op.result, wrapped(f"{e.runtime(function)}({text}, {divisor})", type_))


_SHIFTS: Final = {"arith.shli": "<<", "arith.shrsi": ">>", "arith.shrui": ">>"}


@rule(*_SHIFTS)
def _shift(e: Emitter, op: Operation) -> None:
    a, b = op.operands
    bits = width(a.type)
    known = e.known(b)
    valid = known is not None and bool(np.all((known >= 0) & (known < bits)))
    amount = e.text(b) if valid else e.atom(e.text(b))
    inside = f"({amount} >= 0) & ({amount} < {bits})" if is_vector(b) else f"0 <= {amount} < {bits}"
    if not valid:
        outside = f"({amount} < 0) | ({amount} >= {bits})"
        guard(e, outside, f"a shift by {bits} or more, or by less than 0")
    if is_vector(op.result):
        _vector_shift(e, op, amount, None if valid else inside)
        return
    text = unsigned(e.text(a), a) if op.name == "arith.shrui" else e.text(a)
    made = wrapped(f"{text} {_SHIFTS[op.name]} {amount}", op.result.type)
    e.define(op.result, made if valid else f"{made} if {inside} else 0")


def _vector_shift(e: Emitter, op: Operation, amount: str, inside: str | None) -> None:
    a, _ = op.operands
    type_ = op.result.type
    if inside is not None:
        amount = f"np.where({inside}, {amount}, 0)"
    narrow = narrow_int(type_)
    if narrow:
        amount = f"({amount}).astype(np.int8)"
    if op.name == "arith.shrui":
        amount = amount if narrow else f"({amount}).view(np.uint{width(type_)})"
        made = signed(e, f"{unsigned(e.text(a), a)} >> {amount}", type_)
    elif narrow:
        made = narrowed(e, f"({e.text(a)}).astype(np.int8) {_SHIFTS[op.name]} {amount}", type_)
    else:
        made = f"{e.text(a)} {_SHIFTS[op.name]} {amount}"
    if inside is not None:
        made = f"np.where({inside}, {made}, {e.constant(type_.dtype.type(0))})"
    e.define(op.result, made, shape_of(e, op.operands))


@rule("arith.maxui", "arith.minui")
def _unsigned_extreme(e: Emitter, op: Operation) -> None:
    a, b = (unsigned(e.text(v), v) for v in op.operands)
    word = op.name[6:9]
    if is_vector(op.result):
        text = signed(e, f"np.{word}imum({a}, {b})", op.result.type)
        e.define(op.result, text, shape_of(e, op.operands))
    else:
        e.define(op.result, wrapped(f"{word}({a}, {b})", op.result.type))


@rule("arith.mulsi_extended", "arith.mului_extended")
def _wide_product(e: Emitter, op: Operation) -> None:
    low, high = op.results
    if is_vector(low) and not 8 <= width(low.type) <= 32:
        raise unsupported(e.module, op)
    a, b = (e.text(v) for v in op.operands)
    name = e.name()
    call = e.runtime(runtime.wide_product if is_vector(low) else runtime.wide_product_of_numbers)
    e.line(f"{name} = {call}({a}, {b}, {width(low.type)}, {op.name == 'arith.mulsi_extended'})")
    shape = shape_of(e, op.operands)
    for i, r in enumerate((low, high)):
        e.define(r, f"{name}[{i}]", shape if is_vector(r) else None)


@rule("arith.addui_extended", "arith.subui_extended")
def _carried(e: Emitter, op: Operation) -> None:
    """A sum and whether it left the width; a difference and whether it had to borrow."""
    made, carry = op.results
    a, b = op.operands
    sign = "+" if op.name == "arith.addui_extended" else "-"
    shape = shape_of(e, op.operands)
    left, right = (e.atom(unsigned(e.text(v), v)) for v in (a, b))
    if not is_vector(made):
        total = e.atom(f"{left} {sign} {right}")
        e.define(made, wrapped(total, made.type))
        e.define(carry, f"{total} < 0" if sign == "-" else f"{total} >= {1 << width(a.type)}")
    elif width(a.type) < 8:
        raise unsupported(e.module, op)
    else:
        total = e.atom(f"{left} {sign} {right}")
        e.define(made, f"{total}.view({dtype(e, made.type)})", shape)
        e.define(carry, f"{left} < {right}" if sign == "-" else f"{total} < {left}", shape)


# --- comparison and selection --------------------------------------------------------------------------------------

_INTEGER_PREDICATES: Final = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")


#: Of i1: true is -1 where it is signed.
_SWAPPED: Final = {2: 4, 3: 5, 4: 2, 5: 3}


@rule("arith.cmpi")
def _cmpi(e: Emitter, op: Operation) -> None:
    predicate = op.attributes.integer("predicate")
    a, b = op.operands
    truth = e.info(a).truth
    if truth is not None and predicate == 1 and e.known(b) == 0:
        e.infos[op.result.index] = Info(truth, e.info(a).shape, truth=None)
        return
    if a.type.element == "i1":
        predicate = _SWAPPED.get(predicate, predicate)
    texts = [e.text(a), e.text(b)]
    if predicate >= 6:
        texts = [unsigned(t, v) for t, v in zip(texts, (a, b), strict=True)]
    text = f"{texts[0]} {_INTEGER_PREDICATES[predicate]} {texts[1]}"
    if not is_vector(a) and e.known(a) is not None and e.known(b) is not None:
        e.fold(op.result, bool(eval(text)))
        return
    e.define(op.result, text, shape_of(e, op.operands) if is_vector(a) else None)


_ORDERED: Final = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<="}
#: ``one`` is false of NaN in MLIR. The TPU compiler makes the same instruction of it as of XLA's `ne`, which is true of
#: NaN, and Pallas writes `jnp.isnan` with it.
_NOT_EQUAL: Final = (6, 13)
_UNORDERED: Final = {9: "<=", 10: "<", 11: ">=", 12: ">"}


@rule("arith.cmpf")
def _cmpf(e: Emitter, op: Operation) -> None:
    predicate = op.attributes.integer("predicate")
    a, b = (e.atom(e.text(v)) for v in op.operands)
    if predicate in _ORDERED:
        text = f"{a} {_ORDERED[predicate]} {b}"
    elif predicate in _UNORDERED:
        text = f"np.logical_not({a} {_UNORDERED[predicate]} {b})"
    elif predicate in _NOT_EQUAL:
        text = f"{a} != {b}"
    else:
        text = {
            0: f"np.zeros_like({a} == {b})",
            15: f"np.ones_like({a} == {b})",
            7: f"({a} == {a}) & ({b} == {b})",
            8: f"np.logical_not(({a} < {b}) | ({a} > {b}))",
            14: f"({a} != {a}) | ({b} != {b})",
        }[predicate]
    e.define(op.result, text, shape_of(e, op.operands) if is_vector(op.result) else None)


@rule("arith.select", view=True)
def _select(e: Emitter, op: Operation) -> None:
    c, a, b = op.operands
    known = e.known(c)
    if known is not None and not is_vector(c):
        e.alias(op.result, a if known else b)
        return
    if not is_vector(op.result):
        e.define(op.result, f"{e.text(a)} if {e.text(c)} else {e.text(b)}")
    elif is_vector(c):
        e.define(op.result, f"np.where({e.text(c)}, {e.text(a)}, {e.text(b)})", shape_of(e, op.operands))
    else:
        same = e.info(a).shape == e.info(b).shape
        texts = (e.text(a), e.text(b)) if same else (e.full(a), e.full(b))
        e.define(op.result, f"{texts[0]} if {e.text(c)} else {texts[1]}", e.info(a).shape if same else None)


# --- conversions ---------------------------------------------------------------------------------------------------


@rule("arith.convertf")
def _convertf(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    e.define(op.result, f"{e.text(a)}.astype({dtype(e, op.result.type)})", e.info(a).shape)


@rule("arith.flush_denormals")
def _flush_denormals(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    text = e.atom(e.text(a))
    least = e.constant(np.finfo(np.float32).smallest_normal)
    wide = f"np.abs({text}.astype(np.float32))"
    e.define(op.result, f"np.where({wide} < {least}, np.copysign({text} * 0, {text}), {text})", e.info(a).shape)


@rule("arith.extsi", "arith.trunci", "arith.index_cast", "arith.index_castui")
def _integer_cast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    if is_vector(op.result):
        e.define(op.result, _vector_cast(e, op), e.info(a).shape)
        return
    known = e.known(a)
    target = op.result.type
    if known is not None:
        number = -int(known) if a.type.element == "i1" else int(known)
        if op.name == "arith.index_castui":
            number &= (1 << width(a.type)) - 1
        e.fold(op.result, wrap_known(number, target))
    elif a.type.element == "i1":
        e.define(op.result, f"-int({e.text(a)})")
    elif op.name == "arith.index_castui":
        e.define(op.result, wrapped(unsigned(e.text(a), a), target))
    elif op.name == "arith.trunci" or (target.element != "index" and op.name == "arith.index_cast"):
        e.define(op.result, wrapped(e.text(a), target))
    else:
        e.alias(op.result, a)


def _vector_cast(e: Emitter, op: Operation) -> str:
    (a,) = op.operands
    target = op.result.type
    text = unsigned(e.text(a), a) if op.name == "arith.index_castui" else e.text(a)
    if a.type.element == "i1":
        return (
            narrowed(e, f"-({text}.astype(np.int8))", target)
            if narrow_int(target)
            else f"-({text}.astype({dtype(e, target)}))"
        )
    if target.element == "i1" or narrow_int(target):
        return narrowed(e, f"{text}.astype(np.int64)", target)
    return f"{text}.astype({dtype(e, target)})"


@rule("arith.extui")
def _extui(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    info = e.info(a)
    if not is_vector(a):
        if info.known is not None:
            bits = a.type.bits
            e.fold(op.result, int(info.known) & ((1 << bits) - 1))
        elif a.type.element == "i1":
            atom = e.atom(info.text)
            e.infos[a.index] = Info(atom)
            e.infos[op.result.index] = Info(f"int({atom})", truth=atom)
        else:
            e.define(op.result, unsigned(info.text, a))
        return
    name = dtype(e, op.result.type)
    if a.type.element == "i1":
        users = e.users(op.result)
        if all(_is_truth_test(e, op, u) for u in users):
            e.infos[op.result.index] = Info("None", info.shape, truth=info.text)
            return
        e.define(op.result, f"{info.text}.astype({name})", info.shape)
        if users:
            e.infos[op.result.index] = replace(e.infos[op.result.index], truth=info.text)
        return
    e.define(op.result, f"{unsigned(info.text, a)}.astype({name})", info.shape)


def _is_truth_test(e: Emitter, op: Operation, user: Operation) -> bool:
    """Whether a user compares the integer with 0: the boolean serves it."""
    if user.name != "arith.cmpi" or user.attributes.integer("predicate") != 1 or user.operands[0] is not op.result:
        return False
    other = user.operands[1].index
    definition = user.operands[1].definition
    if other in e.infos:
        return e.infos[other].known == 0
    return (
        definition is not None
        and definition.name == "arith.constant"
        and definition.attributes.text("value").split(" ")[0].removeprefix("dense<").removesuffix(">") == "0"
    )


@rule("arith.sitofp", "arith.uitofp")
def _int_to_float(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, op.result.type)
    if a.type.element == "i1":
        sign = "-" if op.name == "arith.sitofp" else ""
        text = f"{e.text(a)}.astype(np.float32)" if is_vector(a) else f"np.float32({e.text(a)})"
        e.define(op.result, f"({sign}{text}).astype({name})", e.info(a).shape)
        return
    text = e.text(a) if op.name == "arith.sitofp" else unsigned(e.text(a), a)
    text = text if is_vector(a) else f"np.int64({text})"
    e.define(op.result, f"({text}).astype({name})", e.info(a).shape)


@rule("arith.fptosi", "arith.fptoui")
def _float_to_int(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    target = op.result.type
    text = e.atom(e.text(a))
    guard(e, f"{text} != {text}", "the integer of a NaN")
    call = f"{e.runtime(runtime.to_int)}({text}, {dtype(e, target)}, {width(target)}, {op.name == 'arith.fptosi'})"
    e.define(op.result, call if is_vector(a) else f"int({call})", e.info(a).shape)


@rule("arith.bitcast", view=True)
def _bitcast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, op.result.type)
    if is_vector(a):
        e.define(op.result, f"{e.text(a)}.view({name})", e.info(a).shape)
    elif a.type.is_float:
        e.define(op.result, f"int({e.text(a)}.view({name}))")
    else:
        source = dtype(e, a.type)
        e.define(op.result, f"np.array({e.text(a)}, {source}).view({name})[()]")
