"""Functions."""

from mosaic_tpu.sim._emit import Emitter, Info, callee, rule, waits
from mosaic_tpu.sim._module import Operation


@rule("func.return")
def _return(e: Emitter, op: Operation) -> None:
    e.line("return (" + "".join(f"{e.full(o)}, " for o in op.operands) + ")")


@rule("func.call", writes=True)
def _call(e: Emitter, op: Operation) -> None:
    name = callee(op)
    function = e.module.functions[name]
    arguments: list[str] = []
    for operand in op.operands:
        if operand.type.kind == "memref":
            ref = e.ref(operand)
            arguments += (e.view(ref), ref.buffer)
        else:
            text = e.full(operand)  # which the function may overwrite where it lies in memory
            arguments.append(f"np.array({text})" if operand.type.kind == "vector" else text)
    call = f"functions[{name!r}](core{''.join(', ' + a for a in arguments)})"
    if waits(e.module, function):
        call = f"yield from {call}"
    results = [f"s{r.index}" for r in op.results]
    e.line((f"{', '.join(results)}, = " if results else "") + call)
    for r, text in zip(op.results, results, strict=True):
        e.infos[r.index] = Info(text, r.type.shape)
