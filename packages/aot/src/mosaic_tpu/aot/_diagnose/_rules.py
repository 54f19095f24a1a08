"""What a refusal means: one rule a cause, the first that matches decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mosaic_tpu.aot._diagnose._cause import Cause
from mosaic_tpu.aot._diagnose._memory import out_of_memory
from mosaic_tpu.aot._diagnose._message import Message
from mosaic_tpu.aot.errors import (
    AlignmentError,
    CompileError,
    DiskError,
    DMAAlignmentError,
    InternalCompilerError,
    InvalidKernelError,
    LayoutError,
    UnsupportedError,
)

type Says = str | Callable[[re.Match[str], Message], str]


@dataclass(frozen=True)
class _Rule:
    """A cause.

    Attributes:
        pattern: in the text.
        error: the class.
        says: the reason, with ``{1}`` for groups and ``{types}`` for the op's types; ``"{reason}"`` repeats the text.
        hint: what helps; the class has a default.
        on: only for ops whose name matches.
    """

    pattern: str
    error: type[CompileError]
    says: Says = "{reason}{of}"
    hint: str = ""
    on: str = ""


def cause_of(message: Message) -> Cause:
    """The cause of a refusal."""
    if (memory := out_of_memory(message.raw)) is not None:
        return memory
    for rule in _RULES:
        found = re.search(rule.pattern, message.raw)
        if found and re.search(rule.on, message.op or ""):
            hint = rule.hint.format(found[0], *found.groups(""))
            return Cause(rule.error, _said(rule, found, message), hint, _feature_op(found[0]))
    return Cause(CompileError, message.reason or "the compiler gave no reason")


def _said(rule: _Rule, found: re.Match[str], message: Message) -> str:
    if callable(rule.says):
        return rule.says(found, message)
    kinds = types_of(message)
    texts = {"reason": message.reason.rstrip(". "), "types": kinds, "of": f": {kinds}" if kinds else ""}
    return rule.says.format(*(found[0], *found.groups("")), **texts)


def types_of(message: Message) -> str:
    """``vector<8x120xf32> to vector<960xf32>``; empty if the text has no op."""
    operands = ", ".join(
        dict.fromkeys(t for t in message.operands if t not in ("index", "i32") and "semaphore" not in t)
    )
    results = ", ".join(message.results)
    return " to ".join(filter(None, (operands, results if results != operands else "")))


def _element(kind: str) -> str:
    """``i8`` of ``vector<8x128xi8>``."""
    found = re.search(r"(?:\d+x|<|^)([a-z]\w*)(?:,.*)?>*$", kind)
    return found[1] if found else kind


def _elements(_: re.Match[str], message: Message) -> str:
    """An op that exists, on elements that it has no code for."""
    elements = " and ".join(dict.fromkeys(map(_element, message.operands)))
    return f"no code for {message.op} on {elements}: {types_of(message)}" if elements else message.reason


def _no_matmul(_: re.Match[str], message: Message) -> str:
    if len(message.operands) < 2:
        return message.reason
    lhs, rhs = map(_element, message.operands[:2])
    return f"this generation has no matmul of {lhs} by {rhs}: {types_of(message)}"


def _no_bf16(found: re.Match[str], message: Message) -> str:
    return f"this generation has no {found[1].lower()} in bf16: {types_of(message)}"


def _misaligned(found: re.Match[str], message: Message) -> str:
    what, dimension, tile = found.groups()
    part = "the offset" if what == "index" else "the size"
    types = " of ".join(reversed([*message.operands[:1], *message.results]))
    return f"{part} of a slice in dimension {dimension} is not known to be a multiple of the tile, {tile}: {types}"


def _unproven(found: re.Match[str], message: Message) -> str:
    ref = next((t for t in message.operands if t.startswith("memref<")), "")
    value = next((t for t in (*message.results, *message.operands) if t.startswith("vector<")), "")
    where = f": {value} in {ref}" if ref and value else ""
    return f"the index in dimension {found[1]} is not known to be a multiple of {found[2]}{where}"


_CAST_MATMUL = "cast both operands to bf16 or f32 before the matmul, or compile for a generation that multiplies them"
_TO_32_BITS = "cast to 32 bits, compute there, and cast the result back"
_MASK = "keep masks out of memory: store i8 or i32, and compare after the load"
#: Feature of a target that the compiler checks for without saying the op.
_FEATURES = {"SupportsVectorRotateLaneStride": "tpu.dynamic_rotate"}


def _feature_op(text: str) -> str | None:
    return next((op for feature, op in _FEATURES.items() if feature in text), None)


def _without_feature(found: re.Match[str], _: Message) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", found[1]).lower()
    return f"this generation has no {words}"


_RULES = (
    _Rule(  # the worker's own words
        r"^the program is for \d+ devices and (\w+):\S+ has \d+",
        CompileError,
        "{0}",
        "compile for a topology of as many devices: target='{1}:2x2'",
    ),
    # --- malformed ---------------------------------------------------------------------------------------------------
    _Rule(
        r"Expected matmul acc to be 32-bit",
        InvalidKernelError,
        "the accumulator of a matmul must have 32 bits: {types}",
        "accumulate in f32 or i32, and cast the result",
    ),
    _Rule(
        r"Operation not in a serialized form",
        InvalidKernelError,
        "the body is not in the form that calls carry (stable_mosaic)",
        "give the module to mosaic_tpu.aot.compile, or serialize it as mosaic_tpu.builder does",
    ),
    _Rule(r"custom op '([\w.]+)' is unknown", InvalidKernelError, "the compiler does not know the op {1}"),
    _Rule(
        r"Failed to (?:deserialize|parse) the Mosaic module", InvalidKernelError, "the body cannot be read: {reason}"
    ),
    _Rule(r"Custom call body is empty", InvalidKernelError, "the call has no body"),
    _Rule(r"internal verification error|'[\w.]+' op ", InvalidKernelError),
    # --- alignment ---------------------------------------------------------------------------------------------------
    _Rule(
        r"cannot statically prove that index in dimension (\d+) is a multiple of (\d+)",
        AlignmentError,
        _unproven,
        "if it is one, say so: b.assume_multiple(index, {2}) (pl.multiple_of); else load whole tiles and select",
    ),
    _Rule(
        r"dynamic (?:load|store) with unaligned indices",
        AlignmentError,
        "a load or store at an index that is not known to be on a tile: {types}",
        "load the whole row (or tile) at that index, and select the element afterwards",
    ),
    _Rule(
        r"along tiled dimensions must be aligned to tiles\. Failed to verify that the (index|size) at dimension (\d+)"
        r" is divisible by the tile dimension (\d+)",
        DMAAlignmentError,
        _misaligned,
        "start and end slices on tiles: multiples of {3} in dimension {2}; for an offset known only at run time,"
        " say so with b.assume_multiple (pl.multiple_of)",
    ),
    _Rule(
        r"contiguous inner slice in the DMA transfer must be divisible by (\d+) bytes",
        DMAAlignmentError,
        "a DMA moves runs of whole {1} bytes, and a row of this slice is none: {types}",
        "copy whole rows, or pad the last dimension to a multiple of 128 elements of 32 bits",
    ),
    _Rule(
        r"window params for (\w+ \d+): E2002.*\n"
        r"Operand of shape (\(.*?\)) has tiling (\(.*?\)), but its block shape (\(.*?\)) is not divisible",
        DMAAlignmentError,
        "the blocks {4} of {1}, an array {2}, are neither whole tiles of {3} nor all of its last two dimensions",
        "take blocks whose last two dimensions are multiples of {3}, or the array's own",
    ),
    _Rule(
        r"E2002|MisalignedBlockAndTiling",
        DMAAlignmentError,
        hint="make the block's last two dimensions multiples of the tile (8 × 128 of 32 bits), or the array's own",
    ),
    # --- layouts -----------------------------------------------------------------------------------------------------
    _Rule(
        r"[Uu]nsupported shape cast",
        LayoutError,
        "no vector layout for this reshape: {types}",
        "keep the last dimension, or split and merge it in multiples of 128; or reshape the array before the call",
    ),
    _Rule(
        r"Multiple source vregs along gather dimension",
        LayoutError,
        "a gather reads within one register (128 lanes, 8 sublanes of 32 bits), and this is longer: {types}",
        "gather in pieces of one register and select, or multiply with a one-hot matrix",
    ),
    _Rule(
        r"Gather indices and result have different bitwidths",
        UnsupportedError,
        "a gather's indices must have the bits of its elements: {types}",
        "gather in 32 bits: cast the elements to f32 or i32 first",
    ),
    _Rule(
        r"Invalid input layout",
        LayoutError,
        "no vector layout for a gather in one dimension: {types}",
        "gather along the lanes of a vector of two dimensions: reshape to (n // 128, 128)",
        on="gather",
    ),
    _Rule(
        r"Stride on last dim is not 1",
        LayoutError,
        "a load cannot skip lanes, and the stride of the last dimension is not 1: {types}",
        "stride along another dimension; along lanes load all, and select or shuffle",
    ),
    _Rule(
        r"last dim size is not(?: a multiple of)? (\d+) in original base memref",
        LayoutError,
        "a strided load reads from refs whose last dimension is {1}: {types}",
        "make the ref (…, {1}) and stride over its rows, or load all and select",
    ),
    _Rule(
        r"layout too complicated|Can't change bitwidth during a relayout",
        LayoutError,
        "the compiler finds no layout for a vector; booleans (i1) in memory do this",
        _MASK,
    ),
    # --- types and ops -----------------------------------------------------------------------------------------------
    _Rule(
        r"Unsupported matmul RHS type on target|[Uu]nsupported type for matmul|Bad lhs(?:/rhs)? type"
        r"|not supported as matmul/accumulator inputs|Unsupported input data type in matrix multiplication"
        r"|float acc with int lhs",
        UnsupportedError,
        _no_matmul,
        _CAST_MATMUL,
    ),
    _Rule(
        r"rewriting computation to not contain X\{64\|128\} element types.*?= ([a-z]\d+)\[([\d,]*)\]",
        UnsupportedError,
        "a TPU has no elements of 64 bits, and a kernel's array has: {1}[{2}]",
        "use f32 or i32; split an i64 into two i32 before the call",
    ),
    _Rule(
        r"Only vector<i16> and vector<i32> are supported, but got '(\w+)'",
        UnsupportedError,
        "integer arithmetic has 16 or 32 bits, and this has {1}: {types}",
        "cast to i32 (b.extsi), compute there, and cast back (b.trunci)",
    ),
    _Rule(
        r"Invalid vector type for (load|store)",
        UnsupportedError,
        "no {1} for these elements: {types}",
        "a TPU computes in f32 and bf16, not in f16: cast the array to bf16 or f32 before the call",
    ),
    _Rule(
        r"Target (?:platform )?does not support BF16 (\w+?)(?:Op)?\.?\s",
        UnsupportedError,
        _no_bf16,
        "cast to f32 (b.extf), compute there, and cast back (b.truncf)",
    ),
    _Rule(
        r"Failed to set window params for input (\d+): Low padding not supported",
        UnsupportedError,
        "the window of input {1} has padding before the array",
        "pad the array itself, or shift the indices; padding behind the array is supported",
    ),
    _Rule(r"Target does not support this comparison", UnsupportedError, hint=_TO_32_BITS),
    _Rule(
        r"Unsupported operation: ([\w.]+) in ([\w-]+) pass",
        UnsupportedError,
        "the compiler has no code for {1} on a TensorCore",
        "write a mask with comparisons of b.iota",
        on="create_mask",
    ),
    _Rule(
        r"Unsupported operation: ([\w.]+) in ([\w-]+) pass",
        UnsupportedError,
        "the compiler has no code for {1} on a TensorCore",
        "write it with other ops: slices, broadcasts, reductions; some ops are for SparseCores only",
    ),
    _Rule(
        r"Unsupported reduction kind",
        UnsupportedError,
        "no such reduction of vectors: {types}",
        "reduce with add, max or min; a product by halving: multiply one half of the rows with the other",
    ),
    _Rule(
        r"LLO_CHECK failure.*target\(\)\.Supports(\w+)",
        UnsupportedError,
        _without_feature,
        "write it with other ops, or compile for a newer generation",
    ),
    _Rule(
        r"not supported by this TPU generation|not supported (?:by|on) this (?:target|platform|hardware)"
        r"|before TPUv\d|Target (?:platform )?does not support|[Hh]ardware does not support",
        UnsupportedError,
        hint="write it with other ops, or compile for a newer generation",
    ),
    _Rule(
        r"failed to legalize operation 'arith\.(?:max|min)[su]i'",
        UnsupportedError,
        _elements,
        "cast to i32 first and keep the result in 32 bits: a cast back at once is folded into the op again",
    ),
    _Rule(r"failed to legalize operation '([\w.]+)'", UnsupportedError, _elements, _TO_32_BITS),
    _Rule(
        r"Unimplemented primitive in Pallas TPU lowering[^:]*: (\w+)",
        UnsupportedError,
        "Pallas has no lowering for {1} on a TPU",
        "write it with other functions of jnp or lax",
    ),
    # --- what is left ------------------------------------------------------------------------------------------------
    _Rule(r"No space left on device|Disk quota exceeded", DiskError, "the compiler could not write: the disk is full"),
    _Rule(
        r"(?:LLO_CHECK|RET_CHECK|Check) fail(?:ure|ed)|Internal (?:compiler )?error|Mosaic pass failed",
        InternalCompilerError,
        "an internal check of the compiler failed: {reason}",
    ),
    _Rule(
        r"(?i)\b(?:re)?layout|reshape|transpose|\bvregs?\b|\btil(?:e|ed|es|ing)\b|sublane|\blane|offset|stride"
        r"|implicit dim|infer-vector-layout|apply-vector-layout",
        LayoutError,
    ),
    _Rule(r"(?i)not implemented|unsupported|not supported|UNIMPLEMENTED|only .* supported", UnsupportedError),
    _Rule(r"INVALID_ARGUMENT|(?i:expected|invalid|must be)", InvalidKernelError),
)
