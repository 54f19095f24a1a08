"""`mosaic-tpu doctor`: what is installed, and what of it works."""

import platform
from typing import Annotated, Any, Final

from cyclopts import Parameter

from mosaic_tpu.cli._checks import VARIABLES, checks, versions
from mosaic_tpu.cli._jax import users_environment
from mosaic_tpu.cli._options import COMMON, SECONDS, Common
from mosaic_tpu.cli._output import answer, table, working

DOCTOR: Final = "mosaic-tpu/doctor/1"
_STYLES: Final = {"ok": "green", "no": "yellow", "fault": "bold red"}


def doctor(
    *,
    timeout: Annotated[float, Parameter(help="Seconds for the compiler and for a TPU.", validator=SECONDS)] = 60.0,
    common: Common = COMMON,
) -> int:
    """Say what is installed and works: packages, IR versions, libtpu, a TPU.

    Exit code 1 if something is broken; that there is no TPU is no fault.
    """
    users = users_environment()
    with working("looking"):
        found = checks(timeout, users)
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    data = {
        "python": python,
        "packages": versions(),
        "environment": {name: users[name] for name in VARIABLES if name in users},
        "checks": [{"name": c.name, "state": c.state, "says": c.says, "remedy": c.remedy} for c in found],
    }
    answer(common.json, DOCTOR, data, lambda out: _print(out, data))
    return 1 if any(check.state == "fault" for check in found) else 0


def _print(out: Any, data: dict[str, Any]) -> None:
    from rich.text import Text

    packages = [("python", data["python"]), *((n, v or "not installed") for n, v in data["packages"].items())]
    out.print(table(["package", "version"], packages))
    if data["environment"]:
        out.print()
        out.print(table(["variable", "value"], data["environment"].items()))
    out.print()
    rows = [(c["name"], Text(c["state"], style=_STYLES[c["state"]]), c["says"]) for c in data["checks"]]
    out.print(table(["check", "", "says"], rows))
    for check in data["checks"]:
        if check["remedy"]:
            out.print(f"\n{check['name']}: {check['remedy']}", soft_wrap=True)
