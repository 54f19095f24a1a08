"""One config on its way: lowered, compiled, and counted or timed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mosaic_tpu.aot._compile import compile_to_rank
from mosaic_tpu.aot._identity import program_digest
from mosaic_tpu.aot._lint import lint
from mosaic_tpu.aot._measure import measured
from mosaic_tpu.aot._operands import arrays_of
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._specialize import specialize
from mosaic_tpu.aot._tuning import Trial
from mosaic_tpu.aot.errors import AotError, CompileError, DumpError, EstimateError, NoCompilerError, OptionError
from mosaic_tpu.aot.schedule import Estimate
from mosaic_tpu.aot.targets import Target
from mosaic_tpu.sim.errors import LimitError, SimulationError

type Compiled = tuple[Candidate, Estimate]


@dataclass(frozen=True)
class Candidate:
    """One config, and what it is tried with.

    Attributes:
        text: the program.
        digest: of it, wherever its lines are.
    """

    kernel: Any
    config: Any
    target: Target
    scalars: Any
    timeout: float
    text: str
    digest: str

    def compiled(self) -> Compiled | Trial:
        """The compiler's estimate, or who refused the config."""
        try:
            errors = lint(self.text, target=self.target.generation.name).errors
            if errors:
                return Trial(self.config, None, f"{errors[0].rule}: {errors[0].reason}", "lint")
            found = compile_to_rank(self.text, self.target, self.timeout)
            return self, found.schedule.estimate
        except NoCompilerError:
            raise
        except AotError as error:
            return refusal(self.config, error)

    def counted(self) -> Trial | OptionError:
        """Cycles by the runs that the simulator counts; an error where the scalars do not fit."""
        try:
            found = specialize(self.text, self.target, scalars=self.scalars, timeout=self.timeout)
        except NoCompilerError:
            raise
        except OptionError as error:
            return error
        except (AotError, SimulationError) as error:
            return refusal(self.config, error)
        return Trial(self.config, found.cycles)

    def measured(self) -> Trial:
        """Cycles by the TPU's clock."""
        try:
            seconds = measured(self.kernel, self.config, self.scalars)
        except (AotError, SimulationError) as error:
            return refusal(self.config, error)
        except Exception as error:  # the kernel's own checks, and whatever JAX raises for what does not compile
            return Trial(self.config, None, first_line(error), "compiler")
        return Trial(self.config, seconds * self.target.generation.clock_hz)


def prepared(kernel: Any, target: Target, scalars: Any, timeout: float, config: Any) -> Candidate | Trial:
    """A config with its program, or why it has none."""
    try:
        given = arrays_of(scalars(config), "tune") if callable(scalars) else scalars
        program = program_of(kernel.lower(config))
        return Candidate(kernel, config, target, given, timeout, program.text, program_digest(program))
    except Exception as error:  # the kernel's own checks, of whatever class
        return Trial(config, None, first_line(error), "config", _is_transient(error))


def deciding(found: Candidate | Trial) -> tuple[Any, ...]:
    """What decides a config's cycles, besides the config."""
    return (found.refused,) if isinstance(found, Trial) else (found.digest, found.scalars)


def refusal(config: Any, error: AotError | SimulationError) -> Trial:
    """A config that a step refused, with who did."""
    known = {CompileError: "compiler", DumpError: "estimate", EstimateError: "estimate", SimulationError: "estimate"}
    stage = next((stage for kind, stage in known.items() if isinstance(error, kind)), "config")
    return Trial(config, None, first_line(error), stage, _is_transient(error))


def _is_transient(error: Exception) -> bool:
    return isinstance(error, LimitError) or (isinstance(error, AotError) and error.transient)


def first_line(error: Exception) -> str:
    """What an error says, in a line."""
    said = error.summary if isinstance(error, AotError | SimulationError) else str(error)
    return next((line for line in said.splitlines() if line.strip()), repr(error))
