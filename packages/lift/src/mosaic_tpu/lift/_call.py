"""Lifted source as the call around a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from mosaic_tpu.builder import Builder, MosaicModule, Role, SerializedModule
from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.lift._run import built, function_of, no_version, version_of
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
    name, version = names["NAME"], version_of(source, names)
    module = built(function, name)
    try:
        made = module.serialize(ir_version=version)
    except MosaicError as error:
        raise no_version(source, version, error.summary, "run") from None
    barrier = package.CallExtras(collective_id=0) if made.has_custom_barrier else package.CallExtras()
    knobs = barrier if extras is None else extras
    inputs, outputs = _operands(module)
    if outputs:
        try:
            kernel = _kernel(name, function, module, version, inputs, outputs)
            return kernel.lower(Source(source), extras=knobs)
        except (package.KernelDefinitionError, package.ConfigError, NotImplementedError):
            pass  # the last for a SparseCore
    return _bare(package, name, module, made, knobs)


def _operands(module: MosaicModule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    signature: Any = module.signature
    if signature is None:
        return (), ()
    given = (*signature.with_role(Role.SCALAR_PREFETCH), *signature.with_role(Role.INPUT))
    # What the call gives first: the bounds of the grid that are no numbers.
    bounds = tuple(f"bound_{d}" for d, g in enumerate(signature.grid or ()) if g is None)
    return (*bounds, *(a.name for a in given)), tuple(a.name for a in signature.with_role(Role.OUTPUT))


def _kernel(
    name: str,
    function: Any,
    module: MosaicModule,
    version: int | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Kernel[Source]:
    from mosaic_tpu.kernel import Kernel
    from mosaic_tpu.kernel._build import Built, Target, check_core, operands_of

    def body(b: Builder, cfg: Source) -> None:
        function(b)

    check_core(name, module)
    operands = operands_of(name, body, module, inputs, outputs)
    arguments, bounds = module.signature.arguments, (module.signature.grid or ()).count(None)
    first = next(number for number, a in enumerate(arguments) if a.role is Role.OUTPUT)

    class Lifted(Kernel[Source]):
        """A kernel that is built, in one version wherever it is called."""

        def build(self, cfg: Source, target: Target) -> Built:
            found = self._built.get((cfg, Target(version, target.unzip)))
            if found is None:
                serialized = module.serialize(ir_version=version, unzip=target.unzip)
                found = Built(*operands, serialized, tuple(a.name for a in arguments), first, bounds)
                self._built.put((cfg, Target(version, target.unzip)), found)
            return found

    return Lifted(name, Source, inputs=inputs, outputs=outputs, run=body)


def _bare(package: Any, name: str, module: MosaicModule, made: SerializedModule, extras: CallExtras) -> LoweredKernel:
    """A body that no call is known of."""
    from mosaic_tpu.kernel.backend_config import backend_config

    def refuse() -> NoReturn:
        raise BuildError("no call of this module is known", op="run", hint="give the body to a call of your own")

    signature: Any = module.signature
    return package.LoweredKernel(
        name=name,
        body=made.body,
        ir_version=made.ir_version,
        debug_locations=made.debug_locations,
        backend_config=backend_config(
            made, extras, (), (), op=name, needs_hlo_passes=False, collective_id=extras.collective_id
        ),
        outputs=(),
        aliases={},
        names=() if signature is None else tuple(a.name for a in signature.arguments),
        _stablehlo=refuse,
    )
