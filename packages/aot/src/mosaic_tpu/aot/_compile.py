"""`compile` and `compile_all`: what the TPU compiler says of a kernel, without a TPU."""

from __future__ import annotations

import base64
import concurrent.futures
import dataclasses
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from mosaic_tpu.aot import _cache, _compat, _pool
from mosaic_tpu.aot._checks import check_flags, check_limit, check_timeout, check_workers
from mosaic_tpu.aot._diagnose import diagnose, locator
from mosaic_tpu.aot._lint import lint
from mosaic_tpu.aot._operands import operands_in_hbm_of
from mosaic_tpu.aot._pool import Dump, Flags
from mosaic_tpu.aot._program import Program, program_of
from mosaic_tpu.aot._progress import Progress
from mosaic_tpu.aot._remedy import remedy
from mosaic_tpu.aot._worker import Answer
from mosaic_tpu.aot.errors import (
    CompileError,
    CompileTimeoutError,
    DiskError,
    InternalCompilerError,
    NoCompilerError,
    OptionError,
    ScopedVmemError,
    SourceError,
)
from mosaic_tpu.aot.schedule import Dumps, Schedule, read_schedule
from mosaic_tpu.aot.targets import TARGETS, Target, find_target
from mosaic_tpu.sim import ir

#: Seconds that the compiler gets for a program.
TIMEOUT: Final = 300.0


@dataclass(frozen=True)
class Compilation:
    """What the TPU compiler said of a program.

    Attributes:
        name: of the kernel.
        target: what it was compiled for.
        compiler: version of libtpu.
        seconds: that the compiler took.
        cached: whether the answer was on disk.
        error: why it refused; ``None`` where it accepted.
        dumps: what it left of each kernel, by its name, where a schedule was asked for. Where kernels that differ share
            a name, or XLA places the operands of their calls differently, the second is ``"name#2"``, in the program's
            order; calls of which the compiler makes the same have one.
    """

    name: str
    target: Target
    compiler: str
    seconds: float
    cached: bool
    error: CompileError | None
    dumps: Mapping[str, Dumps] = field(repr=False, hash=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether it accepted."""
        return self.error is None

    def raise_for_error(self) -> Compilation:
        """Itself, where the compiler accepted.

        Raises:
            CompileError: it refused.
        """
        if self.error is not None:
            raise self.error
        return self

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The schedule of each kernel in the program, by its name, as in `dumps`.

        Raises:
            DumpError: its dumps cannot be read.
        """
        return {name: self.schedule_of(name) for name in self.dumps}

    def schedule_of(self, kernel: str) -> Schedule:
        """The schedule of one kernel of the program.

        Args:
            kernel: its name, as in `dumps`.

        Raises:
            CompileError: the compiler refused the program.
            DumpError: its dumps cannot be read.
            OptionError: there is no such kernel, or the program was compiled without ``schedule=True``.
        """
        self.raise_for_error()
        if kernel not in self.dumps:
            raise self._unscheduled(f"the program has no kernel {kernel!r}")
        return dataclasses.replace(read_schedule(self.dumps[kernel], self.target), op=kernel)

    def _unscheduled(self, why: str) -> OptionError:
        if not self.dumps:
            return OptionError("the schedule was not asked for", op="schedule", hint="compile(…, schedule=True)")
        return OptionError(why, op="schedule", hint=f"schedule_of(name) of one of {', '.join(self.dumps)}")

    @property
    def schedule(self) -> Schedule:
        """The schedule of the only kernel.

        Raises:
            CompileError: the compiler refused the kernel.
            DumpError: its dumps cannot be read.
            OptionError: it was compiled without ``schedule=True``, or the program has several kernels.
        """
        self.raise_for_error()
        if len(self.dumps) != 1:
            raise self._unscheduled(f"the program has {len(self.dumps)} kernels")
        return dataclasses.replace(self.schedule_of(next(iter(self.dumps))), op=self.name)

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.name} for {self.target}: refused\n{self.error}"
        return f"{self.name} for {self.target}: accepted in {self.seconds:.2f} s by libtpu {self.compiler}"


def compile(
    source: Any,
    target: str | Target = "v6e",
    *,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    vmem_limit_bytes: int | None = None,
    operands_in_hbm: bool = False,
    flags: Flags | None = None,
    schedule: bool = False,
    timeout: float = TIMEOUT,
    cache: bool = True,
) -> Compilation:
    """Compile a kernel with the real TPU compiler, which needs no TPU.

    It runs in a process of its own, kept warm for the next call with the same flags. What it said is kept on disk, in
    ``$MOSAIC_TPU_CACHE`` or the user's cache folder, by program, target, flags and version of the compiler.

    Args:
        source: a lowered kernel (``kernel.lower(cfg)``), a lowered or exported JAX function or its StableHLO, or
            a Mosaic module: MLIR text, bytecode, the path of a file with either, or a module object.
        target: a generation, ``"v6e"``, or a topology, ``"v5e:2x2"``, for kernels that talk to other devices.
        inputs: shape and dtype of each operand, for a Mosaic module whose windows do not say them.
        outputs: shape and dtype of each result, likewise.
        vmem_limit_bytes: of each kernel, instead of what its call says or of the compiler's default.
        operands_in_hbm: keep arrays in HBM, as a large program does: XLA puts the small ones of a kernel that is
            compiled alone into VMEM, and its copies become loads and stores. Of programs with one kernel.
        flags: of libtpu, by their names without dashes.
        schedule: keep what ``.schedule`` is made of; it makes compiling several times slower.
        timeout: seconds for the compiler; a kernel that exceeds its limit of VMEM is compiled once or twice more within
            them, to find the limit that the error's hint names.
        cache: look for the answer on disk, and keep it there.

    Raises:
        CompileError: the compiler refused the kernel; a subclass says why. It crashed, or gave no answer in time.
        NoCompilerError: libtpu is not installed.
        SourceError: there is no kernel in the source, or too little is known of its call.
        TargetError: there is no such target.
        OptionError: an option has a value outside its range.

    Example:
        >>> from mosaic_tpu import aot
        >>> text = '''
        ... func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
        ...                   %y: memref<8x128xf32, #tpu.memory_space<vmem>>) {
        ...   %c0 = arith.constant 0 : index
        ...   %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   %1 = arith.addf %0, %0 : vector<8x128xf32>
        ...   vector.store %1, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   return
        ... }'''
        >>> aot.compile(text, "v6e").ok                                 # doctest: +SKIP
        True
    """
    job = _Job(
        program_of(source, inputs, outputs),
        find_target(target),
        _options("compile", vmem_limit_bytes, flags, schedule, timeout, cache, operands_in_hbm),
    )
    return _helped(job).raise_for_error()


def compile_to_rank(text: str, target: Target, timeout: float) -> Compilation:
    """As `compile`, of a program in a search: with its schedule, and no look for a limit that no hint will name."""
    job = _Job(Program(text), target, _options("tune", None, None, True, timeout, True, True))
    return _compiled(job).raise_for_error()


def compile_to_count(
    source: Any, target: str | Target, vmem_limit_bytes: int | None, timeout: float, cache: bool
) -> Compilation:
    """As `compile`, of a kernel whose schedule a run is counted by, with its arrays in HBM."""
    options = _options("specialize", vmem_limit_bytes, None, True, timeout, cache, True)
    return _helped(_Job(program_of(source), find_target(target), options)).raise_for_error()


def compile_all(
    sources: Mapping[str, Any] | Iterable[Any],
    targets: Iterable[str | Target] = tuple(TARGETS),
    *,
    vmem_limit_bytes: int | None = None,
    flags: Flags | None = None,
    schedule: bool = False,
    timeout: float = TIMEOUT,
    cache: bool = True,
    workers: int | None = None,
    progress: bool | None = None,
) -> list[Compilation]:
    """Compile each source for each target, several at a time; a refusal is a result, ``.error``, and not raised.

    Args:
        sources: as `compile` takes them; names of a mapping become the results' names.
        targets: all generations if not given.
        vmem_limit_bytes: as in `compile`, and so the other options.
        flags: of libtpu.
        schedule: keep what ``.schedule`` is made of.
        timeout: seconds for each.
        cache: look for the answers on disk, and keep them there.
        workers: compiler processes; two, or as many as the machine has cores if that is less.
        progress: report it on standard error; by default where that is a terminal.

    Returns:
        A `Compilation` for each source and target, all targets of the first source first.

    Raises:
        NoCompilerError: libtpu is not installed.
        SourceError: there is no kernel in a source.
        TargetError: there is no such target.
        OptionError: an option has a value outside its range.

    Example:
        >>> from mosaic_tpu import aot
        >>> for result in aot.compile_all({"double": text, "triple": other}, ["v5e", "v6e"]):   # doctest: +SKIP
        ...     print(result.name, result.target, "accepted" if result.ok else result.error.summary)
    """
    options = _options("compile_all", vmem_limit_bytes, flags, schedule, timeout, cache)
    check_workers(workers, "compile_all")
    for what, several in (("sources", sources), ("targets", targets)):
        if isinstance(several, str | bytes) or not isinstance(several, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"{what} is one {type(several).__name__}", op="compile_all", hint="give a list of them")
    found = [find_target(target) for target in targets]
    named = (
        list(cast("Mapping[str, Any]", sources).items())
        if isinstance(sources, Mapping)
        else [("", source) for source in sources]
    )
    programs = [(name, program_of(source)) for name, source in named]
    jobs = [_Job(program, target, options, name) for name, program in programs for target in found]
    return run_jobs([lambda job=job: _helped(job) for job in jobs], workers, progress, "compiled")


def run_jobs[T](jobs: Sequence[Callable[[], T]], workers: int | None, progress: bool | None, what: str) -> list[T]:
    """Do jobs several at a time, in threads: each waits for a process of its own."""
    count = workers or min(2, os.cpu_count() or 1)
    results: list[T] = []
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        batch = _pool.Batch()
        futures = [threads.submit(_in_batch, batch, job) for job in jobs]
        try:
            with Progress(len(jobs), what, sys.stderr, progress) as shown:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
                    shown.step()
            results = [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            batch.interrupt()  # or the threads would wait for the compiler
            raise
    return results


def _in_batch[T](batch: _pool.Batch, job: Callable[[], T]) -> T:
    with _pool.within(batch):
        return job()


# --- one job -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Options:
    op: str
    vmem_limit_bytes: int | None
    flags: Flags
    schedule: bool
    timeout: float
    cache: bool
    operands_in_hbm: bool = False


def _options(
    op: str,
    vmem_limit_bytes: int | None,
    flags: Flags | None,
    schedule: bool,
    timeout: float,
    cache: bool,
    operands_in_hbm: bool = False,
) -> _Options:
    given: Flags = {} if flags is None else flags
    check_limit(vmem_limit_bytes, op)
    check_timeout(timeout, op)
    check_flags(given, op)
    return _Options(op, vmem_limit_bytes, dict(given), schedule, timeout, cache, operands_in_hbm)


@dataclass(frozen=True)
class _Job:
    program: Program
    target: Target
    options: _Options
    name: str = ""


def _helped(job: _Job) -> Compilation:
    """With the limit that helps, where a kernel needs more VMEM: the compiler is asked again for it."""
    found = _compiled(job)
    if isinstance(found.error, ScopedVmemError):
        left = job.options.timeout - (0.0 if found.cached else found.seconds)
        found.error.hint = remedy(found.error, job.target.generation, lambda limit: _refused(job, limit, left))
    return found


def _compiled(job: _Job) -> Compilation:
    compiler = _compat.compiler_version()
    if compiler is None:
        raise NoCompilerError("the TPU compiler is not installed", op="compile")
    options = job.options
    in_hbm = operands_in_hbm_of(job.program) if options.operands_in_hbm else None
    key = _cache.key_of(
        {
            "program": job.program.text,
            "topology": job.target.topology,
            "compiler": compiler,
            "vmem_limit_bytes": options.vmem_limit_bytes,
            "in_hbm": in_hbm,
            "flags": dict(options.flags),
            "schedule": options.schedule,
        }
    )
    kept = _restored(_cache.load(key)) if options.cache else None
    try:
        answer, dumps = kept or _asked(job, in_hbm)
    except DiskError as error:
        return Compilation(job.name or job.program.name, job.target, compiler, 0.0, False, error, {})
    # A process that died or took too long may do better next time.
    if options.cache and kept is None and not answer.died:
        texts = {name: vars(d) for name, d in dumps.items()}
        _cache.save(key, {"error": answer.error, "seconds": answer.seconds, "dumps": texts})
    error = _error(job, answer)
    if error is None and options.schedule and not dumps:
        hint = "is there room on the disk? A newer libtpu may also write other files"
        error = DiskError("the compiler left no schedule", op="compile", target=str(job.target), hint=hint)
    named = named_dumps(job.program, dumps)
    return Compilation(
        job.name or job.program.name, job.target, compiler, answer.seconds, kept is not None, error, named
    )


def named_dumps(program: Program, dumps: Mapping[str, Dumps]) -> dict[str, Dumps]:
    """The dumps of each kernel by its name, in the program's order."""
    bodies = [base64.b64encode(call.body).decode() for call in program.calls] if dumps else []
    found: dict[str, Dumps] = {}
    places = [(bodies.index(d.body) if d.body in bodies else len(bodies), _number(op), op) for op, d in dumps.items()]
    for place, _, op in sorted(places):
        name = program.names[place] if place < len(bodies) else op
        same = (f"{name}#{n}" for n in itertools.count(2))
        found[name if name not in found else next(other for other in same if other not in found)] = dumps[op]
    return found


def _number(op: str) -> int:
    """Of an HLO op: XLA counts them, ``name.12`` before ``name.13.x``."""
    numbers = re.findall(r"\.(\d+)", op)
    return int(numbers[-1]) if numbers else 0


def _refused(job: _Job, limit: int, left: float) -> CompileError | None:
    """Why the compiler refuses a job with another limit of VMEM; ``None`` where it accepts."""
    if left <= 0:
        return CompileTimeoutError("no time is left", op="compile", target=str(job.target))
    options = dataclasses.replace(job.options, vmem_limit_bytes=limit, schedule=False, timeout=left)
    return _helped(dataclasses.replace(job, options=options)).error


def _restored(kept: dict[str, Any] | None) -> tuple[Answer, Mapping[str, Dumps]] | None:
    """An answer from the disk; nothing where the file holds something else."""
    try:
        found = {name: Dumps(**texts) for name, texts in kept["dumps"].items()} if kept else {}
        answer = Answer(kept["error"], seconds=float(kept["seconds"])) if kept else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    texts = [text for dumps in found.values() for text in vars(dumps).values()]
    whole = answer is not None and all(isinstance(text, str) for text in (answer.error, *texts))
    return (answer, found) if answer is not None and whole else None


def _asked(job: _Job, in_hbm: dict[str, Any] | None) -> tuple[Answer, Mapping[str, Dumps]]:
    options, target = job.options, job.target
    request = {
        "program": job.program.text,
        "topology": target.topology,
        "bounds": target.bounds,
        "communicates": job.program.communicates,
        "vmem_limit_bytes": options.vmem_limit_bytes,
        "in_hbm": in_hbm,
    }
    # With the flag that asks for an estimate the compiler aborts on some kernels that it compiles well without.
    kinds: tuple[Dump, ...] = ("profile", "bundles") if options.schedule else ("",)
    outcome = _pool.run(request, options.flags, kinds[0], options.timeout)
    for kind in kinds[1:]:
        if outcome.answer.crashed:
            outcome = _pool.run(request, options.flags, kind, options.timeout)
    return outcome.answer, outcome.dumps


def _error(job: _Job, answer: Answer) -> CompileError | None:
    target = str(job.target)
    if not answer.started:
        why = f"the compiler's process did not start ({answer.died})"
        hint = "error.raw is what it said; is mosaic_tpu.aot importable in a new Python?"
        unstarted = InternalCompilerError(why, op="compile", target=target, raw=answer.error, hint=hint)
        unstarted.transient = True
        return unstarted
    if answer.timed_out:
        return CompileTimeoutError(answer.died, op="compile", target=target, raw=answer.error, hint=_foreseen(job))
    if not answer.error and not answer.died:
        return None
    try:
        modules = job.program.modules
    except SourceError:
        modules = []
    error = diagnose(answer.error, target=target, died=answer.died, locate=locator(modules))
    # What ended it from outside may not be there again; where the compiler ended by its own fault, it will again.
    error.transient |= bool(answer.died) and not answer.crashed
    return error


#: A grid that the compiler's estimate takes a second for, at least.
_MANY_STEPS: Final = 10_000


def _foreseen(job: _Job) -> str | None:
    """What lint says of a program that the compiler may never finish, or what takes so long."""
    report = lint(job.program.text, target=job.target, vmem_limit_bytes=job.options.vmem_limit_bytes)
    first = next(iter(report.errors), None)
    if first is not None:
        return f"lint foresees a refusal: {first.reason}; {first.remedy}"
    return _walked(job) if job.options.schedule else None


def _walked(job: _Job) -> str | None:
    """The largest grid, where it may be what takes so long: the compiler walks its steps for the estimate."""
    grids = [module.kernel.attributes.integers("iteration_bounds") for module in job.program.modules]
    grid = max(grids, key=_steps, default=())
    if _steps(grid) < _MANY_STEPS:
        return None
    shown = ", ".join("?" if bound == ir.DYNAMIC else str(bound) for bound in grid)
    count = f"{'at least' if ir.DYNAMIC in grid else 'all'} {_steps(grid):,} steps"
    remedies = ["take larger blocks and a smaller grid", "raise timeout"]
    if job.options.op in ("compile", "compile_all"):  # others need the schedule
        remedies.append("compile without schedule=True")
    first = ", ".join(remedies[:-1])
    return f"for its estimate the compiler walks {count} of the grid [{shown}]: {first}, or {remedies[-1]}"


def _steps(grid: Sequence[int]) -> int:
    """Of the bounds that are known."""
    return math.prod(bound for bound in grid if bound != ir.DYNAMIC)
