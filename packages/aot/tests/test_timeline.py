"""The clock of a run, against timelines reckoned by hand: what overlaps, and what is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mosaic_tpu.aot._timeline import CALL, Frame, Speed, Timeline, walk
from mosaic_tpu.sim.record import Entered, Entry, Moved, Started, Waited

#: A copy from HBM takes 100 cycles and one for every 10 bytes, a copy to it 40 and those.
SPEED = Speed(bytes_per_cycle=10.0, fetch=100.0, store=40.0)
BODY = (0, 0)
#: A kernel of 500 cycles that starts a copy after 10, another after 20, and waits after 310 and 320.
START, OTHER, WAIT, LAST = 1, 2, 3, 4
FRAMES = {
    CALL: Frame(None, 0.0, 0.0),
    BODY: Frame(CALL, 0.0, 500.0, {START: (10.0,), OTHER: (20.0,), WAIT: (310.0,), LAST: (320.0,)}),
}


def fetched(op: int, size: int, semaphore: int = 0) -> Started:
    return Started(op, (semaphore,), size, "any", "vmem")


def ran(*entries: Entry, frames: dict[tuple[int, int], Frame] = FRAMES, single: Sequence[str] = ()) -> Timeline:
    return walk([Entered(*BODY), *entries], frames, BODY, SPEED, single)


def test_a_copy_is_hidden_by_what_runs_meanwhile() -> None:
    # From 10 to 10 + 100 + 100 = 210; the wait is at 310.
    found = ran(fetched(START, 1000), Waited(WAIT, 0, 1000))
    assert found == Timeline(cycles=500.0, waited=0.0, waits=1, copies=1, bytes=1000)


def test_a_copy_that_takes_longer_is_waited_for() -> None:
    # From 10 to 10 + 100 + 500 = 610: 300 cycles at 310, and 190 are left.
    found = ran(fetched(START, 5000), Waited(WAIT, 0, 5000))
    assert (found.cycles, found.waited) == (800.0, 300.0)


def test_a_wait_at_once_takes_all_of_the_copy() -> None:
    frames = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0,), WAIT: (11.0,)})}
    found = ran(fetched(START, 1000), Waited(WAIT, 0, 1000), frames=frames)
    assert (found.cycles, found.waited) == (500.0 + 199.0, 199.0)


def test_copies_on_two_semaphores_are_on_their_way_together() -> None:
    # To 610 and to 20 + 100 + 500 = 620; the second is waited for at 610 + 10.
    found = ran(fetched(START, 5000), fetched(OTHER, 5000, 1), Waited(WAIT, 0, 5000), Waited(LAST, 1, 5000))
    assert (found.cycles, found.waited, found.copies) == (800.0, 300.0, 2)


def test_one_after_the_other_they_take_the_sum() -> None:
    frames = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0,), WAIT: (10.0,), OTHER: (20.0,), LAST: (20.0,)})}
    found = ran(
        fetched(START, 5000), Waited(WAIT, 0, 5000), fetched(OTHER, 5000, 1), Waited(LAST, 1, 5000), frames=frames
    )
    assert (found.cycles, found.waited) == (500.0 + 2 * 600.0, 1200.0)


def test_a_wait_is_for_the_copies_of_its_own_semaphore() -> None:
    # The long one, to 1,120, is on the other semaphore, and nobody waits for it.
    found = ran(fetched(START, 1000), fetched(OTHER, 10000, 1), Waited(WAIT, 0, 1000))
    assert (found.cycles, found.waited, found.bytes) == (500.0, 0.0, 11000)
    assert ran(fetched(START, 1000), fetched(OTHER, 10000, 1), Waited(WAIT, 1, 10000)).waited == 1120.0 - 310.0


def test_a_wait_takes_as_many_copies_as_have_its_bytes() -> None:
    # To 610 and to 220: one wait for both is over with the later one.
    both = ran(fetched(START, 5000), fetched(OTHER, 1000), Waited(WAIT, 0, 6000))
    assert (both.waited, both.waits) == (300.0, 2)
    part = ran(fetched(START, 5000), Waited(WAIT, 0, 2000), Waited(LAST, 0, 3000))
    assert (part.waited, part.waits) == (300.0, 2)


def test_a_wait_before_any_start_takes_no_time() -> None:
    assert ran(Waited(WAIT, 0, 1000)) == Timeline(cycles=500.0, waited=0.0, waits=0, copies=0, bytes=0)
    assert ran(Waited(START, 0, 1000), fetched(OTHER, 5000), Waited(WAIT, 0, 5000)).waited == 310.0


@pytest.mark.parametrize(("size", "waited"), [(0, 0.0), (10, 91.0)])
def test_a_copy_of_nothing_takes_no_time(size: int, waited: float) -> None:
    frames = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0,), WAIT: (20.0,)})}
    assert ran(fetched(START, size), Waited(WAIT, 0, size), frames=frames).waited == waited


@pytest.mark.parametrize(
    ("source", "target", "waited", "moved"),
    [
        ("any", "vmem", 150.0, 500),  # 100 + 50
        ("vmem", "hbm", 90.0, 500),  # 40 + 50
        ("hbm", "any", 240.0, 1000),  # read and written: 100 + 40 + 2 · 50
        ("vmem", "vmem", 0.0, 0),  # does not touch HBM
    ],
)
def test_what_a_copy_takes_depends_on_where_its_ends_are(source: str, target: str, waited: float, moved: int) -> None:
    frames = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0,), WAIT: (10.0,)})}
    found = ran(Started(START, (0,), 500, source, target), Waited(WAIT, 0, 500), frames=frames)
    assert (found.waited, found.bytes) == (waited, moved)


# --- loops ----------------------------------------------------------------------------------------------------------
LOOP = (5, 0)


def looped(start: float, wait: float) -> dict[tuple[int, int], Frame]:
    """A kernel of 30 cycles with a loop after 20, whose body takes 200."""
    return {
        CALL: Frame(None, 0.0, 7.0),
        BODY: Frame(CALL, 3.0, 30.0, {}),
        LOOP: Frame(BODY, 20.0, 200.0, {START: (start,), WAIT: (wait,)}),
    }


def test_each_trip_takes_the_loops_cycles() -> None:
    trip = (Entered(*LOOP), fetched(START, 500), Waited(WAIT, 0, 500))
    assert ran(*trip * 3, frames=looped(0.0, 150.0)) == Timeline(3 * 200.0 + 30.0 + 7.0, 0.0, 3, 3, 1500)
    # Started last: each takes 150, of which the trip has 50 left after it, and the next one 10 before its wait.
    first, later = (Entered(*LOOP), fetched(START, 500)), (Entered(*LOOP), Waited(WAIT, 0, 500), fetched(START, 500))
    assert ran(*first, *later * 2, frames=looped(150.0, 10.0)).waited == 90.0 + 90.0


def test_a_region_that_is_no_frame_takes_no_time_of_its_own() -> None:
    assert ran(Entered(77, 0)).cycles == ran().cycles == 500.0


def test_what_the_compiler_unrolled_stands_there_several_times() -> None:
    frames = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0, 110.0), WAIT: (100.0, 200.0)})}
    trip = (fetched(START, 500), Waited(WAIT, 0, 500))
    assert ran(*trip * 2, frames=frames).waited == 60.0 + 60.0
    once = FRAMES | {BODY: replace(FRAMES[BODY], ops={START: (10.0,), WAIT: (100.0,)})}
    assert ran(*trip * 2, frames=once).waited == 60.0 + 150.0  # the second start is where the first wait is


# --- the pipeline ---------------------------------------------------------------------------------------------------
def stepped(cycles: float) -> dict[tuple[int, int], Frame]:
    return {CALL: Frame(None, 0.0, 0.0), BODY: Frame(CALL, 0.0, cycles)}


def block(ahead: bool) -> Moved:
    return Moved("x", 500, True, ahead)


STORED = Moved("y", 500, False, False)


def test_the_next_block_comes_while_this_step_runs() -> None:
    # A block takes 150. The first is waited for, the second is here before its step, of 200 cycles, ends.
    entries = [block(False), block(True), Entered(*BODY), block(True), Entered(*BODY), Entered(*BODY)]
    found = walk(entries, stepped(200.0), BODY, SPEED)
    assert found == Timeline(cycles=150.0 + 3 * 200.0, waited=150.0, waits=3, copies=3, bytes=1500)


def test_a_block_that_comes_later_than_the_step_before_ends_is_waited_for() -> None:
    # 0: blocks 1 and 2 start; 150: the first step, to 160. Block 3 starts, block 2 is here: to 170. Block 3 until 310.
    entries = [block(False), block(True), Entered(*BODY), block(True), Entered(*BODY), Entered(*BODY)]
    assert walk(entries, stepped(10.0), BODY, SPEED).cycles == 150.0 + 10.0 + 10.0 + 140.0 + 10.0


def test_with_one_buffer_each_step_waits_for_its_block() -> None:
    entries = [block(False), Entered(*BODY)] * 3
    assert walk(entries, stepped(200.0), BODY, SPEED, {"x"}).cycles == 3 * (150.0 + 200.0)


def test_a_block_that_does_not_change_is_not_copied_again() -> None:
    assert walk([block(False), *[Entered(*BODY)] * 3], stepped(200.0), BODY, SPEED).cycles == 150.0 + 3 * 200.0


def test_a_result_is_stored_while_the_next_step_runs() -> None:
    # Stored at 200, 400 and 600, each for 90 cycles; of the last one all 90 are waited for.
    found = walk([Entered(*BODY), STORED] * 3, stepped(200.0), BODY, SPEED)
    assert (found.cycles, found.waited, found.waits) == (600.0 + 90.0, 90.0, 3)


def test_a_result_with_one_buffer_is_waited_for_at_once() -> None:
    assert walk([Entered(*BODY), STORED] * 3, stepped(200.0), BODY, SPEED, {"y"}).cycles == 3 * (200.0 + 90.0)
