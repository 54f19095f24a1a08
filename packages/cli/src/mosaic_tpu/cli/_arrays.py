"""Arrays to simulate a module with: from files, or generated."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mosaic_tpu.cli._errors import UsageError, unreadable
from mosaic_tpu.cli._input import Source
from mosaic_tpu.zoo import KernelInfo
from mosaic_tpu.zoo.examples import drawn

#: Bytes that are taken without being asked for.
LARGE: Final = 4e9
#: How often a simulation holds its arrays: as they are given, as the kernel has them, what XLA makes of them, and which
#: elements were written. By `nox -s measure -- memory` at most 3.9 for every kernel of the zoo on both engines, and
#: 2.5 for a module that has its arrays in VMEM as a whole; one that holds many values as large as those takes more.
SIMULATED: Final = 4.0
#: How often a reference holds each element of an output in float64: its value, how far off it may be, and what that is
#: made of; and those of an input once. The same command measures it. What is most for one kernel is little for another:
#: attention has no more of its pages in float64 than one sequence has.
OUTPUTS: Final = 3.0
INPUTS: Final = 1.0

type Array = NDArray[Any]
type Specs = Sequence[tuple[tuple[int, ...], Any]]


@dataclass(frozen=True)
class Given:
    """What a simulation gets.

    Attributes:
        arrays: what the call takes, in order.
        how: a line for each: its name, its kind, and where it is from.
        outputs: shape and dtype of each result, where the module does not say them.
    """

    arrays: list[Array]
    how: list[dict[str, str]]
    outputs: list[tuple[tuple[int, ...], Any]] | None = None


def given(source: Source, files: Sequence[Path], seed: int, *, large: bool = True) -> Given:
    """The arrays of files, of the kernel's element types where a file does not say them, or generated ones.

    Of a kernel of the zoo they are a valid call. Of a module floats are normal and integers 0, since nobody knows what
    its scalars mean.

    Raises:
        UsageError: a file holds no arrays, or the arrays would take most of the memory.
        SourceError: the module does not say what it takes.
    """
    if files:
        loaded = _typed([array for file in files for array in _loaded(file)], source)
        return Given(loaded, [_how(f"input {n}", array, "file") for n, array in enumerate(loaded)])
    from mosaic_tpu.sim import ir

    rng = np.random.default_rng(seed)
    if source.chosen is not None:
        kernel, config = source.chosen.info.kernel, source.chosen.config
        room_for(foreseen(*arrays_of(kernel, config)), large)
        arrays = operands_of_zoo(source.chosen.info, config, rng)
        return Given(arrays, [_how(n, a, "generated") for n, a in zip(kernel.inputs, arrays, strict=True)])
    if source.program is not None:
        specs = [(f"arg{n}", *spec) for n, spec in enumerate(ir.inputs_of(source.program))]
        outputs = None
    else:
        specs, outputs = _of_module(source)
    room_for(foreseen([(shape, dtype) for _, shape, dtype in specs], outputs or []), large)
    made = [(name, _generated(shape, dtype, rng)) for name, shape, dtype in specs]
    return Given([array for array, _ in (m for _, m in made)], [_how(n, a, how) for n, (a, how) in made], outputs)


def arrays_of(kernel: Any, config: Any) -> tuple[Specs, Specs]:
    """What a call of a kernel takes and gives."""
    ins, outs = kernel.inputs_of(config), kernel.outputs_of(config)
    return [(a.shape, a.dtype.numpy) for a in ins], [(a.shape, a.dtype.numpy) for a in outs]


def foreseen(inputs: Specs, outputs: Specs) -> float:
    """Bytes that simulating a call takes: at the most for kernels of the zoo, more for one that holds many values."""
    return SIMULATED * sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in (*inputs, *outputs))


def foreseen_with_reference(inputs: Specs, outputs: Specs) -> float:
    """Bytes that it takes to compare the results with a reference in float64, too."""
    ins, outs = (sum(math.prod(shape) for shape, _ in specs) for specs in (inputs, outputs))
    return foreseen(inputs, outputs) + np.dtype(np.float64).itemsize * (INPUTS * ins + OUTPUTS * outs)


def room_for(need: float, large: bool) -> None:
    """Refuse what would take much memory, before it does.

    Args:
        need: bytes.
        large: go on all the same.

    Raises:
        UsageError: it would.
    """
    free = _free()
    if not large and need > min(LARGE, LARGE if free is None else free / 2):
        known = "" if free is None else f"; {free / 1e9:,.1f} GB are free"
        raise UsageError(
            f"this takes about {need / 1e9:,.1f} GB of memory{known}", "take smaller arrays, or go on with --large"
        )


def _free() -> int | None:
    """Bytes of memory that may be had, where Linux says it."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _how(name: str, array: Array, origin: str) -> dict[str, str]:
    return {"name": name, "array": f"{array.dtype}{list(array.shape)}", "from": origin}


def _loaded(file: Path) -> list[Array]:
    """Of a .npy file its array, of a .npz file all in it, in their order."""
    from mosaic_tpu.sim import ir

    hint = "a .npy or .npz file, as numpy.save and numpy.savez write it"
    try:
        ir.check_file(file)
        read: Any = np.load(file, allow_pickle=False)
        return [read] if isinstance(read, np.ndarray) else [read[name] for name in read.files]
    except OSError as error:
        raise unreadable(file, error, hint) from None
    except Exception as error:  # whatever zipfile and numpy make of damaged bytes
        raise UsageError(f"{file} holds no arrays: {error}", hint) from None


def _typed(arrays: list[Array], source: Source) -> list[Array]:
    """Arrays of element types that NumPy's files have no name for, as bf16, are of the type that the kernel takes."""
    if not any(_is_nameless(array) for array in arrays):
        return arrays
    kinds = [np.dtype(kind) for kind in _kinds_taken(source)]
    return [
        array.view(kind) if _is_nameless(array) and kind is not None and kind.itemsize == array.itemsize else array
        for array, kind in itertools.zip_longest(arrays, kinds[: len(arrays)])
    ]


def _is_nameless(array: Array) -> bool:
    return array.dtype.kind == "V" and array.dtype.names is None


def _kinds_taken(source: Source) -> list[Any]:
    """The element type of each array of a call; none where the module does not say them."""
    from mosaic_tpu.aot.errors import SourceError
    from mosaic_tpu.sim import ir

    if source.chosen is not None:
        return [array.dtype.numpy for array in source.chosen.info.kernel.inputs_of(source.chosen.config)]
    if source.program is not None:
        return [kind for _, kind in ir.inputs_of(source.program)]
    try:
        return [kind for _, _, kind in _of_module(source)[0]]
    except SourceError:
        return []


def operands_of_zoo(info: KernelInfo, config: Any, rng: np.random.Generator) -> list[Array]:
    """The operands of a kernel's call on an example, in their order.

    They are the function's arrays, as it prepares them; what it adds itself, like `seq_buf_idx`, is 0.
    """
    arrays = info.example(config, rng).arrays
    operands = arrays if info.prepare is None else info.prepare(config, **arrays)
    zeros = {o.name: np.zeros(o.shape, o.dtype.numpy) for o in info.kernel.inputs_of(config)}
    return [np.asarray(operands.get(name, zeros[name])) for name in info.kernel.inputs]


def _of_module(source: Source) -> tuple[list[tuple[str, tuple[int, ...], Any]], list[tuple[tuple[int, ...], Any]]]:
    """The arrays that the windows of a module cover."""
    from mosaic_tpu.aot import operands

    found = operands(source.data)
    takes = [(o.name, o.shape, o.dtype) for o in found if o.role != "output"]
    return takes, [(o.shape, o.dtype) for o in found if o.role == "output"]


def _generated(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> tuple[Array, str]:
    kind = np.dtype(dtype)
    if kind.kind in "iub" or "int" in kind.name:
        return np.zeros(shape, kind), "zeros"
    return drawn(shape, kind, lambda count: rng.standard_normal(count, np.float32)), "normal"
