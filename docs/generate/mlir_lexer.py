"""Colours for MLIR: ops, values, types, attributes and strings."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.lexers import _mapping
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class MlirLexer(RegexLexer):
    """MLIR in its pretty form."""

    name = "MLIR"
    aliases: ClassVar = ["mlir"]
    filenames: ClassVar = ["*.mlir"]
    tokens: ClassVar = {
        "root": [
            (r"\s+", Text),
            (r"//.*$", Comment.Single),
            (r'"(\\.|[^"\\])*"', String),
            (r"%[\w$.-]+(:\d+|#\d+)?", Name.Variable),
            (r"@[\w$.-]+", Name.Function),
            (r"\^\w+", Name.Label),
            (r"[#!][a-z_]\w*(\.\w+)*", Name.Decorator),
            (r"\b(module|return|func|attributes|iter_args|to|step|then|else|do|dense|array|affine_map|true|false)\b(?!\.)",
             Keyword),
            (r"\b[a-z_]\w*(\.\w+)+\b", Name.Builtin),
            (r"\b(memref|vector|tensor|tuple|index|none|[su]?i\d+|f\d+\w*|bf16|f8\w+)\b(?=[<>,)\s:}]|$)", Keyword.Type),
            (r"(\d+x)+(?=[a-z!])", Number.Integer),
            (r"[su]?i\d+|bf16|f(?:8|16|32|64)\w*", Keyword.Type),
            (r"-?\d+\.\d+([eE][+-]?\d+)?", Number.Float),
            (r"0x[0-9a-fA-F]+|-?\d+", Number.Integer),
            (r"[A-Za-z_]\w*", Name),
            (r"->|[=:+*-]", Operator),
            (r"[()\[\]{}<>,?]", Punctuation),
            (r".", Text),
        ]
    }  # fmt: skip


__all__ = ["MlirLexer"]  # Pygments looks here


def register() -> None:
    """Make ``mlir`` a language of code blocks.

    Pygments finds lexers of others only in packages that are installed, by their entry points, and this is none. The
    table of its own lexers, `_mapping`, takes one more; a test looks at the colours.
    """
    _mapping.LEXERS["MlirLexer"] = (__name__, MlirLexer.name, tuple(MlirLexer.aliases), (), ())
