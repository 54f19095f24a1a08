"""Small kernels with windows, and programs that call a kernel: what the tests of lint share."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

_WINDOWED = """module {
  func.func @kernel(%i: i32, %x: memref<BLOCKxELEMENT, #tpu.memory_space<vmem>>,
                    %y: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: GRID>,
      window_params = [{transform_indices = @moving, window_bounds = array<i64: BOUNDS>KIND},
                       {transform_indices = @staying, window_bounds = array<i64: 8, 128>}]} {
    return
  }
  func.func @moving(%i: i32) -> (INDICES) {
    %c0 = arith.constant 0 : i32
    %factor = arith.constant FACTOR : i32
    %at = arith.muli %i, %factor : i32
    return %atZEROS : INDICES
  }
  func.func @staying(%i: i32) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    return %c0, %c0 : i32, i32
  }
}"""


def windowed(
    *block: int,
    element: str = "f32",
    grid: int = 4,
    factor: int = 1,
    padding: tuple[Sequence[int], Sequence[int]] | None = None,
) -> str:
    """A kernel whose input's window moves along its first dimension.

    Args:
        block: shape of the window.
        element: type of its elements.
        grid: steps.
        factor: what a step moves the window by.
        padding: before and after the array; the index then counts elements.
    """
    kind = "" if padding is None else f", window_kind = #tpu.element_window<{', '.join(str([*p]) for p in padding)}>"
    text = _WINDOWED.replace("BLOCK", "x".join(map(str, block))).replace("BOUNDS", ", ".join(map(str, block)))
    text = text.replace("INDICES", ", ".join(["i32"] * len(block))).replace("ZEROS", ", %c0" * (len(block) - 1))
    text = text.replace("ELEMENT", element).replace("GRID", str(grid)).replace("FACTOR", str(factor))
    return text.replace("KIND", kind)


def program(body: str, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """StableHLO that calls a kernel.

    Args:
        body: the kernel's module, MLIR text.
        inputs: types of the arrays that it takes, ``"64x128xf32"``.
        outputs: of those that it gives.
    """
    call = {"body": base64.b64encode(body.encode()).decode(), "serialization_format": 1}
    config = json.dumps({"custom_call_config": call}).replace('"', "\\22")
    takes, gives = [f"tensor<{i}>" for i in inputs], [f"tensor<{o}>" for o in outputs]
    numbers = range(len(inputs))
    arguments = ", ".join(f"%arg{n}: {takes[n]}" for n in numbers)
    results = ", ".join(f"%0#{n}" if len(gives) > 1 else "%0" for n in range(len(gives)))
    return f"""module {{
  func.func public @main({arguments}) -> ({", ".join(gives)}) {{
    %0{f":{len(gives)}" if len(gives) > 1 else ""} = stablehlo.custom_call @tpu_custom_call({
        ", ".join(f"%arg{n}" for n in numbers)
    }) {{backend_config = "{config}", kernel_name = "called"}} : ({", ".join(takes)}) -> ({", ".join(gives)})
    return {results} : {", ".join(gives)}
  }}
}}"""
