"""Lifted source as the call around a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from mosaic_tpu.builder import Builder, MosaicModule, Role
from mosaic_tpu.lift._run import built, function_of
from mosaic_tpu.lift.errors import BuildError, MissingKernelPackageError

if TYPE_CHECKING:
    from mosaic_tpu.kernel import CallExtras, Kernel, LoweredKernel


@dataclass(frozen=True)
class Source:
    """The config of a lifted kernel: its source."""

    text: str


def run(source: str, *, extras: CallExtras | None = None) -> LoweredKernel:
    r"""Build lifted source, and the call around it as `Kernel.lower` does.

    The source is executed as `build` executes it.

    Args:
        source: as `lift` returns it, edited or not.
        extras: knobs of the call, which are no part of the module. A kernel that uses the barrier semaphore has the
            ``collective_id`` 0 if they give none.

    Returns:
        The lowered kernel. Its body is in the version that the source says, byte for byte the lifted module's but for
        locations, which are the lines of the source. Of a module that no JAX function can call, one without outputs
        or for a SparseCore, it has the body alone.

    Raises:
        BuildError: the source does not run, or does not build a kernel.
        MissingKernelPackageError: mosaic-tpu-kernel is not installed.

    Example:
        >>> from mosaic_tpu.lift import lift, run
        >>> run(lift(text)).body[:4]
        b'ML\xefR'
    """
    try:
        from mosaic_tpu import kernel as package
    except ModuleNotFoundError as error:
        if error.name not in ("mosaic_tpu.kernel", "jax"):
            raise
        raise MissingKernelPackageError("mosaic-tpu-kernel is not installed", op="run") from None
    function, names = function_of(source)
    name, version = names["NAME"], names.get("IR_VERSION")
    if version is not None and type(version) is not int:
        raise BuildError(f"IR_VERSION is {version!r}", op="run", hint="an int, or None for the newest")
    module = built(function, name)
    knobs = _knobs(package, module, version, extras)
    inputs, outputs = _operands(module)
    if outputs:
        try:
            made = _kernel(name, function, version, inputs, outputs)
            return made.lower(Source(source), extras=knobs)
        except (package.KernelDefinitionError, package.ConfigError, NotImplementedError):
            pass  # the last for a SparseCore
    return _bare(package, name, module, version, knobs)


def _operands(module: MosaicModule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    signature: Any = module.signature
    if signature is None:
        return (), ()
    given = (*signature.with_role(Role.SCALAR_PREFETCH), *signature.with_role(Role.INPUT))
    # What the call gives first: the bounds of the grid that are no numbers.
    bounds = tuple(f"bound_{d}" for d, g in enumerate(signature.grid or ()) if g is None)
    return (*bounds, *(a.name for a in given)), tuple(a.name for a in signature.with_role(Role.OUTPUT))


def _knobs(package: Any, module: MosaicModule, version: int | None, extras: CallExtras | None) -> CallExtras:
    if extras is not None:
        return extras
    barrier = module.serialize(ir_version=version).has_custom_barrier
    return package.CallExtras(collective_id=0) if barrier else package.CallExtras()


def _kernel(
    name: str, function: Any, version: int | None, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Kernel[Source]:
    from mosaic_tpu.kernel import Kernel
    from mosaic_tpu.kernel._build import Built, Target

    class Lifted(Kernel[Source]):
        """A kernel that is written in one version, wherever it is called."""

        def build(self, cfg: Source, target: Target) -> Built:
            return super().build(cfg, Target(version, target.unzip))

    def body(b: Builder, cfg: Source) -> None:
        function(b)

    return Lifted(name, Source, inputs=inputs, outputs=outputs, run=body)


def _bare(package: Any, name: str, module: MosaicModule, version: int | None, extras: CallExtras) -> LoweredKernel:
    """A body that no call is known of."""
    from mosaic_tpu.kernel.backend_config import backend_config

    def refuse() -> NoReturn:
        raise BuildError("no call of this module is known", op="run", hint="give the body to a call of your own")

    made = module.serialize(ir_version=version)
    return package.LoweredKernel(
        name=name,
        body=made.body,
        ir_version=version,
        debug_locations=made.debug_locations,
        backend_config=backend_config(
            made, extras, (), (), op=name, needs_hlo_passes=False, collective_id=extras.collective_id
        ),
        outputs=(),
        aliases={},
        names=(),
        _stablehlo=refuse,
    )
