"""`Kernel`: a name, a config class and a function that builds the body, callable from JAX."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import jax
import numpy as np

from mosaic_tpu.builder import Builder, Role, as_dtype
from mosaic_tpu.builder.errors import DTypeError
from mosaic_tpu.kernel import _compat, _primitive
from mosaic_tpu.kernel._build import Built, Operand, Target, check_core, check_run, operands_of, run_kernel
from mosaic_tpu.kernel._cache import Cache
from mosaic_tpu.kernel._config import check_class, check_config, exact
from mosaic_tpu.kernel._options import OPTION_NAMES, current_options
from mosaic_tpu.kernel._packages import aot
from mosaic_tpu.kernel._simulator import prepare
from mosaic_tpu.kernel.backend_config import backend_config
from mosaic_tpu.kernel.errors import ExtrasError, InputError, KernelDefinitionError
from mosaic_tpu.kernel.extras import CallExtras
from mosaic_tpu.kernel.lowered import LoweredKernel

if TYPE_CHECKING:
    from mosaic_tpu.aot import Compilation, LintReport
    from mosaic_tpu.sim import Report

#: Configs kept per kernel; a server that sees more shapes than this rebuilds the oldest.
CACHE_SIZE: Final = 512


class Kernel[Config]:
    """A Mosaic kernel that JAX can call.

    Args:
        name: of the kernel's function, as Pallas takes it from the Python function.
        config: the class of what the body depends on: a frozen dataclass, or any other whose instances are hashable,
            such as ``int`` or ``float`` where there is one number.
        inputs: call-site names of what the call takes: first the bounds of the grid, one for each that is declared as
            ``None`` and so is an i32 scalar of the call; then the scalar-prefetch and input refs as declared.
        outputs: call-site names of the output refs.
        run: builds the body: ``run(b, cfg)``.
        extras: knobs of the call, fixed or derived from the config.
        partial_outputs: outputs that may have elements nobody writes, padding for instance: what they hold is
            undefined, and the simulator does not mind.

    Raises:
        KernelDefinitionError: ``run`` has another signature, names repeat, or the config class is not hashable.

    Example:
        >>> from dataclasses import dataclass
        >>> from mosaic_tpu.builder import Ref, Role, Scalar, Window, f32, i32
        >>> @dataclass(frozen=True)
        ... class ScaleConfig:
        ...     rows: int = 512
        ...     factor: float = 2.0
        >>> def scale_kernel(b, cfg):
        ...     block = Window((128, 256), index_map=lambda i: (i, 0))
        ...     a = b.declare_args(
        ...         dict(
        ...             i=Scalar(i32),
        ...             x=Ref((128, 256), f32, window=block),
        ...             y=Ref((128, 256), f32, role=Role.OUTPUT, window=block),
        ...         ),
        ...         grid=(cfg.rows // 128,),
        ...     )
        ...     a.y[...] = a.x[...] * cfg.factor
        >>> scale = Kernel("scale", ScaleConfig, inputs=("x",), outputs=("y",), run=scale_kernel)
        >>> len(scale.lower(ScaleConfig()).body) > 500
        True
    """

    def __init__(
        self,
        name: str,
        config: type[Config],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        run: Callable[[Builder, Config], None],
        extras: CallExtras | Callable[[Config], CallExtras] | None = None,
        partial_outputs: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.config = config
        self.inputs = self._names(inputs)
        self.outputs = self._names(outputs)
        self.partial_outputs = self._names(partial_outputs)
        self.run = run
        self._extras = extras if extras is not None else CallExtras()
        self._built: Cache[tuple[Hashable, Target], Built] = Cache(CACHE_SIZE)
        self._built_once: Cache[Hashable, Built] = Cache(CACHE_SIZE)
        #: The simulator's modules, by the call's `body_key`.
        self.readings: Cache[Hashable, Any] = Cache(CACHE_SIZE)
        self._check_definition()

    def _names(self, names: Sequence[str]) -> tuple[str, ...]:
        if (
            not isinstance(names, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
            or isinstance(names, str)
            or not all(isinstance(n, str) and n.isidentifier() for n in names)  # pyright: ignore[reportUnnecessaryIsInstance]
        ):
            raise KernelDefinitionError(
                f"the names {names!r}", op=self.name, hint='a tuple of Python names: ("x", "y")'
            )
        return tuple(names)

    def _check_definition(self) -> None:
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelDefinitionError(f"the name is {self.name!r}", op="Kernel", hint='Kernel("my_kernel", …)')
        check_class(self.name, self.config)
        names = (*self.inputs, *self.outputs)
        repeated = sorted({n for n in names if names.count(n) > 1} | {n for n in names if n in ("cfg", "extras")})
        if repeated:
            raise KernelDefinitionError(
                f"the name {repeated[0]!r} is taken", op=self.name, hint="inputs and outputs need distinct names"
            )
        if not self.outputs:
            raise KernelDefinitionError("a kernel needs an output", op=self.name, hint="outputs=(…)")
        unknown = [n for n in self.partial_outputs if n not in self.outputs]
        if unknown:
            raise KernelDefinitionError(
                f"the partial output {unknown[0]!r} is no output",
                op=self.name,
                hint=f"outputs: {', '.join(self.outputs)}",
            )
        check_run(self.name, self.run)
        if not callable(self._extras) and not isinstance(self._extras, CallExtras):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelDefinitionError(
                f"extras is a {type(self._extras).__name__}",
                op=self.name,
                hint="CallExtras(…), or a function from the config to one",
            )
        if isinstance(self._extras, CallExtras):
            self._extras.check_names(self.name, self.inputs, self.outputs)

    # --- building --------------------------------------------------------------------------------------------------

    def build(self, cfg: Config, target: Target) -> Built:
        """The operands and body of a config for one target, cached."""
        key = self._key(cfg)
        found = self._built.get((key, target))
        if found is not None:
            return found
        module = run_kernel(self.name, self.run, cfg, verify=None)
        check_core(self.name, module)
        inputs, outputs = operands_of(self.name, self.run, module, self.inputs, self.outputs)
        arguments = module.signature.arguments
        names = tuple(a.name for a in arguments)
        first_output = next(i for i, a in enumerate(arguments) if a.role is Role.OUTPUT)
        serialized = module.serialize(ir_version=target.ir_version, unzip=target.unzip, keep=False)
        bounds = (module.signature.grid or ()).count(None)
        built = Built(inputs, outputs, serialized, names, first_output, bounds)
        self._built.put((key, target), built)
        self._built_once.put(key, built)
        return built

    def _key(self, cfg: Config) -> Hashable:
        check_config(self.name, self.config, cfg)
        return exact(self.name, cfg)

    def _for_any_target(self, cfg: Config) -> Built:
        """For what does not depend on the target: operands, results, whether it communicates."""
        return self._built_once.get(self._key(cfg)) or self.build_here(cfg)

    def clear_cache(self) -> None:
        """Forget every built config."""
        self._built.clear()
        self._built_once.clear()
        self.readings.clear()

    def build_here(self, cfg: Config) -> Built:
        """The operands and body of a config for the reader on this machine, cached."""
        return self.build(cfg, Target(*_compat.ambient_target()))

    def inputs_of(self, cfg: Config) -> tuple[Operand, ...]:
        """Name, shape and dtype of every input of a config."""
        return self._for_any_target(cfg).inputs

    def outputs_of(self, cfg: Config) -> tuple[Operand, ...]:
        """Name, shape and dtype of every output of a config."""
        return self._for_any_target(cfg).outputs

    def communicates(self, cfg: Config) -> bool:
        """Whether the body of a config talks to other devices."""
        return self._for_any_target(cfg).module.has_communication

    def extras_of(self, cfg: Config) -> CallExtras:
        """The knobs of the call for a config."""
        check_config(self.name, self.config, cfg)
        found = self._extras(cfg) if callable(self._extras) else self._extras
        if not isinstance(found, CallExtras):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelDefinitionError(
                f"extras gave a {type(found).__name__}", op=self.name, hint="return CallExtras(…)"
            )
        return found

    # --- looking ---------------------------------------------------------------------------------------------------

    def emit(self, cfg: Config, *, canonical: bool = True, locations: bool = False) -> str:
        """The kernel as MLIR text.

        Args:
            cfg: the config.
            canonical: after ``canonicalize,cse,canonicalize``, to read and diff; else op for op as emitted.
            locations: with the kernel's file and line on every op.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class, or holds what can change.
            KernelDefinitionError: the kernel's inputs and outputs are not the declared ones.
            MosaicError: whatever the body does wrong, at its line.
        """
        self._key(cfg)  # refuses what `lower` refuses
        module = run_kernel(self.name, self.run, cfg)
        operands_of(self.name, self.run, module, self.inputs, self.outputs)
        return module.text(canonical=canonical, locations=locations)

    def lower(self, cfg: Config, *, extras: CallExtras | None = None) -> LoweredKernel:
        r"""The body and the custom call of a config, as Pallas would lower them here and now.

        Without a TPU the body has the forward-compatible IR version, with one the newest.

        Args:
            cfg: the config.
            extras: knobs of the call instead of the kernel's own.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            ExtrasError: the extras do not fit the kernel.

        Example:
            >>> from mosaic_tpu.builder import Ref, Role, f32
            >>> def copy_kernel(b, rows):
            ...     a = b.declare_args(dict(x=Ref((rows, 128), f32), y=Ref((rows, 128), f32, role=Role.OUTPUT)))
            ...     a.y[...] = a.x[...]
            >>> copy = Kernel("copy", int, inputs=("x",), outputs=("y",), run=copy_kernel)
            >>> lowered = copy.lower(8)
            >>> lowered.body[:4], list(lowered.config)
            (b'ML\xefR', ['custom_call_config'])
        """
        built = self.build_here(cfg)
        knobs = self._checked_extras(cfg, extras)
        return LoweredKernel(
            name=self.name,
            body=built.module.body,
            ir_version=built.module.ir_version,
            debug_locations=built.module.debug_locations,
            backend_config=backend_config(
                built.module,
                knobs,
                self.inputs,
                self.outputs,
                op=self.name,
                bounds=built.bounds,
                needs_hlo_passes=_compat.allow_hlo(),
                collective_id=knobs.collective_id,
            ),
            outputs=built.outputs,
            aliases={
                self.outputs.index(output): self.inputs.index(source)
                for output, source in knobs.output_operand_aliases.items()
            },
            names=built.names,
            _stablehlo=lambda: self._stablehlo(_primitive.Call(self, cfg, knobs)),
        )

    def _stablehlo(self, call: _primitive.Call) -> str:
        def program(*arrays: Any) -> list[Any]:
            return _primitive.bind(call, arrays)

        program.__name__ = program.__qualname__ = self.name
        shapes = [jax.ShapeDtypeStruct(o.shape, o.dtype.numpy) for o in self.inputs_of(call.cfg)]
        with _compat.no_mesh():
            return _compat.jit(program).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()

    def _checked_extras(self, cfg: Config, extras: CallExtras | None) -> CallExtras:
        found = self.extras_of(cfg) if extras is None else extras
        if not isinstance(found, CallExtras):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExtrasError(f"extras is a {type(found).__name__}", op=self.name, hint="CallExtras(…)")
        found.check_names(self.name, self.inputs, self.outputs)
        built = self._for_any_target(cfg)
        operands = {o.name: o for o in (*built.inputs, *built.outputs)}
        for output, source in found.output_operand_aliases.items():
            given, taken = operands[source], operands[output]
            if (given.shape, given.dtype) != (taken.shape, taken.dtype):
                raise ExtrasError(
                    f"{output!r} is {taken} and cannot reuse the buffer of {source!r}, {given}",
                    op=self.name,
                    hint="alias an input of the output's shape and dtype",
                )
        return found

    # --- calling -----------------------------------------------------------------------------------------------------

    def __call__(self, /, *, cfg: Config, extras: CallExtras | None = None, **inputs: Any) -> Any:
        """Run the kernel, under eager JAX, jit and shard_map: on a TPU one ``tpu_custom_call``, on a CPU the simulator.

        For a TPU, `jax.export` works too. On a CPU the devices of a `jax.shard_map` are simulated TPUs, which may
        communicate; `simulation` chooses how they are simulated. Outside of `jax.jit` the simulator's own errors
        are raised; inside, JAX raises its `jax.errors.JaxRuntimeError`, or a ``ValueError``, with their text.

        Args:
            cfg: the config.
            extras: knobs of this call instead of the kernel's own.
            **inputs: one array for each input name.

        Returns:
            The output array, or a tuple of them in the order of ``outputs``.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            InputError: an array is missing, unexpected, or of another shape or dtype.
            ExtrasError: the extras do not fit the kernel.
            NoTPUError: the program runs on a device that is neither a TPU nor a CPU, or on a CPU without the simulator
                (``pip install mosaic-tpu-sim``), or is to be exported for a CPU.
            PartitioningError: the program runs on several devices without `jax.shard_map`.
            RendezvousError: on CPUs, of devices that communicate not all came to the call.
            mosaic_tpu.sim.SimulationError: on a CPU, what the simulator found.
            TransformationError: under `jax.vmap`, `jax.grad` and the like.
        """
        check_config(self.name, self.config, cfg)
        operands = self._arrays(cfg, inputs)
        call = _primitive.Call(self, cfg, self._checked_extras(cfg, extras), current_options())
        results = _primitive.bind(call, operands)
        return results[0] if len(results) == 1 else tuple(results)

    def simulate(self, /, *, cfg: Config, extras: CallExtras | None = None, **inputs_and_options: Any) -> Report:
        """Run the kernel in the simulator, as on one TPU, whatever devices there are.

        For several devices that communicate: ``mosaic_tpu.sim.simulate_devices(kernel.lower(cfg), inputs_of_each)``.

        Args:
            cfg: the config.
            extras: knobs of this call instead of the kernel's own.
            **inputs_and_options: one array for each input name, and `SimulationOptions`, which go before those of a
                `simulation` block. A name that is both is the input's.

        Returns:
            The simulator's report, a `mosaic_tpu.sim.Report`: outputs, hazards, trace, counts.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            InputError: an array is missing, unexpected, traced, or of another shape or dtype.
            ExtrasError: the extras do not fit the kernel.
            SimulationOptionError: an option cannot be hashed.
            NoTPUError: the simulator is not installed.
            mosaic_tpu.sim.SimulationError: what the simulator found.

        Example:
            >>> import numpy as np
            >>> from mosaic_tpu.builder import Ref, Role, f32
            >>> def copy_kernel(b, rows):
            ...     a = b.declare_args(dict(x=Ref((rows, 128), f32), y=Ref((rows, 128), f32, role=Role.OUTPUT)))
            ...     a.y[...] = a.x[...]
            >>> copy = Kernel("copy", int, inputs=("x",), outputs=("y",), run=copy_kernel)
            >>> copy.simulate(x=np.ones((8, 128), np.float32), cfg=8, seed=3).hazards
            ()
        """
        check_config(self.name, self.config, cfg)
        inputs = {n: v for n, v in inputs_and_options.items() if n in self.inputs or n not in OPTION_NAMES}
        options = {n: v for n, v in inputs_and_options.items() if n not in inputs}
        arrays = self._arrays(cfg, inputs, more=f"; options: {', '.join(sorted(OPTION_NAMES))}")
        for name, array in zip(self.inputs, arrays, strict=True):
            if isinstance(array, _compat.Tracer):
                raise InputError(
                    f"{name!r} is traced", op=self.name, hint="simulate outside of jit, or call the kernel"
                )
        call = _primitive.Call(self, cfg, self._checked_extras(cfg, extras), current_options(self.name, **options))
        return prepare(call).report(arrays)

    # --- compiling -----------------------------------------------------------------------------------------------

    def compile(
        self, cfg: Config, target: str = "v6e", *, extras: CallExtras | None = None, **options: Any
    ) -> Compilation:
        """Compile a config with the real TPU compiler, which needs no TPU.

        Args:
            cfg: the config.
            target: a generation, ``"v6e"``, or a topology, ``"v5e:2x2"``.
            extras: knobs of the call instead of the kernel's own.
            **options: of `mosaic_tpu.aot.compile`: ``vmem_limit_bytes``, ``schedule``, ``flags``, ``timeout`` ….

        Returns:
            The compiler's word, a `mosaic_tpu.aot.Compilation`.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            ExtrasError: the extras do not fit the kernel.
            MissingPackageError: mosaic-tpu-aot is not installed.
            mosaic_tpu.aot.AotError: the compiler refused, at the kernel's line, or is not installed.

        Example:
            >>> from mosaic_tpu.builder import Ref, Role, f32
            >>> def copy_kernel(b, rows):
            ...     a = b.declare_args(dict(x=Ref((rows, 128), f32), y=Ref((rows, 128), f32, role=Role.OUTPUT)))
            ...     a.y[...] = a.x[...]
            >>> copy = Kernel("copy", int, inputs=("x",), outputs=("y",), run=copy_kernel)
            >>> copy.compile(8, target="v6e").ok                                         # doctest: +SKIP
            True
        """
        return aot(self.name).compile(self.lower(cfg, extras=extras), target, **options)

    def lint(
        self,
        cfg: Config,
        target: str | Sequence[str] | None = None,
        *,
        extras: CallExtras | None = None,
        vmem_limit_bytes: int | None = None,
    ) -> LintReport:
        """What the TPU compiler would refuse of a config, found in milliseconds and without it.

        Args:
            cfg: the config.
            target: generations to look at; all if not given.
            extras: knobs of the call instead of the kernel's own.
            vmem_limit_bytes: instead of what the extras say.

        Returns:
            A `mosaic_tpu.aot.LintReport`.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            ExtrasError: the extras do not fit the kernel.
            MissingPackageError: mosaic-tpu-aot is not installed.
        """
        lowered = self.lower(cfg, extras=extras)
        return aot(self.name).lint(lowered, target=target, vmem_limit_bytes=vmem_limit_bytes)

    def _arrays(self, cfg: Config, inputs: dict[str, Any], *, more: str = "") -> tuple[Any, ...]:
        missing = [n for n in self.inputs if n not in inputs]
        unexpected = [n for n in inputs if n not in self.inputs]
        if missing or unexpected:
            what = f"missing input {missing[0]!r}" if missing else f"unexpected input {unexpected[0]!r}"
            raise InputError(what, op=self.name, hint=f"inputs: {', '.join(self.inputs) or 'none'}{more}")
        return tuple(self._array(o, inputs[o.name]) for o in self.inputs_of(cfg))

    def _array(self, wanted: Operand, given: Any) -> Any:
        if getattr(given, "__jax_array__", None) is not None:
            given = given.__jax_array__()
        if not isinstance(given, jax.Array | np.ndarray | np.generic):
            raise InputError(
                f"{wanted.name!r} is a {type(given).__name__}, the config says {wanted}",
                op=self.name,
                hint=f"pass an array: jnp.asarray({wanted.name}, {str(wanted.dtype.numpy)!r})",
            )
        array = cast("Any", given)
        try:
            dtype = as_dtype(array.dtype)
        except DTypeError:
            dtype = None
        if array.shape != wanted.shape or dtype is not wanted.dtype:
            raise InputError(
                f"{wanted.name!r} is {dtype or array.dtype}{list(array.shape)}, the config says {wanted}",
                op=self.name,
                hint="pass that array, or change the config",
            )
        return array

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {self.config.__name__}, inputs={self.inputs}, outputs={self.outputs})"


__all__ = ["CACHE_SIZE", "Kernel"]
