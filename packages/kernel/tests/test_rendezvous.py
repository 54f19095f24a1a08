"""Where simulated devices meet: nobody's values mix with another run's, and nobody waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mosaic_tpu.kernel._rendezvous import Activity, NoMeetingError, Rendezvous

SECONDS = 60


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def meeting_of(devices: int) -> Rendezvous:
    return Rendezvous(devices, Activity())


def tens(values: dict[int, int]) -> dict[int, int]:
    return {device: 10 * value for device, value in values.items()}


def test_the_last_to_come_concludes_for_all(pool: ThreadPoolExecutor) -> None:
    place, concluded = meeting_of(4), []

    def conclude(values: dict[int, int]) -> dict[int, int]:
        concluded.append(threading.get_ident())
        return tens(values)

    def come(device: int) -> tuple[int, int]:
        time.sleep((3 - device) * 0.02)
        return place.meet(device, device, conclude, seconds=SECONDS)[device], threading.get_ident()

    found = list(pool.map(come, range(4)))
    assert [value for value, _ in found] == [0, 10, 20, 30]
    assert len(concluded) == 1 and concluded[0] in {thread for _, thread in found}


def test_meetings_follow_each_other_and_do_not_mix(pool: ThreadPoolExecutor) -> None:
    place = meeting_of(4)

    def program(device: int) -> list[int]:
        return [sum(place.meet(device, 1000**device * n, tens, seconds=SECONDS).values()) for n in range(200)]

    found = list(pool.map(program, range(4)))
    assert found == [[10 * n * (1 + 1000 + 1000**2 + 1000**3) for n in range(200)]] * 4


def test_an_error_reaches_everybody(pool: ThreadPoolExecutor) -> None:
    place, error = meeting_of(3), KeyError("mine")

    def fail(values: dict[int, int]) -> None:
        raise error

    def come(device: int) -> BaseException | None:
        return pool_error(lambda: place.meet(device, 0, fail, seconds=SECONDS))

    assert list(pool.map(come, range(3))) == [error] * 3
    assert list(pool.map(lambda d: place.meet(d, d, tens, seconds=SECONDS), range(3))) == [{0: 0, 1: 10, 2: 20}] * 3


def pool_error(work: Callable[[], Any]) -> BaseException | None:
    try:
        work()
    except BaseException as error:
        return error
    return None


def test_whoever_waits_in_vain_is_told(pool: ThreadPoolExecutor) -> None:
    place = meeting_of(4)
    start = time.monotonic()
    errors = pool.map(lambda d: pool_error(lambda: place.meet(d, 0, tens, seconds=0.2)), [0, 2])
    for error in errors:
        assert isinstance(error, NoMeetingError)
        assert str(error) == "devices [0, 2] have reached the kernel, and [1, 3] have not in 0.2 s"
    assert time.monotonic() - start < 5
    # The next meeting has forgotten them.
    assert set(pool.map(lambda d: place.meet(d, 1, tens, seconds=SECONDS)[d], range(4))) == {10}


def test_a_device_that_comes_twice_mixes_nothing(pool: ThreadPoolExecutor) -> None:
    place = meeting_of(2)
    errors = list(pool.map(lambda _: pool_error(lambda: place.meet(0, 0, tens, seconds=SECONDS)), range(2)))
    assert {str(e) for e in errors} == {"device 0 has reached the kernel a second time while its first call waits"}


def test_nobody_is_told_to_go_while_something_is_simulated(pool: ThreadPoolExecutor) -> None:
    activity = Activity()
    place = Rendezvous(2, activity)
    with activity.running():
        early = pool.submit(place.meet, 0, 0, tens, seconds=0.1)
        time.sleep(0.5)
        assert not early.done()
    late = place.meet(1, 1, tens, seconds=SECONDS)
    assert early.result(SECONDS) == late == {0: 0, 1: 10}


def test_a_long_conclusion_is_waited_for(pool: ThreadPoolExecutor) -> None:
    place = meeting_of(2)

    def conclude(values: dict[int, int]) -> dict[int, int]:
        time.sleep(0.5)
        return tens(values)

    assert list(pool.map(lambda d: place.meet(d, d, conclude, seconds=0.1)[d], range(2))) == [0, 10]
