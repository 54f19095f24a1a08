"""Of all that the compiler dumps, the kernels are found, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic_tpu.aot.schedule import DumpError, find_dumps

OURS = 'custom-call(), custom_call_target="tpu_custom_call", backend_config={}'
WHATS = (
    "00-pre-finalize-registers-and-allocations",
    "01-final_hlo-static-per-bundle-utilization",
    "02-schedule-analysis_final_bundles",
    "03-final_bundles",
)


def leave(folder: Path, stamp: int, op: str, analysis: str = OURS, text: str = "") -> None:
    """What the compiler leaves of an HLO op; every file holds its own name."""
    folder.mkdir(exist_ok=True)
    for what in WHATS:
        said = analysis if "analysis" in what else f"{text}{what}"
        (folder / f"{stamp}-{op}-{what}.txt").write_text(said)


def test_kernels_are_found_by_the_name_of_their_op(tmp_path: Path) -> None:
    leave(tmp_path / "llo", 17, "my-kernel.1")
    leave(tmp_path / "llo", 18, "name.2")
    found = find_dumps(tmp_path)
    assert set(found) == {"my-kernel.1", "name.2"}
    assert found["name.2"].bundles == "03-final_bundles"
    assert found["name.2"].allocations == "00-pre-finalize-registers-and-allocations"
    assert (found["name.2"].hlo_op, found["name.2"].profile) == ("name.2", "")


def test_the_body_of_the_call_is_read(tmp_path: Path) -> None:
    call = 'custom-call(%name.1), custom_call_target="tpu_custom_call", backend_config={"custom_call_config":{"body":'
    leave(tmp_path, 17, "name.1", analysis=f'  4.00 bundles: %name.1 = {call}"TUzv+/="')
    leave(tmp_path, 18, "name.10", analysis=f'  4.00 bundles: %name.10 = {call}"AAAA"')
    leave(tmp_path, 19, "name.2")
    assert {op: d.body for op, d in find_dumps(tmp_path).items()} == {
        "name.1": "TUzv+/=",
        "name.10": "AAAA",
        "name.2": "",
    }


def test_copies_and_the_program_around_them_are_left_out(tmp_path: Path) -> None:
    leave(tmp_path, 17, "copy.1", analysis="copy(%Arg_0.1)")
    leave(tmp_path, 17, "TLP")
    leave(tmp_path, 17, "<late-finalization>")
    assert find_dumps(tmp_path) == {}


def test_the_last_compile_of_an_op_counts(tmp_path: Path) -> None:
    leave(tmp_path, 18, "name.1", text="new ")
    leave(tmp_path, 17, "name.1", text="old ")
    assert find_dumps(tmp_path)["name.1"].bundles == "new 03-final_bundles"


def test_the_profile_of_an_op_is_its_own(tmp_path: Path) -> None:
    leave(tmp_path / "llo", 17, "name.1")
    leave(tmp_path / "llo", 17, "name.11")
    (tmp_path / "name.1_TPU v5 lite_static_llo_profile.textproto").write_text("one")
    assert {op: dumps.profile for op, dumps in find_dumps(tmp_path).items()} == {"name.1": "one", "name.11": ""}


def test_a_kernel_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    leave(tmp_path, 17, "name.1")
    (tmp_path / f"17-name.1-{WHATS[1]}.txt").unlink()
    with pytest.raises(DumpError, match=r"name\.1 has no dump final_hlo-static-per-bundle-utilization"):
        find_dumps(tmp_path)


def test_there_has_to_be_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no folder"):
        find_dumps(tmp_path / "none")
