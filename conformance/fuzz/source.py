"""Programs as text, in the builder's words: what a failure prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from conformance.fuzz.program import (
    Block,
    Buffer,
    Copy,
    Dim,
    EdgeLoad,
    For,
    If,
    Let,
    Load,
    Program,
    Read,
    Reshape,
    Scalar,
    Scope,
    Slice,
    Start,
    Statement,
    Store,
    Test,
    View,
    While,
    results_of,
)

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "ge": ">="}


def source(program: Program) -> str:
    """A program, a line a statement; ``v3`` is the fourth value in scope."""
    lines = [f"grid={program.grid}, s={list(program.scalars)}, t={list(program.table)}"]
    lines.append(f"seed={program.seed}, dma={program.dma!r}")
    lines += [_buffer(b) for b in program.buffers]
    return "\n".join([*lines, *_Text().block(program.body, 0)])


def _buffer(b: Buffer) -> str:
    facts = [str(b.type), b.space]
    if b.map is not None:
        facts.append(f"of {list(b.array_shape)} at ({b.map}){', one buffer' if b.single else ''}")
    if b.alias is not None:
        facts.append(f"starts as {b.alias}")
    return f"{b.name}: {b.role} {' '.join(facts)}"


class _Text:
    def __init__(self) -> None:
        self.loops = 0

    def block(self, block: Block, known: int) -> Iterator[str]:
        """The lines of a block after so many values; indented by its owner."""
        for statement in block.body:
            yield from self.statement(statement, known)
            known += results_of(statement)
        if block.yields:
            yield f"yield {_values(block.yields)}"

    def statement(self, statement: Statement, known: int) -> Iterator[str]:
        match statement:
            case Let(op, args, params, type_):
                given = ", ".join([*(f"v{a}" for a in args), *map(repr, params)])
                yield f"v{known} = {op}({given})  # {type_}"
            case Load(view):
                yield f"v{known} = {_view(view)}  # {view.type}"
            case EdgeLoad(buffer, type_, rows, pid):
                yield f"v{known} = where(iota + i{pid} * {type_.shape[0]} < {rows}, {buffer}[...], 0)  # {type_}"
            case Read(scalar):
                yield f"v{known} = {_scalar(scalar)}"
            case Store(view, value, mask):
                yield f"{_view(view)} = v{value}{'' if mask is None else f', mask=v{mask}'}"
            case For():
                upper = _scalar(statement.upper) if isinstance(statement.upper, Scalar) else statement.upper
                head = f"for j{self.loops} in {statement.lower}..{upper} (unroll={statement.unroll})"
                yield from self.loop(head, statement, known)
            case While():
                limit = _scalar(statement.limit) if isinstance(statement.limit, Scalar) else statement.limit
                head = f"j{self.loops} = 0; while j{self.loops} < {limit}, j{self.loops} += {statement.step}"
                yield from self.loop(head, statement, known)
            case If():
                results = f"{_names(known, len(statement.types))} = " if statement.types else ""
                yield f"{results}if {_test(statement.test)}:"
                yield from _indented(self.block(statement.then, known))
                if statement.otherwise is not None:
                    yield "else:"
                    yield from _indented(self.block(statement.otherwise, known))
            case Scope(buffers, block):
                yield f"run_scoped {', '.join(f'{b.name}: {b.type}' for b in buffers)}:"
                yield from _indented(self.block(block, known))
            case Copy():
                semaphore = "a semaphore" if statement.semaphore is None else f"sems[{_start(statement.semaphore)}]"
                views = f"{_view(statement.source)}, {_view(statement.target)}, {semaphore}"
                yield f"copy = async_copy({views}){'; copy.start()' if statement.starts else ''}"
                yield from _indented(self.block(statement.meanwhile, known))
                yield from ["copy.wait()"] * statement.waits

    def loop(self, head: str, loop: For | While, known: int) -> Iterator[str]:
        count = len(loop.carry)
        results = f"{_names(known, count)} = " if count else ""
        yield f"{results}{head}, carry {_names(known, count)} = {_values(loop.carry)}:"
        self.loops += 1
        yield from _indented(self.block(loop.block, known + count))
        self.loops -= 1


def _indented(lines: Iterable[str]) -> Iterator[str]:
    found = [f"    {line}" for line in lines]
    yield from found or ["    pass"]


def _names(first: int, count: int) -> str:
    return _values(range(first, first + count))


def _values(numbers: Iterable[int]) -> str:
    return f"({', '.join(f'v{n}' for n in numbers)})"


def _scalar(scalar: Scalar) -> str:
    if scalar.kind == "s":
        return f"s[{scalar.number}]"
    return f"{'j' if scalar.kind == 'loop' else 'i'}{scalar.number}"


def _start(start: Start) -> str:
    if start.scalar is None:
        return str(start.base)
    scaled = _scalar(start.scalar) + (f" * {start.times}" if start.times != 1 else "")
    return scaled + (f" + {start.base}" if start.base else "")


def _dim(d: Dim) -> str:
    if d.drop:
        return _start(d.start)
    stride = f", {d.stride}" if d.stride != 1 else ""
    return f"ds({_start(d.start)}, {d.size}{stride})"


def _view(view: View) -> str:
    text = view.buffer
    for transform in view.transforms:
        match transform:
            case Slice(dims):
                text += f".at[{', '.join(map(_dim, dims))}]"
            case Reshape(shape):
                text += f".reshape{shape}"
            case _:
                text += f".bitcast({transform.dtype})"
    return text


def _test(test: Test) -> str:
    modulus = "" if test.modulus is None else f" % {test.modulus}"
    return f"{_scalar(test.scalar)}{modulus} {_SIGNS[test.predicate]} {test.value}"
