"""Kernels are built in several threads at once, and without jax."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mosaic_tpu.builder import Builder

from .conftest import declare

THREADS = 6


def _body(barrier: Barrier | None = None) -> bytes:
    bodies: set[bytes] = set()
    if barrier is not None:
        barrier.wait()
    for _ in range(5):
        b = Builder("kernel")
        a = declare(b)
        with b.for_(0, a.i, init=[b.lift(0)]) as loop:
            a.y[...] = a.x[...] * 2.0 + b.pallas.sum(a.scratch[...], 0)
            loop.yield_(loop.carried[0] + loop.iv // 3)
        b.scalar_store(a.lens, loop.results[0], [0])
        bodies.add(b.finish().serialize().body)
    (body,) = bodies
    return body


def test_threads_build_the_same_bytes_at_once() -> None:
    barrier = Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        bodies = list(pool.map(_body, [barrier] * THREADS))
    assert set(bodies) == {_body()}


def test_a_module_can_be_serialized_by_another_thread() -> None:
    b = Builder("kernel")
    declare(b)
    module = b.finish()
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(lambda: module.serialize().body).result()
    assert elsewhere == module.serialize().body


def _python(*lines: str) -> str:
    return subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True).stdout


def test_jax_is_not_imported() -> None:
    _python("import sys, mosaic_tpu.builder", "assert 'jax' not in sys.modules, 'jax was imported'")


def test_a_kernel_is_built_without_jax() -> None:
    out = _python(
        "import sys",
        "sys.modules['jax'] = None",  # importing it fails from here on
        "from mosaic_tpu.builder import *",
        "b = Builder('k')",
        "a = b.declare_args(dict(x=Ref((8, 128), f32)))",
        "a.x[...] = a.x[...] * 2.0",
        "print(len(b.finish().serialize().body))",
    )
    assert int(out) > 100
