"""`nox -s measure`: what the packages know by measuring it, measured again.

Of the TPU compiler, what each generation has code for, which lint goes by, and the latencies of `specialize`; of this
machine, the memory that a simulation takes, by which the command line refuses one. The exit code is 1 if the source
says something else.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from conformance import estimates, memory
from conformance.lint import measure

FIGURES: Final = {"support": measure.main, "latencies": estimates.main, "memory": memory.main}


def main(arguments: list[str] | None = None) -> int:
    """Measure the named figures."""
    parser = argparse.ArgumentParser(prog="python -m conformance.measure", description=__doc__)
    parser.add_argument("figures", nargs="*", choices=[[], *FIGURES], help="all if none is named")
    options = parser.parse_args(arguments)
    codes: list[int] = []
    for name in options.figures or FIGURES:
        print(f"{name}:", flush=True)
        codes.append(FIGURES[name]())
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
