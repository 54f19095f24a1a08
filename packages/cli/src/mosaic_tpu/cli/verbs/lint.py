"""`mosaic-tpu lint`: what the TPU compiler would refuse."""

from typing import Annotated, Final

from mosaic_tpu.cli._input import source
from mosaic_tpu.cli._options import COMMON, Common, Limit, Settings, SourceName, Targets, flag, targets_of
from mosaic_tpu.cli._output import answer, report, without_schema

LINT: Final = "mosaic-tpu/lint/1"


def lint(
    name: SourceName,
    /,
    *,
    targets: Targets = None,
    vmem_limit_bytes: Limit = None,
    vmem: Annotated[bool, flag("Say too how much VMEM each buffer takes.")] = False,
    strict: Annotated[bool, flag("Warnings fail too.")] = False,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Say what the TPU compiler would refuse, in milliseconds and without it.

    All generations are looked at if no target is given.

    Exit code 1 if there is an error.
    """
    from mosaic_tpu import aot

    found = source(name, settings)
    with found.named():
        said = aot.lint(found.data, target=targets_of(targets), vmem_limit_bytes=vmem_limit_bytes)
        need = aot.vmem_need(found.data, vmem_limit_bytes=vmem_limit_bytes) if vmem else None
    data = {"source": found.name, **without_schema(said.to_json())}
    if need is not None:
        data["vmem"] = without_schema(need.to_json())
    text = str(said) if need is None else f"{said}\n\n{need}"
    answer(common.json, LINT, found.placed(data), lambda out: report(out, found.placed(text)))
    return 1 if said.errors or (strict and said.warnings) else 0
