"""Sizes read as people write them."""

from __future__ import annotations

import pytest

from mosaic_tpu.aot._text import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (100 << 10, "100 KiB"), (1 << 20, "1 MiB"), (3 << 19, "1.5 MiB"),
        (200 << 20, "200 MiB"),
    ],
)  # fmt: skip
def test_bytes_are_in_the_unit_that_fits(count: int, text: str) -> None:
    assert size(count) == text
