"""The text of the final bundles, read: one `Bundle` a line, and in it its instructions.

    0x53   : > { %s81_s5 = smov 1024 /* why */  ;;  %188 = sbr.rel (%p71_p11) target = $region28 } /* End region 25 */

A comment may hold anything, line ends and braces too, and so may what it names; every comment is put aside first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu.aot.errors import DumpError

_COMMENT: Final = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_ARGUMENT: Final = re.compile(r"/\*(\w+)=\*/")
_BUNDLE: Final = re.compile(r"\s*(0x[0-9a-f]+|0)\s+((?:[A-Z]{2}\s*)*):([\s>]*)\{(.*)\}([^{}]*)")
_INSTRUCTION: Final = re.compile(r"(?:(%\S+) = )?([a-z][\w.]*)\s*(.*)", re.DOTALL)
_PREDICATE: Final = re.compile(r"\((!?%p\w+)\)")
_OPENS: Final = re.compile(r"Start(?:/End empty)? region (\d+)")
_CLOSES: Final = re.compile(r"End region (\d+)")
_KEPT: Final = re.compile(r"\x00(\d+)\x00")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a bundle.

    Attributes:
        opcode: with its type and unit, ``"vmatmul.mubr.bf16.gmra.mxu0"``.
        operands: the rest of its text, comments left out, names of arguments as ``name=``.
        result: the register it writes, ``"%v12_v3"``, or its number, ``"%188"``.
        predicate: the register that must hold for it to run, ``"!%p12_p3"``; empty if it always runs.
        comments: what the compiler remarked.
    """

    opcode: str
    operands: str
    result: str
    predicate: str = ""
    comments: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Bundle:
    """One VLIW instruction: what starts in the same cycle.

    Attributes:
        address: position in the kernel, from 0 without gaps.
        label: how control gets here: ``"LB"`` the top of a loop's body, ``"PF"`` past a predicated region, or empty.
        depth: loops around it.
        instructions: in the order of the text.
        opens: numbers of the regions that start in it.
        closes: numbers of the regions that end in it.
    """

    address: int
    label: str
    depth: int
    instructions: tuple[Instruction, ...]
    opens: tuple[int, ...] = ()
    closes: tuple[int, ...] = ()


def stripped(bundles: str) -> str:
    """The bundles without comments and with single spaces: what two schedules are compared by.

    Names of registers and numbers of allocations stay as they are: nothing is normalised to make a comparison pass.

    Raises:
        DumpError: a comment has no end.

    Example:
        >>> print(stripped("   0x4   :  { %7 = vsyncpa [#allocation5], 0 } /* Start region 1 */"))
        0x4 : { %7 = vsyncpa [#allocation5], 0 }
    """
    bare = _COMMENT.sub("", bundles)
    _check_closed(bare)
    lines = (" ".join(line.split()) for line in bare.splitlines())
    return "\n".join(line for line in lines if line)


def read_bundles(text: str) -> tuple[Bundle, ...]:
    """The bundles of a dump, in order.

    Raises:
        DumpError: there is none, one is missing, or a line is cut.
    """
    named = _ARGUMENT.sub(r"\1=", text.replace("\x00", ""))
    comments: list[str] = []

    def put_aside(found: re.Match[str]) -> str:
        comments.append(found[1])
        return f"\x00{len(comments) - 1}\x00"

    bare = _COMMENT.sub(put_aside, named)
    _check_closed(bare)
    bundles: list[Bundle] = []
    for line in bare.splitlines():
        if found := _BUNDLE.fullmatch(line):
            bundles.append(_bundle(found, comments))
            _check_next(bundles)
        elif "{" in line or "}" in line:
            raise DumpError(f"a bundle is cut: {_KEPT.sub('', line).strip()[:80]!r}", op="read_bundles")
    if not bundles:
        raise DumpError("no bundle in the dump of final bundles", op="read_bundles")
    return tuple(bundles)


def _check_closed(bare: str) -> None:
    if "/*" in bare:
        raise DumpError("a comment in the dump of final bundles has no end", op="read_bundles")


def _check_next(bundles: list[Bundle]) -> None:
    if (address := bundles[-1].address) != len(bundles) - 1:
        raise DumpError(f"bundle {len(bundles) - 1:#x} is missing: the next one is {address:#x}", op="read_bundles")


def _bundle(found: re.Match[str], comments: list[str]) -> Bundle:
    address, label, nesting, body, after = found.groups()
    remarks = " ".join(_remarks(after, comments))
    return Bundle(
        address=int(address, 16),
        label=label.strip(),
        depth=nesting.count(">"),
        instructions=tuple(_instruction(part.strip(), comments) for part in body.split(";;") if part.strip()),
        opens=tuple(map(int, _OPENS.findall(remarks))),
        closes=tuple(map(int, _CLOSES.findall(remarks))),
    )


def _instruction(text: str, comments: list[str]) -> Instruction:
    said = tuple(_remarks(text, comments))
    found = _INSTRUCTION.fullmatch(_KEPT.sub("", text).strip())
    if not found:
        raise DumpError(f"no instruction: {text[:80]!r}", op="read_bundles")
    result, opcode, operands = found.groups(default="")
    predicate = _PREDICATE.search(operands)
    return Instruction(opcode, operands.strip(), result, predicate[1] if predicate else "", said)


def _remarks(text: str, comments: list[str]) -> list[str]:
    return [comments[int(number)] for number in _KEPT.findall(text)]
