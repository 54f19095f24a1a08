"""The TPU compiler's word on every kernel of the zoo, for every generation, without a TPU."""

from __future__ import annotations

import pytest

from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import pallas
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot, zoo
from mosaic_tpu.aot import TARGETS, Compilation
from mosaic_tpu.aot.errors import CompileError
from mosaic_tpu.zoo import KernelInfo

#: One case of each reason for which the compiler refuses what lowers.
REFUSED = list({case.refused: case for case in reversed(CASES) if case.refused}.values())
PRESETS = [(info, name) for info in zoo.KERNELS.values() for name in info.presets]

pytestmark = pytest.mark.usefixtures("tpu_compiler")


def compiled(text: str, target: str) -> Compilation:
    (result,) = aot.compile_all([text], [target])
    return result


def verdict(result: Compilation) -> str:
    return f"refused: {result.error.summary}" if result.error else "accepted"


@pytest.mark.parametrize(("info", "preset"), PRESETS, ids=[f"{info.name}-{name}" for info, name in PRESETS])
def test_every_preset_compiles(info: KernelInfo, preset: str, record: Record) -> None:
    text = info.kernel.lower(info.presets[preset]).stablehlo
    results = {target: compiled(text, target) for target in TARGETS}
    record("compile", kernel=info.name, config=preset, **{t: verdict(r) for t, r in results.items()})
    for target, result in results.items():
        expected = info.refusals.get(target, "")
        assert target not in REQUIRED or not expected, f"{target} must accept every kernel of the zoo"
        assert result.ok == (not expected), f"{target}: {result.error}\n{result.error and result.error.raw}"
        assert expected in verdict(result)


@pytest.mark.parametrize("target", REQUIRED)
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_the_compiler_refuses_is_refused_with_the_reason(case: KernelCase, target: str, record: Record) -> None:
    text = pallas.lower_to_stablehlo(case.ours, *case.ours_args)
    with pytest.raises(CompileError) as refused:
        aot.compile(text, target)
    error = refused.value
    record("refused", kernel=case.kernel, config=case.config, target=target, error=type(error).__name__,
           reason=error.summary)  # fmt: skip
    assert case.refused in error.raw


def test_the_seeds_form_of_the_gated_delta_net_is_refused(record: Record) -> None:
    case = next(c for c in CASES if c.kernel == "gated_delta_net, seed's form")
    text = pallas.lower_to_stablehlo(case.ours, *case.ours_args)
    for target in REQUIRED:
        with pytest.raises(CompileError) as refused:
            aot.compile(text, target)
        error = refused.value
        record("refused", kernel=case.kernel, config=case.config, target=target, error=type(error).__name__,
               reason=error.summary)  # fmt: skip
        assert error.op == "vector.extract"
