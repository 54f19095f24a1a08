"""The TPU compiler's word on every kernel of the zoo, for every generation, without a TPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import pallas
from conformance.harness.aot import TARGETS, Compiler, missing
from mosaic_tpu import zoo
from mosaic_tpu.zoo import KernelInfo

#: The generations that every kernel of the zoo must compile for.
REQUIRED = ("v5e", "v6e", "tpu7x")
#: One case of each reason for which the compiler refuses what lowers.
REFUSED = list({case.refused: case for case in reversed(CASES) if case.refused}.values())
PRESETS = [(info, name) for info in zoo.KERNELS.values() for name in info.presets]

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "libtpu is there")


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler() as found:
        yield found


@pytest.mark.parametrize(("info", "preset"), PRESETS, ids=[f"{info.name}-{name}" for info, name in PRESETS])
def test_every_preset_compiles(info: KernelInfo, preset: str, compiler: Compiler, record: Record) -> None:
    text = info.kernel.lower(info.presets[preset]).stablehlo
    results = {target: compiler.compile(text, target, timeout=300.0) for target in TARGETS}
    record(
        "compile",
        kernel=info.name,
        config=preset,
        **{t: "accepted" if r.ok else f"refused: {r.reason}" for t, r in results.items()},
    )
    for target, result in results.items():
        expected = info.refusals.get(target, "")
        assert target not in REQUIRED or not expected, f"{target} must accept every kernel of the zoo"
        assert result.ok == (not expected), f"{target}: {result.reason}\n{result.raw}"
        assert expected in result.reason


@pytest.mark.parametrize("target", REQUIRED)
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_the_compiler_refuses_is_refused_with_the_reason(
    case: KernelCase, target: str, compiler: Compiler, record: Record
) -> None:
    text = pallas.lower_to_stablehlo(case.ours, *case.ours_args)
    result = compiler.compile(text, target)
    record("refused", kernel=case.kernel, config=case.config, target=target, reason=result.reason)
    assert not result.ok
    assert case.refused in result.reason


def test_the_seeds_form_of_the_gated_delta_net_is_refused(compiler: Compiler, record: Record) -> None:
    case = next(c for c in CASES if c.kernel == "gated_delta_net, seed's form")
    text = pallas.lower_to_stablehlo(case.ours, *case.ours_args)
    for target in REQUIRED:
        result = compiler.compile(text, target)
        record("refused", kernel=case.kernel, config=case.config, target=target, reason=result.reason)
        assert not result.ok
        assert "vector.extract" in result.reason
