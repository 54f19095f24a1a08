"""`mosaic-tpu tune`: the best config of a kernel of the zoo."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from mosaic_tpu.cli._errors import UsageError
from mosaic_tpu.cli._jax import with_tpu
from mosaic_tpu.cli._kernels import Chosen, assigned, chosen, near, plain_config, typed, value_of
from mosaic_tpu.cli._notes import noted
from mosaic_tpu.cli._options import COMMON, GENERATIONS, Common, Kernel, Settings, Timeout, flag, keeps, target_of
from mosaic_tpu.cli._output import answer, table, working

if TYPE_CHECKING:
    from mosaic_tpu.aot import Tuning

TUNE: Final = "mosaic-tpu/tune/1"
#: Configs that are tried: the compiler takes a second for each.
_MOST: Final = 10_000


def tune(
    name: Kernel,
    /,
    *,
    vary: Annotated[
        list[str] | None,
        Parameter(
            negative=(), metavar="FIELD=VALUES", help="What to try, --vary block_m=256,512; repeat it for more fields."
        ),
    ] = None,
    target: Annotated[
        str | None,
        Parameter(metavar="NAME", help=f"One of {GENERATIONS}; else the attached TPU's with --measure, or v6e."),
    ] = None,
    measure: Annotated[bool, flag("Time each config on the attached TPU.")] = False,
    file: Annotated[Path | None, keeps("--table", "Keep the result in this JSON file.")] = None,
    timeout: Timeout = 300.0,
    workers: Annotated[int | None, Parameter(help="Compiler processes.", validator=Number(gte=1))] = None,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Rank configs of a kernel, by the compiler's estimates or on a TPU.

    Where trip counts depend on data, the simulator counts them on generated data.

    Exit code 1 if no config has an estimate.
    """
    found = chosen(name, settings)
    wanted = None if target is None else target_of(target)
    if measure:
        with_tpu()
    from mosaic_tpu import aot

    base = found.config
    configs = aot.space(base, **_choices(vary, found, base))
    with noted(), working(f"{len(configs)} configs of {found.name}", shown=False):
        tuning = aot.tune(
            found.info.kernel, configs, wanted or (None if measure else "v6e"), scalars=_scalars(found, base),
            timeout=timeout, workers=workers, measure=measure, table=file,
        )  # fmt: skip
    best = tuning.trials[0].cycles is not None
    data = {
        "kernel": found.info.name,
        "preset": found.preset,
        "target": str(tuning.target),
        "metric": tuning.metric,
        "why": tuning.why,
        "best": plain_config(tuning.best) if best else None,
        "trials": [
            {
                "config": plain_config(t.config),
                "cycles": t.cycles,
                "refused": t.refused,
                "stage": t.stage,
                "transient": t.transient,
            }
            for t in tuning.trials
        ],
    }
    answer(common.json, TUNE, data, lambda out: _print(out, tuning))
    return 0 if best else 1


def _choices(vary: list[str] | None, found: Chosen, base: Any) -> dict[str, list[Any]]:
    """The values to try for each field, each once.

    Raises:
        UsageError: a field or a value is none, or they make more configs than anyone waits for.
    """
    known = list(plain_config(base))
    if not vary:
        blocks = [n for n in known if "block" in n]
        raise UsageError("no field varies", f"--vary {blocks[0]}=…; the blocks are {', '.join(blocks)}")
    choices: dict[str, dict[Any, None]] = {}
    for text in vary:
        field, values = assigned("--vary", text, "FIELD=VALUE,VALUE")
        if field not in known:
            raise UsageError(f"{found.info.name} has no field {field!r}", near(field, known))
        tried = choices.setdefault(field, {})
        for value in values.split(","):
            tried[typed(found.info.kernel.config, field, value_of(value))] = None
    count = math.prod(map(len, choices.values()))
    if count > _MOST:
        raise UsageError(f"--vary makes {count:,} configs", f"give fewer values: it takes {_MOST:,} configs at most")
    return {field: list(tried) for field, tried in choices.items()}


def _scalars(found: Chosen, base: Any) -> Any:
    """The scalar operands of an example: what trip counts depend on."""
    import numpy as np

    from mosaic_tpu import aot
    from mosaic_tpu.cli._arrays import operands_of_zoo

    taken = aot.operands(found.info.kernel.lower(base))
    count = sum(o.role in ("bound", "prefetch") for o in taken)
    return operands_of_zoo(found.info, base, np.random.default_rng(0))[:count]


def _print(out: Any, tuning: "Tuning") -> None:
    fields = tuning.fields or tuple(plain_config(tuning.trials[0].config))
    fewest = tuning.trials[0].cycles
    rows: list[tuple[Any, ...]] = []
    for trial in tuning.trials:
        values = [plain_config(trial.config)[field] for field in fields]
        if trial.cycles is not None and fewest is not None:
            rows.append((f"{trial.cycles:,.0f}", f"{trial.cycles / fewest:.2f}", *values, ""))
        else:
            how = "no answer of" if trial.transient else "refused by"
            rows.append(("", "", *values, f"{how} {trial.stage}: {trial.refused}"))
    out.print(f"{tuning.name} for {tuning.target}: cycles are {tuning.cycles_are}", soft_wrap=True)
    if tuning.why:
        out.print(f"not the compiler's estimate: {tuning.why}", soft_wrap=True)
    out.print()
    out.print(
        table(["cycles", "of best", *fields, "" if fewest else "why"], rows, right=["cycles", "of best", *fields])
    )
