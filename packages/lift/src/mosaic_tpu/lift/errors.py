"""Every error of `mosaic_tpu.lift`: one class per cause."""

from __future__ import annotations

from mosaic_tpu.sim.errors import ModuleError


class LiftError(ModuleError):
    """Base of all errors of `mosaic_tpu.lift`.

    Attributes:
        summary: what was wrong, one sentence.
        op: the MLIR op, ``"cf.br"``, or the function that refused.
        location: ``"file.py:12"`` of the kernel's source, or the line of the lifted one.
        hint: what to do next.
    """

    default_hint = "see help(mosaic_tpu.lift.lift)"


class SourceError(LiftError, ValueError):
    """There is no Mosaic module in what was given, or it is damaged."""

    default_hint = "give MLIR text or bytecode of a Mosaic module, a lowered kernel, or a lowered JAX function with one"


class NewerVersionError(SourceError):
    """The module is written in a version of Mosaic's stable form that the installed jaxlib does not know."""

    default_hint = "install a newer jaxlib"


class ChoiceError(SourceError):
    """The program holds several kernels, or not the one that was asked for."""

    default_hint = "name one with kernel="


class UnsupportedModuleError(LiftError, NotImplementedError):
    """The module has something that no builder source stands for."""

    default_hint = "Mosaic's control flow is structured: one block a region, functions alone in the module"


class NotExactError(LiftError, ValueError):
    """No source was found that gives the module's bytes."""

    default_hint = "the bytes may be damaged, or written by another jaxlib than the one installed"


class OptionError(LiftError, ValueError):
    """An option has a value outside its range."""

    default_hint = 'lift(source), or lift(source, style="idioms")'


class BuildError(LiftError, RuntimeError):
    """Lifted source, or what became of it, does not build a kernel."""

    default_hint = "one function of a Builder, with NAME before it, as lift writes it"


class MissingKernelPackageError(LiftError, ImportError):
    """`run` makes the call around a kernel, which needs the kernel package."""

    default_hint = "pip install mosaic-tpu-kernel, or take build(source), which needs the builder alone"
