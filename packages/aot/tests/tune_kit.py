"""What the tests of tuning share: kernels to tune."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .conftest import doubled
from .test_work import blocked, counted_loop


@dataclass(frozen=True)
class Config:
    m: int = 512
    block: int = 128

    def __post_init__(self) -> None:
        if self.m % self.block:
            raise ValueError(f"{self.block} does not divide {self.m}")


class Blocked:
    """What `tune` needs of a kernel."""

    name = "blocked"
    inputs = ("x", "y")

    def lower(self, config: Config) -> Any:
        return blocked(config.m, 512, 512, config.block, config.block, 512)


class Called(Blocked):
    inputs = ("x",)

    def lower(self, config: Config) -> Any:
        return doubled()

    def __call__(self, *, cfg: Config, x: Any) -> Any:
        return x * 2


class Counted(Blocked):
    def lower(self, config: Config) -> Any:
        return counted_loop()


class Odd(Blocked):
    """One config whose program is junk, between sound ones."""

    junk: Any = 3

    def lower(self, config: Config) -> Any:
        if config.block != 256:
            return doubled()
        return self.junk() if callable(self.junk) else self.junk


def failing(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail
