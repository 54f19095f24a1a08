"""Python code as a tree, written the way `ruff format` writes it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WIDTH: Final = 120
#: Longer strings are constants at the top, where they may be split.
_LONG: Final = 80
_REPEATED: Final = 3


class Node:
    """An expression."""

    __slots__ = ()

    def flat(self, names: Names) -> str:
        """On one line."""
        raise NotImplementedError

    def broken(self, names: Names, indent: int, before: str, after: str) -> Iterator[str]:
        """On several lines, where one does not hold it; between ``before`` and ``after``."""
        yield f"{' ' * indent}{before}{self.flat(names)}{after}"

    def parts(self) -> Iterator[Node]:
        """The expressions inside."""
        return iter(())


class Text(Node):
    """Code that is not split."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def flat(self, names: Names) -> str:
        return self.text


class String(Node):
    """A string literal; a long one is a constant at the top."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def flat(self, names: Names) -> str:
        return names.string(self.value)


class Shape(Node):
    """A tuple of ints; a repeated one is a constant at the top."""

    __slots__ = ("sizes",)

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes

    def flat(self, names: Names) -> str:
        return names.shape(self.sizes)


class Items(Node):
    """Entries between brackets."""

    __slots__ = ("close", "items", "open")

    def __init__(self, open_: str, items: Sequence[Node], close: str) -> None:
        self.open = open_
        self.items = items
        self.close = close

    def flat(self, names: Names) -> str:
        comma = "," if len(self.items) == 1 and self.open == "(" else ""
        return f"{self.open}{', '.join([i.flat(names) for i in self.items])}{comma}{self.close}"

    def broken(self, names: Names, indent: int, before: str, after: str) -> Iterator[str]:
        yield f"{' ' * indent}{before}{self.open}"
        joined = ", ".join([i.flat(names) for i in self.items])
        if self._keeps_together and indent + 4 + len(joined) <= WIDTH:
            yield f"{' ' * (indent + 4)}{joined}"
        else:
            for item in self.items:
                yield from lines(item, names, indent + 4, "", ",")
        yield f"{' ' * indent}{self.close}{after}"

    #: Arguments may share a line inside of their brackets; entries of lists, tuples and dictionaries do not.
    _keeps_together = False

    def parts(self) -> Iterator[Node]:
        return iter(self.items)


class Call(Items):
    """A call."""

    __slots__ = ()
    _keeps_together = True

    def __init__(self, function: str, *arguments: Node, **keywords: Node | None) -> None:
        given = [*arguments, *(Named(f"{k}=", v) for k, v in keywords.items() if v is not None)]
        super().__init__(f"{function}(", given, ")")


class Named(Node):
    """``name=value`` of a call."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: Node) -> None:
        self.name = name
        self.value = value

    def flat(self, names: Names) -> str:
        return self.name + self.value.flat(names)

    def broken(self, names: Names, indent: int, before: str, after: str) -> Iterator[str]:
        return self.value.broken(names, indent, before + self.name, after)

    def parts(self) -> Iterator[Node]:
        return iter((self.value,))


class Pair(Node):
    """``"key": value`` of a dictionary."""

    __slots__ = ("key", "value")

    def __init__(self, key: str, value: Node) -> None:
        self.key = String(key)
        self.value = value

    def flat(self, names: Names) -> str:
        return f"{self.key.flat(names)}: {self.value.flat(names)}"

    def broken(self, names: Names, indent: int, before: str, after: str) -> Iterator[str]:
        return self.value.broken(names, indent, f"{before}{self.key.flat(names)}: ", after)

    def parts(self) -> Iterator[Node]:
        return iter((self.key, self.value))


class Operator(Node):
    """``x + y``."""

    __slots__ = ("lhs", "rhs", "sign")

    def __init__(self, lhs: Node, sign: str, rhs: Node) -> None:
        self.lhs = lhs
        self.sign = sign
        self.rhs = rhs

    def flat(self, names: Names) -> str:
        return f"{self.lhs.flat(names)} {self.sign} {self.rhs.flat(names)}"

    def parts(self) -> Iterator[Node]:
        return iter((self.lhs, self.rhs))


def lines(node: Node, names: Names, indent: int, before: str, after: str) -> Iterator[str]:
    """An expression between two texts, on one line if it fits."""
    flat = node.flat(names)
    if indent + len(before) + len(flat) + len(after) <= WIDTH:
        yield f"{' ' * indent}{before}{flat}{after}"
    else:
        yield from node.broken(names, indent, before, after)


def strings(texts: Sequence[str]) -> Items:
    """A list of string literals."""
    return Items("[", [String(t) for t in texts], "]")


def mapping(entries: Mapping[str, Node]) -> Items:
    """A dictionary with string keys."""
    return Items("{", [Pair(k, v) for k, v in entries.items()], "}")


def quoted(text: str) -> str:
    """A string literal as `ruff format` has it, in ASCII and with the quotes that need fewer escapes."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    body = "'".join(ascii(part)[1:-1] for part in text.split("'"))
    return f"{mark}{body.replace(mark, chr(92) + mark)}{mark}"


@dataclass
class Names:
    """What is written once, at the top: repeated shapes and long strings."""

    shapes: Counter[tuple[int, ...]] = field(default_factory=Counter[tuple[int, ...]])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    _shapes: dict[tuple[int, ...], str] = field(default_factory=dict[tuple[int, ...], str])
    _strings: dict[str, str] = field(default_factory=dict[str, str])

    def collect(self, node: Node) -> None:
        """Count what an expression holds."""
        if isinstance(node, Shape):
            self.shapes[node.sizes] += 1
        elif isinstance(node, String):
            if len(node.value) > _LONG or len(quoted(node.value)) > _LONG:
                self._name(node.value)
        else:
            if isinstance(node, Pair) and isinstance(node.value, String) and len(node.flat(Names())) > _LONG:
                self._name(node.value.value)
            for part in node.parts():
                self.collect(part)

    def _name(self, text: str) -> None:
        if text not in self.texts:
            # Named after its content, so that another text elsewhere changes no name.
            digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
            self.texts[text] = f"TEXT_{digest[:8].upper()}"

    def shape(self, sizes: tuple[int, ...]) -> str:
        """A shape as it is written in the kernel."""
        found = self._shapes.get(sizes)
        if found is None:
            named = len(sizes) > 1 and self.shapes[sizes] >= _REPEATED and all(s >= 0 for s in sizes)
            found = self._shapes[sizes] = _shape_name(sizes) if named else tuple_text(sizes)
        return found

    def string(self, value: str) -> str:
        """A string as it is written in the kernel."""
        found = self._strings.get(value)
        if found is None:
            found = self._strings[value] = self.texts.get(value) or quoted(value)
        return found

    def constants(self) -> Iterator[str]:
        """The lines at the top."""
        for sizes in sorted(s for s in self.shapes if self.shape(s) == _shape_name(s)):
            yield f"{_shape_name(sizes)} = {tuple_text(sizes)}"
        for value, name in self.texts.items():
            yield from string_constant(name, value)


def _shape_name(sizes: tuple[int, ...]) -> str:
    return "SHAPE_" + "X".join(map(str, sizes))


def tuple_text(sizes: tuple[int, ...]) -> str:
    """``(8, 128)``."""
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def string_constant(name: str, value: str) -> Iterator[str]:
    """``NAME = "…"``, on several lines if one does not hold it."""
    line = f"{name} = {quoted(value)}"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{name} = ("
    piece, width = "", 0
    for character in value:
        cost = 2 if character in "\"'" else len(ascii(character)) - 2
        if width + cost > WIDTH - 6:
            yield f"    {quoted(piece)}"
            piece, width = "", 0
        piece, width = piece + character, width + cost
    yield f"    {quoted(piece)}"
    yield ")"
