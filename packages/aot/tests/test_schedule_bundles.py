"""Bundles are read whatever the compiler remarks in them, and damaged ones are refused."""

from __future__ import annotations

import pytest

from mosaic_tpu.aot.schedule import DumpError, stripped
from mosaic_tpu.aot.schedule.bundles import read_bundles

from .schedule_kit import dumps

HALT = """\
   0   :  { %1 = shalt.err (!%p2_p0) /* said: { } ;; and
   0x7   :  { %9 = not.a.bundle }
 */  ;;  %v3_v1 = vld [vmem:[%s4_s2 + $0x8] sm:$0xff] } /* Start region 7 :: End region 6 */
 0x1 LB: >> { %5 = dma.hbm_to_vmem [thread:$0]  (%p6_p3), /*hbm=*/%s1, /*size_in_granules=*/16 }
 0x2   :  {}
"""


def test_every_bundle_of_a_dump_is_read() -> None:
    # The compiler counts them in the first lines of its analysis of this schedule.
    assert len(read_bundles(dumps("matmul", "v6e").bundles)) == 185


def test_a_bundle_says_where_it_stands_and_what_it_does() -> None:
    first, second, empty = read_bundles(HALT)
    assert [(b.address, b.label, b.depth) for b in (first, second, empty)] == [(0, "", 0), (1, "LB", 2), (2, "", 0)]
    assert [(i.result, i.opcode, i.predicate) for i in first.instructions] == [
        ("%1", "shalt.err", "!%p2_p0"),
        ("%v3_v1", "vld", ""),
    ]
    assert (first.opens, first.closes, empty.instructions) == ((7,), (6,), ())


def test_arguments_keep_their_names() -> None:
    (copy,) = read_bundles(HALT)[1].instructions
    assert copy.operands == "[thread:$0]  (%p6_p3), hbm=%s1, size_in_granules=16"


def test_a_remark_that_looks_like_a_bundle_is_none() -> None:
    assert "not.a.bundle" in read_bundles(HALT)[0].instructions[0].comments[0]
    assert len(read_bundles(HALT)) == 3


def test_stripping_leaves_no_comment_and_changes_no_name() -> None:
    assert stripped(HALT).splitlines() == [
        "0 : { %1 = shalt.err (!%p2_p0) ;; %v3_v1 = vld [vmem:[%s4_s2 + $0x8] sm:$0xff] }",
        "0x1 LB: >> { %5 = dma.hbm_to_vmem [thread:$0] (%p6_p3), %s1, 16 }",
        "0x2 : {}",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no bundle"),
        ("= control target key start\n", "no bundle"),
        (HALT.replace(" 0x1 LB", " 0x3 LB"), "bundle 0x1 is missing"),
        (HALT.replace("0x2   :  {}", "0x2   :  {"), "cut"),
        (HALT.replace(" */  ;;", "   ;;").replace("/* Start", "Start").replace(" 6 */", " 6"), "comment"),
        ("   0   :  { 12 }\n", "no instruction"),
    ],
)
def test_damaged_bundles_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(DumpError, match=complaint):
        read_bundles(text)


def test_a_comment_without_an_end_cannot_be_stripped() -> None:
    with pytest.raises(DumpError, match="comment"):
        stripped("   0   :  { %1 = sfence /* said }")
