"""What the builder's tests share: one declared kernel, and one check of every error's message."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from mosaic_tpu.builder import Args, Builder, MemorySpace, Ref, Role, Scalar, SemArray, bf16, f32, i8, i32
from mosaic_tpu.builder.errors import MosaicError

HERE = Path(__file__).parent


def declare(b: Builder, core_type: str = "tc") -> Args:
    """The arguments that every docstring's example may use, and a few more."""
    return b.declare_args(
        {
            "i": Scalar(i32),
            "lens": Ref((4,), i32, memory_space=MemorySpace.SMEM, role=Role.SCALAR_PREFETCH),
            "x": Ref((8, 128), f32),
            "half": Ref((16, 128), bf16),
            "small": Ref((32, 128), i8),
            "ints": Ref((8, 128), i32),
            "cube": Ref((2, 8, 128), f32),
            "hbm": Ref((8, 128), f32, memory_space="any"),
            "y": Ref((8, 128), f32, role=Role.OUTPUT),
            "scratch": Ref((8, 128), f32, role=Role.SCRATCH),
            "sems": SemArray((2,)),
        },
        grid=(4,),
        core_type=core_type,
    )


@pytest.fixture
def b() -> Builder:
    return Builder("kernel")


@pytest.fixture
def a(b: Builder) -> Args:
    return declare(b)


type Raises = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def raises() -> Raises:
    """``with raises(DTypeError, "addf", "f32"):`` one line that fails, with all that a message promises.

    That is: the exact class, each given text (an operation, an operand's type …), this very line, and a hint.
    """

    @contextmanager
    def check(error: type[MosaicError], *texts: str, hint: str = "") -> Iterator[None]:
        with pytest.raises(error) as caught:
            yield
        assert caught.type is error
        message = str(caught.value)
        for text in texts:
            assert text in message, f"{text!r} is not in:\n{message}"
        mine = [
            f for f in traceback.extract_tb(caught.tb) if f.filename != __file__ and Path(f.filename).parent == HERE
        ]
        assert f"  at: {mine[-1].filename}:{mine[-1].lineno}\n" in message, (
            f"another line than {mine[-1].lineno} in:\n{message}"
        )
        assert caught.value.op, f"no operation in:\n{message}"
        assert re.search(rf"^  hint: .*{re.escape(hint)}", message, re.MULTILINE), f"no such hint in:\n{message}"

    return check
