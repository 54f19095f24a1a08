"""``python -m conformance.fuzz --count 20000 --seed N``: random programs on both engines and on NumPy."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from typing import Final

import jax

from conformance.fuzz.campaign import Coverage, run

#: Programs of one seed: so many are run again to see a failure again.
_CHUNK: Final = 250
#: Chunks after which compiled ops are dropped: they would fill the memory.
_CLEARED_AFTER: Final = 8


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; 1 if a program fails."""
    parser = argparse.ArgumentParser(prog="python -m conformance.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="programs (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the first programs; random if omitted")
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error(f"--count {options.count}: at least 1")
    first = secrets.randbelow(1 << 30) if options.seed is None else options.seed
    print(f"{options.count} programs from seed {first}", flush=True)
    progress = _Progress(options.count)
    coverage = Coverage()
    for chunk, done in enumerate(range(0, options.count, _CHUNK)):
        count = min(_CHUNK, options.count - done)
        try:
            run(first + chunk, count, coverage=coverage, each=progress.step)
        except Exception:
            progress.end()
            traceback.print_exc()
            print(f"\nAgain: python -m conformance.fuzz --count {count} --seed {first + chunk}")
            return 1
        if chunk % _CLEARED_AFTER == _CLEARED_AFTER - 1:
            jax.clear_caches()
    progress.end()
    print(coverage)
    return 0


class _Progress:
    """A line on a terminal that is rewritten; elsewhere one every thousand programs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.started = time.monotonic()
        self.live = sys.stderr.isatty()

    def step(self) -> None:
        self.done += 1
        if self.done % (10 if self.live else 1000) == 0:
            rate = self.done / (time.monotonic() - self.started)
            line = f"{self.done}/{self.count} programs, {rate:.1f} a second"
            print(line, end="\r" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        seconds = time.monotonic() - self.started
        print(f"{self.done} programs in {seconds:.0f} s, {self.done / max(seconds, 1e-9):.1f} a second", flush=True)


if __name__ == "__main__":
    sys.exit(main())
