"""``python -m conformance.fuzz --count 20000 --seed N``: random programs on both engines and on NumPy."""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import secrets
import sys
import time
from typing import Final

from conformance.fuzz.campaign import Coverage, outcome

#: Programs of one seed: so many are run again to see a failure again.
_CHUNK: Final = 250
#: Chunks after which a process is replaced: compiled ops would fill its memory.
_CHUNKS_OF_A_PROCESS: Final = 8


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; 1 if a program fails."""
    parser = argparse.ArgumentParser(prog="python -m conformance.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="programs (default %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="of the first programs; random if omitted")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    options = parser.parse_args(arguments)
    for name in ("count", "jobs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: at least 1")
    first = secrets.randbelow(1 << 30) if options.seed is None else options.seed
    print(f"{options.count} programs from seed {first}", flush=True)
    chunks = [
        (first + number, min(_CHUNK, options.count - done))
        for number, done in enumerate(range(0, options.count, _CHUNK))
    ]
    progress = _Progress(options.count)
    total = Coverage()
    with concurrent.futures.ProcessPoolExecutor(
        min(options.jobs, len(chunks)),
        mp_context=multiprocessing.get_context("spawn"),  # JAX does not survive a fork
        max_tasks_per_child=_CHUNKS_OF_A_PROCESS,
    ) as pool:
        running = {pool.submit(outcome, *chunk): chunk for chunk in chunks}
        for future in concurrent.futures.as_completed(running):
            seed, count = running[future]
            found = future.result()
            if isinstance(found, str):
                pool.shutdown(wait=False, cancel_futures=True)
                progress.end()
                print(f"{found}\nAgain: python -m conformance.fuzz --count {count} --seed {seed}")
                return 1
            total.merge(found)
            progress.add(count)
    progress.end()
    print(total)
    return 0


class _Progress:
    """A line on a terminal that is rewritten; elsewhere one every thousand programs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.started = time.monotonic()
        self.live = sys.stderr.isatty()

    def add(self, count: int) -> None:
        before, self.done = self.done, self.done + count
        if self.live or self.done // 1000 > before // 1000:
            rate = self.done / (time.monotonic() - self.started)
            line = f"{self.done}/{self.count} programs, {rate:.1f} a second"
            print(line, end="\r" if self.live else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        seconds = time.monotonic() - self.started
        print(f"{self.done} programs in {seconds:.0f} s, {self.done / max(seconds, 1e-9):.1f} a second", flush=True)


if __name__ == "__main__":
    sys.exit(main())
