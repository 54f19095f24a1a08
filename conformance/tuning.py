"""`python -m conformance.tuning matmul ragged_paged_attention`: the tables that the zoo's defaults come from.

Each entry is a shape that a served model has, on one generation. Ranked by estimates: see `mosaic_tpu.aot.tune`. An
entry that is there already, of the same search space, kernel and compiler, is kept: a run that was killed goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot, zoo
from mosaic_tpu.builder import bf16
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig
from mosaic_tpu.zoo.kernels.ragged_paged_attention import RaggedPagedAttentionConfig

ZOO: Final = Path(__file__).resolve().parents[1] / "zoo"
FOLDER: Final = ZOO / "src/mosaic_tpu/zoo/tuned"
README: Final = ZOO / "README.md"
#: The tables stand behind it, to the end of the file.
MARK: Final = "<!-- tuned: `nox -s tune` writes what follows -->"


@dataclass(frozen=True)
class Task:
    """One entry of a table.

    Attributes:
        key: what it is found by.
        configs: the search space, the config that is taken without a table first.
        scalars: the batch, for trip counts that depend on data.
    """

    key: dict[str, Any]
    configs: list[Any]
    scalars: tuple[Any, ...] | Callable[[Any], tuple[Any, ...]] = ()


def matmuls() -> Iterator[Task]:
    """Products of Llama-3-8B with 1,024 tokens, up and down the MLP, and a square one."""
    for m, n, k in ((1024, 14336, 4096), (1024, 4096, 14336), (2048, 2048, 2048)):
        base = MatmulConfig(m=m, n=n, k=k, x_dtype=bf16, y_dtype=bf16, out_dtype=bf16)
        space = aot.space(base, block_m=(256, 512), block_n=(512, 1024), block_k=(512, 1024))
        yield Task(
            {"m": m, "n": n, "k": k, "x_dtype": "bf16", "y_dtype": "bf16", "out_dtype": "bf16"},
            [base, *(c for c in space if c != base)],
        )


#: Heads of queries and of K and V: Llama-3-8B on one chip, Llama-3-70B on eight.
HEADS: Final = ((32, 8), (8, 1))
SEQUENCES: Final = 8


def attentions() -> Iterator[Task]:
    """Batches of prefill and decode, for the heads of served models and the page sizes in use."""
    for q_heads, kv_heads in HEADS:
        for page_size in (16, 128):
            base = RaggedPagedAttentionConfig(
                num_tokens=256,
                num_q_heads=q_heads,
                num_kv_heads=kv_heads,
                head_dim=128,
                num_pages=SEQUENCES * 1024 // page_size,
                page_size=page_size,
                max_num_seqs=SEQUENCES,
                pages_per_seq=1024 // page_size,
                num_kv_pages_per_block=max(1, 256 // page_size),
                num_queries_per_block=32,
                sm_scale=128**-0.5,
            )
            space = aot.space(
                base,
                num_kv_pages_per_block=[tokens // page_size for tokens in (128, 256, 512)],
                num_queries_per_block=(16, 32, 64),
            )
            key = {"q_dtype": "bf16", "kv_dtype": "bf16", "num_q_heads": q_heads, "num_kv_heads": kv_heads,
                   "head_dim": 128, "page_size": page_size}  # fmt: skip
            yield Task(key, [base, *(c for c in space if c != base)], batch(base))


def batch(cfg: RaggedPagedAttentionConfig) -> tuple[Any, ...]:
    """Two prompts and six sequences in decode, of 100 to 1,000 tokens."""
    queries = np.array([100, 150, 1, 1, 1, 1, 1, 1], np.int32)
    kv_lens = np.array([100, 600, 1000, 777, 512, 300, 129, 900], np.int32)
    tables = np.arange(cfg.max_num_seqs * cfg.pages_per_seq, dtype=np.int32).reshape(cfg.max_num_seqs, -1)
    starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
    return kv_lens, tables, starts, np.zeros(2, np.int32), np.array([SEQUENCES], np.int32)


TASKS: Final = {"matmul": matmuls, "ragged_paged_attention": attentions}


def summary(folder: Path = FOLDER) -> str:
    """What the tables say, as Markdown, each with the command that made it; it stands in the zoo's README."""
    parts: list[str] = []
    for name in TASKS:
        entries = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["entries"]
        keys, fields = list(entries[0]["key"]), list(entries[0]["best"])
        head = [*keys, "target", *fields, "cycles", "untuned / best", "by"]
        rows = [
            [
                *e["key"].values(),
                e["target"],
                *(e["best"][f] for f in fields),
                f"{e['cycles']:,.0f}",
                _gain(e),
                e["metric"],
            ]
            for e in entries
        ]
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
        parts.append(f"`nox -s tune -- {name}`, libtpu {entries[0]['compiler']}:\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _gain(entry: dict[str, Any]) -> str:
    """Cycles of the config that is taken without a table, the first of the search space, over the best's."""
    untuned = entry["trials"][0]["cycles"]
    return f"{untuned / entry['cycles']:.2f}" if untuned else "refused"


def main(arguments: list[str] | None = None) -> int:
    """Tune the named kernels, and put what was found into the zoo's README."""
    parser = argparse.ArgumentParser(prog="python -m conformance.tuning", description=__doc__)
    parser.add_argument("kernels", nargs="*", choices=[[], *TASKS], help="all if none is named")
    parser.add_argument("--target", action="append", choices=aot.TARGETS, help=f"default: {', '.join(REQUIRED)}")
    options = parser.parse_args(arguments)
    for name in options.kernels or TASKS:
        for task in TASKS[name]():
            for target in options.target or REQUIRED:
                print(f"{name} {task.key} on {target}", file=sys.stderr, flush=True)
                table = FOLDER / f"{name}.json"
                kernel = zoo.KERNELS[name].kernel
                tuning = aot.tune(kernel, task.configs, target, scalars=task.scalars, table=table, key=task.key)
                print(tuning)
    text = README.read_text(encoding="utf-8")
    README.write_text(text[: text.index(MARK) + len(MARK)] + "\n\n" + summary(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
