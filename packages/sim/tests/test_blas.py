"""Matrix products use one thread while a simulation runs, and as many as before afterwards."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import threadpoolctl

from mosaic_tpu.sim._blas import one_thread


def threads() -> list[int]:
    """Of NumPy's BLAS: other tests may load more of them."""
    pools = threadpoolctl.threadpool_info()
    return [p["num_threads"] for p in pools if p["user_api"] == "blas" and "numpy" in p["filepath"]]


def test_one_thread_within_and_as_many_as_before_after() -> None:
    before = threads()
    with one_thread():
        assert set(threads()) == {1}
        with one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before


def test_simulations_in_threads_leave_the_limit_as_it_was() -> None:
    before = threads()
    together = Barrier(4)

    def work(_: int) -> None:
        for _ in range(20):
            with one_thread():
                together.wait()
                assert set(threads()) == {1}

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert threads() == before
