"""`diagnose`: one refusal, as an error that is ready to raise."""

from __future__ import annotations

from collections.abc import Callable

from mosaic_tpu.aot._diagnose._crash import crashed
from mosaic_tpu.aot._diagnose._message import op_name, read_message
from mosaic_tpu.aot._diagnose._rules import cause_of
from mosaic_tpu.aot.errors import CompileError

#: From an op as the compiler prints it, or as `locator` takes it, to ``"file.py:12"``; ``None`` if it cannot be told.
type Locate = Callable[[str], str | None]


def diagnose(raw: str, *, target: str, died: str = "", locate: Locate | None = None) -> CompileError:
    """The error of a refusal: its class, the reason in plain words, the op, the kernel's line and the remedy.

    Args:
        raw: the text of the compiler's exception, or the log of a process that died.
        target: what was compiled for, for the message.
        died: how the process ended, ``"SIGABRT"`` or ``"exit code 1"``; empty if the compiler answered.
        locate: finds the line of an op where the compiler names none; `locator` makes one from a module.

    Returns:
        An error to raise, with ``raw`` attached as it is.

    Example:
        >>> text = '''INTERNAL: Mosaic failed to compile TPU kernel: infer-vector-layout: unsupported shape cast
        ... at location: loc("kernel"("file.py":29:25))
        ... The MLIR operation involved:
        ...   %3 = "tpu.reshape"(%2) : (vector<8x120xf32>) -> vector<960xf32>'''
        >>> error = diagnose(text, target="v6e")
        >>> print(type(error).__name__, error.op, error.location)
        LayoutError tpu.reshape file.py:29
        >>> error.summary
        'no vector layout for this reshape: vector<8x120xf32> to vector<960xf32>'
    """
    message = read_message(raw)
    cause = crashed(raw, died) if died else cause_of(message)
    op, line = cause.op or message.op, message.location
    if line is None and locate is not None:
        asked = (message.op_text, op, cause.suspect)
        line = next((found for text in asked if text and (found := locate(text))), None)
        if line is not None and op is None:
            op = op_name(cause.suspect)
    return cause.error(cause.summary, op=op, location=line, hint=cause.hint or None, target=target, raw=raw)
