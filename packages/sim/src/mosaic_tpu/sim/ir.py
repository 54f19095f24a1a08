"""A Mosaic module, and the calls of one in a JAX program, as plain Python data: for tools that do not run it.

>>> from mosaic_tpu.sim import ir
>>> text = '''
... func.func @nothing(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) {
...   return
... }'''
>>> module = ir.read(text)
>>> [op.name for op in module.kernel.operation.walk()], module.kernel.arguments[0].type.shape
(['func.func', 'func.return'], (8, 128))
"""

from mosaic_tpu.sim._compat import in_stable_form as in_stable_form
from mosaic_tpu.sim._compat import new_context as new_context
from mosaic_tpu.sim._compat import parse_program as parse_program
from mosaic_tpu.sim._effects import base_of as base_of
from mosaic_tpu.sim._files import check_file as check_file
from mosaic_tpu.sim._files import contents_of as contents_of
from mosaic_tpu.sim._layout import Argument as Argument
from mosaic_tpu.sim._layout import Layout as Layout
from mosaic_tpu.sim._layout import Window as Window
from mosaic_tpu.sim._layout import layout as layout
from mosaic_tpu.sim._module import Block as Block
from mosaic_tpu.sim._module import Function as Function
from mosaic_tpu.sim._module import Module as Module
from mosaic_tpu.sim._module import Operation as Operation
from mosaic_tpu.sim._module import Value as Value
from mosaic_tpu.sim._program import KernelCall as KernelCall
from mosaic_tpu.sim._program import calls_of as calls_of
from mosaic_tpu.sim._program import inputs_of as inputs_of
from mosaic_tpu.sim._read import LoweredText as LoweredText
from mosaic_tpu.sim._read import contents as contents
from mosaic_tpu.sim._read import module_of as module_of
from mosaic_tpu.sim._read import program_text as program_text
from mosaic_tpu.sim._read import read as read
from mosaic_tpu.sim._types import DYNAMIC as DYNAMIC
from mosaic_tpu.sim._types import Type as Type
from mosaic_tpu.sim._types import bits_of as bits_of

__all__ = [
    "DYNAMIC",
    "Argument",
    "Block",
    "Function",
    "KernelCall",
    "Layout",
    "LoweredText",
    "Module",
    "Operation",
    "Type",
    "Value",
    "Window",
    "base_of",
    "bits_of",
    "calls_of",
    "check_file",
    "contents",
    "contents_of",
    "in_stable_form",
    "inputs_of",
    "layout",
    "module_of",
    "new_context",
    "parse_program",
    "program_text",
    "read",
]
