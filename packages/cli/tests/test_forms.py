"""The form of an answer is that of all its parts, and of several answers together."""

from __future__ import annotations

from typing import Any

import pytest

from .cli_kit import shape


@pytest.mark.parametrize(
    ("documents", "form"),
    [
        ([{"schema": "mosaic-tpu/x/1", "a": 1}], {"schema": "mosaic-tpu/x/1", "a": "int"}),
        ([[{"a": 1}, {"a": 2.0}, {"a": "x"}]], [{"a": "float | int | str"}]),
        ([[{"a": 1}, {"a": None}]], [{"a?": "int"}]),
        ([[{"a": 1}, {"b": True}]], [{"a?": "int", "b?": "bool"}]),
        ([{"a": None}], {"a": "null"}),
        ([{"a": None}, {"a": {"b": "x"}}], {"a?": {"b": "str"}}),
        ([{"a": []}, {"a": [1]}], {"a": ["int"]}),
        ([{"op_counts": {"arith.addf": 1, "math.exp": 2}}], {"op_counts": {"*": "int"}}),
        ([{"config": {"m": 1, "scale": None}}], {"config": {"*?": "int"}}),
        ([{"presets": {"default": {"m": 1}, "large": {"m": "x"}}}], {"presets": {"*": {"*": "int | str"}}}),
        ([{"unwritten": {}}], {"unwritten": {}}),
        ([{"rows": [{"a": 1}, {"b": "x"}]}], {"rows": [{"*": "int | str"}]}),
        ([{"runs": [{"a": 1}, {"a": 2}]}], {"runs": [{"a": "int"}]}),
    ],
)
def test_a_form_has_all_that_the_documents_have(documents: list[Any], form: Any) -> None:
    assert shape(*documents) == form
