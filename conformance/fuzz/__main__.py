"""``python -m conformance.fuzz --count 20000 --seed N``: random programs on both engines and on NumPy."""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import queue
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from conformance.fuzz.campaign import Coverage, outcome

#: Programs of one seed: so many are run again to see a failure again. A chunk is a seed and a number of programs.
_CHUNK: Final = 250
#: Chunks after which a process is replaced: compiled ops would fill its memory.
_CHUNKS_OF_A_PROCESS: Final = 8

type Chunk = tuple[int, int]


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
    with _Processes(min(options.jobs, len(chunks))) as processes:
        for (seed, count), found in processes.outcomes(chunks):
            if isinstance(found, str):
                progress.end()
                print(f"{found}\nAgain: python -m conformance.fuzz --count {count} --seed {seed}")
                return 1
            total.merge(found)
            progress.add(count)
    progress.end()
    print(total)
    return 0


class _Processes:
    """Runs chunks in processes, each replaced after `_CHUNKS_OF_A_PROCESS`.

    A pool's own ``max_tasks_per_child`` leaves CPython 3.12's without a process once all of them have had their share.
    """

    def __init__(self, count: int) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(count)
        self._idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        for _ in range(count):
            self._idle.put(_Process())

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *exception: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().end()

    def outcomes(self, chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, Coverage | str]]:
        """Each chunk with its outcome, as they end."""
        running = {self._threads.submit(self._run, chunk): chunk for chunk in chunks}
        for future in concurrent.futures.as_completed(running):
            yield running[future], future.result()

    def _run(self, chunk: Chunk) -> Coverage | str:
        process = self._idle.get()
        try:
            return process.run(chunk)
        finally:
            self._idle.put(process)


class _Process:
    """One process at a time."""

    def __init__(self) -> None:
        self._pool: concurrent.futures.ProcessPoolExecutor | None = None
        self._chunks = 0

    def run(self, chunk: Chunk) -> Coverage | str:
        """The outcome of a chunk."""
        if self._chunks == _CHUNKS_OF_A_PROCESS:
            self.end()
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")  # JAX does not survive a fork
            self._pool, self._chunks = concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn), 0
        self._chunks += 1
        return self._pool.submit(outcome, *chunk).result()

    def end(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


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
