"""The compiler's word is a result: where it accepts, refuses, aborts, hangs, or is not there."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from mosaic_tpu.aot import (
    TARGETS,
    _cache,
    _compat,
    _compile,
    _pool,
    _worker,
    compile,
    compile_all,
    diff,
    find_target,
    specialize,
)
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._progress import Progress
from mosaic_tpu.aot.errors import (
    CompileError,
    CompileTimeoutError,
    DiskError,
    FlagError,
    InternalCompilerError,
    NoCompilerError,
    OptionError,
    ScopedVmemError,
    SourceError,
    TargetError,
    UnsupportedError,
)
from mosaic_tpu.sim import ir

from .conftest import DOUBLE, doubled, lowered, multiplied

compiler = pytest.mark.usefixtures("needs_compiler")


@compiler
@pytest.mark.parametrize("target", TARGETS)
def test_a_good_kernel_is_accepted(target: str) -> None:
    result = compile(doubled(), target)
    assert (result.ok, result.error, str(result.target), result.name) == (True, None, target, "doubled")
    assert "accepted" in str(result)


@compiler
def test_a_bare_module_is_compiled() -> None:
    assert compile(DOUBLE).ok


@compiler
def test_a_refusal_is_raised_with_all_that_was_said() -> None:
    with pytest.raises(UnsupportedError) as error:
        compile(multiplied(jnp.int8, jnp.int32), "v4")
    assert error.value.target == "v4"
    assert "E2001" in error.value.raw
    assert compile(multiplied(jnp.int8, jnp.int32), "v5e").ok


@compiler
def test_many_are_compiled_and_a_refusal_is_a_result() -> None:
    sources = {"floats": multiplied(), "integers": multiplied(jnp.int8, jnp.int32)}
    results = compile_all(sources, ["v4", "v6e"])
    assert [(r.name, str(r.target), r.ok) for r in results] == [
        ("floats", "v4", True), ("floats", "v6e", True), ("integers", "v4", False), ("integers", "v6e", True),
    ]  # fmt: skip
    assert isinstance(results[2].error, UnsupportedError)
    assert "refused" in str(results[2])
    with pytest.raises(UnsupportedError):
        results[2].raise_for_error()


@compiler
def test_the_limit_of_vmem_reaches_every_kernel() -> None:
    assert compile(doubled(), vmem_limit_bytes=1 << 20).ok
    with pytest.raises(ScopedVmemError):
        compile(doubled(), vmem_limit_bytes=4096)


@compiler
def test_an_answer_is_kept_and_another_question_asked_anew() -> None:
    first = compile(doubled())
    again = compile(doubled())
    assert (first.cached, again.cached) == (False, True)
    assert again.seconds == first.seconds
    assert not compile(doubled(), "v5e").cached
    assert not compile(doubled(), cache=False).cached
    with pytest.raises(ScopedVmemError) as refused:
        compile(doubled(), vmem_limit_bytes=4096)
    with pytest.raises(ScopedVmemError) as kept:
        compile(doubled(), vmem_limit_bytes=4096)
    assert kept.value.raw == refused.value.raw


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"error": "", "seconds": "x", "dumps": {}},
        {"error": 1, "seconds": 1, "dumps": {}},
        {"error": "", "seconds": 1.0, "dumps": {"a": {"b": "c"}}},
        {"error": "", "seconds": 1.0, "dumps": 3},
    ],
)
@compiler
def test_an_entry_of_another_form_counts_as_none(kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cache, "load", lambda key: kept)
    assert not compile(doubled()).cached


@compiler
def test_everything_that_decides_an_answer_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    key_of = _cache.key_of
    monkeypatch.setattr(_cache, "key_of", lambda facts: keys.append(key_of(facts)) or keys[-1])
    monkeypatch.setattr(_compile, "_asked", lambda job, in_hbm: (_worker.Answer(""), {}))
    for source, target, options in (
        (doubled(), "v6e", {}),
        (doubled(16), "v6e", {}),
        (doubled(), "v5e", {}),
        (doubled(), "v6e", {"vmem_limit_bytes": 1 << 20}),
        (doubled(), "v6e", {"operands_in_hbm": True}),
        (doubled(), "v6e", {"flags": {"xla_a": 1}}),
    ):
        compile(source, target, **options)
    (without,) = compile_all([doubled()], ["v6e"], schedule=True)
    monkeypatch.setattr(_compat, "compiler_version", lambda: "another")
    compile(doubled(), "v6e")
    assert len(set(keys)) == len(keys) == 8
    assert isinstance(without.error, DiskError)


@compiler
def test_flags_reach_the_compiler() -> None:
    assert compile(doubled(), flags={"xla_tpu_scoped_vmem_limit_kib": 16384}).ok
    with pytest.raises(ScopedVmemError):
        compile(doubled(), flags={"xla_tpu_scoped_vmem_limit_kib": 4})


@compiler
def test_a_schedule_is_there_if_it_was_asked_for() -> None:
    result = compile(doubled(), "v5e", schedule=True)
    assert result.schedule.bundles
    assert compile(doubled(), "v5e", schedule=True).cached
    with pytest.raises(OptionError, match="not asked for"):
        _ = compile(doubled(), "v5e").schedule


def shifted() -> Any:
    """A kernel that sends its shard to the right, on a ring of four devices, lowered."""

    def kernel(x_ref: Any, o_ref: Any, sent: Any, received: Any) -> None:
        right = (jax.lax.axis_index("x") + 1) % 4
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=right)
        pl.semaphore_wait(barrier, 1)
        copy = pltpu.make_async_remote_copy(x_ref, o_ref, sent, received, device_id=right)
        copy.start()
        copy.wait()

    hbm = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[hbm],
        out_specs=hbm,
        scratch_shapes=[pltpu.SemaphoreType.DMA] * 2,
        compiler_params=pltpu.CompilerParams(collective_id=0),
        name="shifted",
    )
    mesh = AbstractMesh((4,), ("x",), axis_types=(AxisType.Auto,))
    function = jax.shard_map(call, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return lowered(function, jax.ShapeDtypeStruct((32, 128), jnp.float32))


@compiler
@pytest.mark.parametrize("target", ["v4:2x2", "v5e:2x2", "v5p:2x2", "v6e:2x2", "tpu7x:2x2"])
def test_a_kernel_that_talks_to_other_devices_is_compiled_for_a_topology(target: str) -> None:
    assert compile(shifted(), target).ok
    assert compile(program_of(shifted()).calls[0].body, target).ok


@compiler
def test_a_topology_that_is_too_small_is_a_result() -> None:
    with pytest.raises(CompileError, match="for 4 devices and v5e:1x1 has 1") as error:
        compile(shifted(), "v5e")
    assert "v5e:2x2" in error.value.hint


@compiler
def test_arrays_stay_in_hbm_if_they_are_asked_to() -> None:
    def far(in_hbm: bool) -> int:
        found = compile(doubled(512), "tpu7x", schedule=True, operands_in_hbm=in_hbm).schedule
        return sum("hbm" in (dma.source, dma.destination) for dma in found.dmas)

    assert far(True) == 2
    assert far(False) < 2  # alone, XLA has put an array into VMEM


# --- what can go wrong with a process ------------------------------------------------------------------------------


def spoiled(monkeypatch: pytest.MonkeyPatch, signal_: int) -> None:
    """The next job's process gets a signal while the job is in its hands."""
    ask = _worker._Process.ask

    def ask_spoiled(self: Any, job: dict[str, Any], timeout: float) -> Any:
        monkeypatch.undo()
        os.kill(self.popen.pid, signal_)
        return ask(self, job, timeout)

    monkeypatch.setattr(_worker._Process, "ask", ask_spoiled)


@compiler
def test_an_abort_is_a_result_and_the_next_job_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        spoiled(patch, signal.SIGABRT)
        with pytest.raises(InternalCompilerError, match="SIGABRT"):
            compile(doubled(), cache=False)
    assert compile(doubled(), cache=False).ok


@compiler
def test_a_job_that_takes_too_long_is_a_result_and_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile(doubled(), cache=False).ok
    with monkeypatch.context() as patch:
        spoiled(patch, signal.SIGSTOP)
        with pytest.raises(CompileTimeoutError, match=r"no answer within 0\.3 s"):
            compile(doubled(), timeout=0.3)
    assert not compile(doubled()).cached


@compiler
def test_a_process_that_died_between_two_jobs_is_replaced() -> None:
    assert compile(doubled(), cache=False).ok
    for member in _pool._POOL._idle:
        os.kill(member._worker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, member._worker.pid, os.WEXITED | os.WNOWAIT)
    assert compile(doubled(), cache=False).ok


@compiler
def test_threads_may_compile_at_once_and_no_process_is_left_behind() -> None:
    results: list[bool] = []

    def work(rows: int) -> None:
        results.append(compile(doubled(rows), cache=False).ok)

    threads = [threading.Thread(target=work, args=(8 * n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 3
    pids = [member._worker.pid for member in _pool._POOL._idle]
    _pool.close()
    for pid in filter(None, pids):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@compiler
def test_an_interrupt_does_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compile(doubled(), cache=False).ok
    ask = _worker._Process.ask

    def stopped(self: Any, job: dict[str, Any], timeout: float) -> Any:
        os.kill(self.popen.pid, signal.SIGSTOP)
        raised.set()
        return ask(self, job, timeout)

    def interrupted() -> Any:
        raised.wait(30)
        raise KeyboardInterrupt

    raised = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(_worker._Process, "ask", stopped)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            _compile.run_jobs([interrupted, lambda: compile(doubled(), cache=False)], 2, None, "done")
    assert time.monotonic() - started < 60  # the compiler would have had 300
    assert compile(doubled(), cache=False).ok


@compiler
def test_what_one_batch_gives_up_does_not_end_the_jobs_of_another() -> None:
    assert compile(doubled(), cache=False).ok
    results: list[bool] = []

    def other() -> None:
        results.extend(compile(multiplied(), cache=False).ok for _ in range(3))

    def fails() -> Any:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any(m.batch is None and m._worker.pid for m in _pool._POOL._busy):
            time.sleep(0.001)
        raise ZeroDivisionError

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(ZeroDivisionError):
        _compile.run_jobs([fails, lambda: compile(doubled(128), cache=False)], 2, None, "done")
    thread.join()
    assert results == [True] * 3


@compiler
def test_a_process_that_was_killed_is_not_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    # A compiler that aborts over its profile is asked for the bundles alone; one that was killed tells nothing.
    asked: list[str] = []
    run = _pool.run

    def counting(job: dict[str, Any], flags: Any, dump: Any, timeout: float) -> Any:
        asked.append(dump)
        return run(job, flags, dump, timeout)

    monkeypatch.setattr(_pool, "run", counting)
    for number, kinds in ((signal.SIGKILL, ["profile"]), (signal.SIGABRT, ["profile", "bundles"])):
        asked.clear()
        with monkeypatch.context() as patch:
            spoiled(patch, number)
            with contextlib.suppress(InternalCompilerError):
                assert compile(doubled(), schedule=True, cache=False).ok == (number == signal.SIGABRT)
        assert asked == kinds


@compiler
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_the_compiler_ends_with_who_asked_for_it(ending: signal.Signals, tmp_path: Path) -> None:
    code = f"""
import os
from mosaic_tpu.aot import _pool, compile
assert compile({DOUBLE!r}, schedule=True).ok
(member,) = _pool._POOL._idle
print(member._worker.pid, member._folder, flush=True)
os.kill(os.getpid(), {int(ending)})
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    pid, folder = done.stdout.split()
    ended(int(pid), Path(folder))


def ended(pid: int, folder: Path) -> None:
    """A process ends by itself, and takes its folder with it."""
    stat, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + 30
    while time.monotonic() < deadline:
        if not folder.exists() and (not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} still runs, or left {folder}")


def test_a_worker_looks_after_who_asked_while_the_compiler_writes(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    folder.mkdir()
    code = """
import os, subprocess, sys
work = '''
import os, pathlib, threading
from mosaic_tpu.aot import _serve
threading.Thread(target=_serve._end_with, args=(os.getppid(),), daemon=True).start()
print("up", flush=True)
folder = pathlib.Path(os.environ["MOSAIC_TPU_AOT_DUMPS"])
n = 0
while n := n + 1:
    folder.mkdir(exist_ok=True)
    try:
        (folder / str(n % 1000)).touch()
    except FileNotFoundError:
        pass
'''
child = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid)
"""
    environment = os.environ | {_worker.DUMPS: str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    ended(int(done.stdout), folder)


@compiler
def test_it_compiles_where_a_thousand_files_are_open() -> None:
    with contextlib.ExitStack() as stack:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.enter_context(Path(os.devnull).open())
        _pool.close()
        assert compile(doubled(), cache=False).ok
        _pool.close()


@compiler
def test_a_folder_of_dumps_that_others_removed_is_made_anew() -> None:
    assert compile(doubled(), schedule=True, cache=False).schedule.bundles
    for member in _pool._POOL._idle:
        shutil.rmtree(member._folder or "", ignore_errors=True)
    assert compile(doubled(), schedule=True, cache=False).schedule.bundles


def test_it_compiles_in_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    _pool.close()
    assert compile(DOUBLE, "v6e", cache=False).ok
    _pool.close()


@compiler
def test_a_folder_for_temporary_files_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "compiler_version", lambda: "1")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/nope")
    _pool.close()
    for schedule in (False, True):
        with pytest.raises(DiskError, match="cannot be started"):
            compile(doubled(), cache=False, schedule=schedule)
    (result,) = compile_all([doubled()], ["v6e"], cache=False)
    assert isinstance(result.error, DiskError)


@compiler
def test_a_flag_that_libtpu_does_not_know_is_no_fault_of_the_kernel() -> None:
    for flags, said in (({"xla_nope": 1}, "'xla_nope'"), ({"xla_tpu_dvfs_p_state": "junk"}, "'junk'")):
        with pytest.raises(FlagError, match=said):
            compile(doubled(), flags=flags, cache=False)


@pytest.mark.parametrize(("code", "said"), [(3, "exit code 3"), (-6, "SIGABRT"), (-40, "signal 40")])
def test_a_process_ends_by_a_code_or_a_signal(code: int, said: str) -> None:
    assert _worker._ending(code) == said


@compiler
def test_a_time_out_says_what_lint_foresees() -> None:
    _pool.close()
    with pytest.raises(CompileTimeoutError, match=r"lint foresees a refusal: .* 4 KiB"):
        compile(doubled(8192 * 8), timeout=1e-3, vmem_limit_bytes=4096, cache=False)


@compiler
@pytest.mark.parametrize(
    ("rows", "schedule", "named"), [(8 * 20_000, True, True), (8 * 20_000, False, False), (64, True, False)]
)
def test_a_time_out_names_a_grid_that_the_estimate_walks(rows: int, schedule: bool, named: bool) -> None:
    _pool.close()
    with pytest.raises(CompileTimeoutError) as error:
        compile(doubled(rows), timeout=1e-3, schedule=schedule, cache=False)
    walked = "for its estimate the compiler walks all 20,000 steps of the grid [20000]: take larger blocks"
    assert (walked in error.value.hint) == named
    assert ("or compile without schedule=True" in error.value.hint) == named
    assert "raise timeout" in error.value.hint


def of_any_length(steps: int) -> Any:
    """A kernel whose grid has a bound that is an operand, and one that is not, lowered."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    def call(many: Any, x: Any) -> Any:
        block = pl.BlockSpec((8, 128), lambda i, j: (0, 0))
        made = pl.pallas_call(kernel, out_shape=tile, grid=(many, steps), in_specs=[block], out_specs=block)
        return made(x)

    tile = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    return lowered(call, jax.ShapeDtypeStruct((), jnp.int32), tile)


@compiler
@pytest.mark.parametrize(("steps", "named"), [(20_000, True), (8, False)])
def test_a_bound_that_nobody_knows_is_a_question_mark(steps: int, named: bool) -> None:
    _pool.close()
    with pytest.raises(CompileTimeoutError) as error:
        compile(of_any_length(steps), timeout=1e-3, schedule=True, cache=False)
    assert ("the compiler walks at least 20,000 steps of the grid [?, 20000]: " in error.value.hint) == named
    assert str(ir.DYNAMIC) not in error.value.hint


@compiler
@pytest.mark.parametrize(
    "estimated",
    [
        lambda source: specialize(source, timeout=1e-3, cache=False),
        lambda source: _compile.compile_to_rank(program_of(source).text, find_target("v6e"), 1e-3),
    ],
)
def test_what_needs_a_schedule_is_not_told_to_go_without(estimated: Callable[[Any], Any]) -> None:
    _pool.close()
    with pytest.raises(CompileTimeoutError) as error:
        estimated(doubled(8 * 20_000))
    assert error.value.hint.endswith("[20000]: take larger blocks and a smaller grid, or raise timeout")


@compiler
def test_operands_that_xla_put_into_vmem_are_named() -> None:
    alone = compile(doubled(), "tpu7x", schedule=True).schedule
    assert alone.placed
    assert "XLA put" in str(alone)
    pinned = compile(doubled(), "tpu7x", schedule=True, operands_in_hbm=True).schedule
    assert pinned.placed == ()
    assert "operands in VMEM" in {m.name for m in diff(alone, pinned).metrics}


def test_a_worker_that_does_not_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "compiler_version", lambda: "1")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    _pool.close()
    with pytest.raises(InternalCompilerError, match=r"did not start \(exit code 1\)"):
        compile(doubled(), cache=False)


ECHO = """
import sys
print('{"ready": 1}', flush=True)
for line in sys.stdin:
    print(line.strip(), file=sys.stderr, flush=True)
    if "last" in line:
        sys.exit(3)
    print("{}", flush=True)
"""


def test_the_log_of_a_job_is_what_was_said_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    start = subprocess.Popen
    monkeypatch.setattr(
        _worker.subprocess, "Popen", lambda command, **options: start([command[0], "-c", ECHO], **options)
    )
    process = _worker._Process({})
    process.await_ready()
    for _ in range(2):
        process.ask({"job": "first"}, 30)
    worker = _worker.Worker()
    worker._process = process
    answer = worker.run({"job": "last"}, 30)
    assert (answer.died, answer.error) == ("exit code 3", '{"job": "last"}\n')


def test_without_the_compiler_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "compiler_version", lambda: None)
    with pytest.raises(NoCompilerError, match="not installed") as error:
        compile(doubled())
    assert "pip install" in str(error.value)


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"vmem_limit_bytes": 0},
        {"vmem_limit_bytes": 1.5},
        {"vmem_limit_bytes": True},
        {"timeout": 0},
        {"timeout": "1"},
        {"flags": {"--xla": 1}},
        {"flags": {"xla_dump": "a b"}},
        {"flags": {"xla_dump": None}},
    ],
)
def test_options_outside_their_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        compile(doubled(), **options)


def test_bad_sources_and_targets_are_refused_before_anything_is_compiled() -> None:
    with pytest.raises(TargetError):
        compile(doubled(), "v9")
    with pytest.raises(SourceError):
        compile_all([doubled(), 3], ["v6e"])
    with pytest.raises(OptionError, match="workers"):
        compile_all([doubled()], ["v6e"], workers=0)
    assert compile_all([], ["v6e"]) == []


def test_an_error_survives_another_process() -> None:
    error = ScopedVmemError("too much", op="k", location="k.py:3", target="v6e", raw="all of it")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.raw) == (ScopedVmemError, str(error), "all of it")
    assert isinstance(again, CompileError)


# --- progress ------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_silence_elsewhere() -> None:
    live, still, asked = Terminal(), io.StringIO(), io.StringIO()
    for out, wanted in ((live, None), (still, None), (asked, True)):
        with Progress(2, "compiled", out, wanted) as progress:
            progress.step()
            progress.step()
    assert live.getvalue().count("\n") == 1
    assert "1/2 compiled, 0 s to go" in live.getvalue()
    assert still.getvalue() == ""
    assert asked.getvalue().splitlines() == ["0/2 compiled", "1/2 compiled, 0 s to go", "2/2 compiled"]


def test_the_first_failure_ends_the_rest() -> None:
    done: list[int] = []

    def job(n: int) -> int:
        if n == 0:
            raise OptionError("no")
        time.sleep(0.02)
        done.append(n)
        return n

    with pytest.raises(OptionError):
        _compile.run_jobs([lambda n=n: job(n) for n in range(200)], 1, None, "done")
    assert len(done) < 100
    assert _compile.run_jobs([lambda n=n: job(n) for n in (1, 2, 3)], 2, False, "done") == [1, 2, 3]
