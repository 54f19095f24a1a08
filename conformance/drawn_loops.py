"""Drawn loops, in Pallas's words and in ours: what they carry stays or changes, is read or not, and is used later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import Any, Final

from hypothesis import strategies as st

from conformance.cases.cheat_sheet.pairs import out, smem, vmem
from mosaic_tpu.builder import f32, i32

type Draw = Callable[[st.SearchStrategy[Any]], Any]
#: What of each kind there is to start from.
STARTS: Final = {"int": ("7", "1", "0", "s[0]", "s[1]"), "float": ("2.5", "0.0", "f[0]"), "vector": ("x[...]",)}
#: Where a value of each kind is stored, to be used.
STORES: Final = {"int": "o[{}] = {}", "float": "g[{}] = {}", "vector": "y[{}] = {}"}
OPERANDS: Final = {
    "s": smem(i32),
    "f": smem(f32),
    "x": vmem(f32),
    "o": out(i32, (64,), space="smem"),
    "g": out(f32, (64,), space="smem"),
    "y": out(f32, (64, 8, 128)),
}


@dataclass
class Source:
    """A program being drawn.

    Attributes:
        draw: of hypothesis.
        theirs: lines of Pallas's.
        ours: lines of ours.
        known: names that may be read here, and their kinds.
        count: how many names and places there are, of the whole program.
    """

    draw: Draw
    theirs: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    known: dict[str, str] = field(default_factory=dict)
    count: list[int] = field(default_factory=lambda: [0])

    def one(self, *choices: Any) -> Any:
        """One of these."""
        return self.draw(st.sampled_from(choices))

    def fresh(self) -> int:
        """A number that is given once."""
        self.count[0] += 1
        return self.count[0] - 1

    def both(self, line: str) -> None:
        """A line that both have."""
        self.theirs.append(line)
        self.ours.append(line)

    def of(self, kind: str) -> list[str]:
        """Names of a kind."""
        return [n for n, k in self.known.items() if k == kind]

    def term(self, kind: str) -> str:
        """What may stand in an expression."""
        return self.one(*self.of(kind), *STARTS[kind])

    def expression(self, kind: str) -> str:
        """A term, or a sum or product that reads one name at least, where there is one."""
        names = self.of(kind)
        if not names or self.one(True, False, False):
            return self.term(kind)
        name, operator = self.one(*names), self.one("+", "-", "*")
        other = self.term(self.one(kind, "float") if kind == "vector" else kind)
        return f"{name} {operator} {other}" if self.one(True, False) else f"{other} {operator} {name}"

    def store(self, name: str, kind: str) -> None:
        """Use a value, or a sum with it."""
        text = name if self.one(True, False) else f"{name} + {self.term(kind)}"
        self.both(STORES[kind].format(self.fresh(), text))


def loops(draw: Draw) -> tuple[str, str]:
    """A program in Pallas and in ours: one loop or two, one behind or within the other."""
    source = Source(draw)
    for _ in range(source.one(1, 1, 2)):
        loop(source, depth=0)
    return "\n".join(source.theirs), "\n".join(source.ours)


def loop(source: Source, depth: int) -> None:
    """A loop, and a use of each of its results."""
    kind = source.one("static", "static", "unrolled", "dynamic", "while")
    n = source.fresh()
    kinds = [source.one("int", "int", "float", "vector") for _ in range(source.one(1, 2, 3))]
    if kind == "while":
        kinds[0] = "int"
    starts = [source.one(*source.of(k), *STARTS[k]) for k in kinds]
    carries = [f"{k[0]}{n}_{m}" for m, k in enumerate(kinds)]
    index = () if kind == "while" else (f"i{n}",)
    inner = replace(source, theirs=[], ours=[], known={**source.known, **dict.fromkeys(index, "int")})
    inner.known.update(zip(carries, kinds, strict=True))
    if depth < 1 and source.one(True, False, False):
        loop(inner, depth + 1)
    if depth and kind in ("static", "unrolled"):  # there JAX counts the start of a carry as read, read or not
        for name, k in zip(carries, kinds, strict=True):
            inner.store(name, k)
    inner.both(STORES["int"].format(source.fresh(), inner.expression("int")))  # without an effect JAX drops it all
    following = [next_carry(inner, name, k, carries, kinds) for name, k in zip(carries, kinds, strict=True)]
    # Of a counter of the body's own, from anywhere but 0, Pallas gives a wrong result, and we the right one.
    following = [
        f"1 + {name}" if text == f"{name} + 1" and start != "0" else text
        for name, text, start in zip(carries, following, starts, strict=True)
    ]
    if kind == "while":
        following[0] = f"{carries[0]} + {source.one('2', 's[2]')}"
    inner.both(f"return ({', '.join(following)},)")
    unpacked = [f"{', '.join(carries)}, = c", *inner.theirs]
    names = ", ".join((*index, *carries))
    source.theirs += [f"def b{n}({', '.join((*index, 'c'))}):", *(indent(line, "    ") for line in unpacked)]
    source.ours += [f"def b{n}({names}):", *(indent(line, "    ") for line in inner.ours)]
    results, init = ", ".join(f"r{c}" for c in carries), f"({', '.join(starts)},)"
    if kind == "while":
        test = f"{carries[0]} < {source.one('9', 's[3]', *source.of('int'))}"
        source.theirs.append(f"{results}, = lax.while_loop(lambda c: c[0]{test[len(carries[0]) :]}, b{n}, {init})")
        source.ours.append(f"{results}, = b.pallas.while_loop(lambda {', '.join(carries)}: {test}, b{n}, {init})")
    else:
        how = bounds(source, kind, depth)
        for lines, call in ((source.theirs, "lax"), (source.ours, "b.pallas")):
            lines.append(f"{results}, = {call}.fori_loop({how[0]}, b{n}, {init}{how[1]})")
    for name, k in zip(carries, kinds, strict=True):
        source.known[f"r{name}"] = k
        source.store(f"r{name}", k)


def next_carry(source: Source, name: str, kind: str, carries: list[str], kinds: list[str]) -> str:
    """What the body gives for a carry: itself, another one, or something else."""
    others = [c for c, k in zip(carries, kinds, strict=True) if k == kind]
    return source.one(name, name, source.one(*others), source.expression(kind), f"{name} + {source.term(kind)}")


def bounds(source: Source, kind: str, depth: int) -> tuple[str, str]:
    """The bounds of a counted loop, and how it is unrolled; one that never runs is in no other."""
    low, length = source.one(0, 0, 1, -2), source.one(1, 2, 4, 4 if depth else 0)
    if kind == "dynamic":
        return source.one(f"{low}, s[1]", f"s[0], {low + length}", "s[0], s[1]"), ""
    ways = ("True", "0", str(length)) if kind == "unrolled" else ("False", "1", "2", "3")
    how = source.one("", *ways)
    return f"{low}, {low + length}", f", unroll={how}" if how else ""
