"""Figures for people."""

from __future__ import annotations


def size(count: int) -> str:
    """Bytes in a unit that fits.

    Example:
        >>> size(512), size(4096), size(1_300_000), size(3 << 20)
        ('512 B', '4 KiB', '1.24 MiB', '3 MiB')
    """
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{count} B"
