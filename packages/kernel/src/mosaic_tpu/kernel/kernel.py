"""`Kernel`: a name, a config class and a function that builds the body, callable from JAX."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from mosaic_tpu.builder import Builder, as_dtype
from mosaic_tpu.builder.errors import DTypeError
from mosaic_tpu.kernel import _compat, _primitive
from mosaic_tpu.kernel._build import (
    Built,
    Operand,
    Target,
    check_config,
    check_run,
    operands_of,
    run_kernel,
)
from mosaic_tpu.kernel.backend_config import backend_config
from mosaic_tpu.kernel.errors import ExtrasError, InputError, KernelDefinitionError
from mosaic_tpu.kernel.extras import CallExtras
from mosaic_tpu.kernel.lowered import LoweredKernel

#: Configs kept per kernel; a server that sees more shapes than this rebuilds the oldest.
CACHE_SIZE: Final = 512


class Kernel[Config]:
    """A Mosaic kernel that JAX can call.

    Args:
        name: of the kernel's function, as Pallas takes it from the Python function.
        config: a frozen dataclass of what the body depends on.
        inputs: call-site names of the scalar-prefetch and input refs, in the order they are declared.
        outputs: call-site names of the output refs.
        run: builds the body: ``run(b, cfg)``.
        extras: knobs of the call, fixed or derived from the config.

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
    ) -> None:
        self.name = name
        self.config = config
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.run = run
        self._extras = extras if extras is not None else CallExtras()
        self._built: OrderedDict[tuple[Config, Target], Built] = OrderedDict()
        self._lock = threading.Lock()
        self._check_definition()

    def _check_definition(self) -> None:
        if not isinstance(self.config, type):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelDefinitionError("config must be a class", op=self.name, hint="a frozen dataclass")
        if getattr(self.config, "__hash__", None) is None:
            raise KernelDefinitionError(f"{self.config.__name__} cannot be hashed", op=self.name, hint="@dataclass(frozen=True)")
        names = (*self.inputs, *self.outputs)
        repeated = sorted({n for n in names if names.count(n) > 1} | {n for n in names if n in ("cfg", "extras")})
        if repeated:
            raise KernelDefinitionError(f"the name {repeated[0]!r} is taken", op=self.name, hint="inputs and outputs need distinct names")
        if not self.outputs:
            raise KernelDefinitionError("a kernel needs an output", op=self.name, hint="outputs=(…)")
        check_run(self.name, self.run)

    # --- building --------------------------------------------------------------------------------------------------

    def build(self, cfg: Config, target: Target) -> Built:
        """The operands and body of a config for one target, cached."""
        key = (cfg, target)
        with self._lock:
            found = self._built.get(key)
            if found is not None:
                self._built.move_to_end(key)
                return found
        module = run_kernel(self.name, self.run, cfg)
        inputs, outputs = operands_of(self.name, module, self.inputs, self.outputs)
        serialized = module.serialize(ir_version=target.ir_version, unzip=target.unzip, keep=False)
        built = Built(inputs, outputs, serialized)
        with self._lock:
            self._built[key] = built
            while len(self._built) > CACHE_SIZE:
                self._built.popitem(last=False)
        return built

    def clear_cache(self) -> None:
        """Forget every built config."""
        with self._lock:
            self._built.clear()

    def _ambient(self, cfg: Config) -> Built:
        check_config(self.name, self.config, cfg)
        return self.build(cfg, Target(*_compat.ambient_target()))

    def inputs_of(self, cfg: Config) -> tuple[Operand, ...]:
        """Name, shape and dtype of every input of a config."""
        return self._ambient(cfg).inputs

    def outputs_of(self, cfg: Config) -> tuple[Operand, ...]:
        """Name, shape and dtype of every output of a config."""
        return self._ambient(cfg).outputs

    def extras_of(self, cfg: Config) -> CallExtras:
        """The knobs of the call for a config."""
        found = self._extras(cfg) if callable(self._extras) else self._extras
        if not isinstance(found, CallExtras):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelDefinitionError(f"extras gave a {type(found).__name__}", op=self.name, hint="return CallExtras(…)")
        return found

    # --- looking ---------------------------------------------------------------------------------------------------

    def emit(self, cfg: Config, *, canonical: bool = True, locations: bool = False) -> str:
        """The kernel as MLIR text.

        Args:
            cfg: the config.
            canonical: after ``canonicalize,cse,canonicalize``, to read and diff; else op for op as emitted.
            locations: with the kernel's file and line on every op.

        Raises:
            ConfigError: ``cfg`` is not of the kernel's config class.
            MosaicError: whatever the body does wrong, at its line.
        """
        check_config(self.name, self.config, cfg)
        return run_kernel(self.name, self.run, cfg).text(canonical=canonical, locations=locations)

    def lower(self, cfg: Config, *, extras: CallExtras | None = None) -> LoweredKernel:
        """The body and the custom call of a config, as Pallas would lower them here and now.

        Without a TPU the body has the forward-compatible IR version, with one the newest.

        Example:
            >>> from mosaic_tpu.zoo.kernels.matmul import KERNEL, MatmulConfig
            >>> KERNEL.lower(MatmulConfig(m=512, k=512, n=512)).body[:4]
            b'ML\\xefR'
        """
        built = self._ambient(cfg)
        knobs = self._checked_extras(cfg, extras)
        return LoweredKernel(
            name=self.name,
            body=built.module.body,
            ir_version=built.module.ir_version,
            debug_locations=built.module.debug_locations,
            backend_config=backend_config(
                built.module, knobs, self.inputs, self.outputs, needs_hlo_passes=_compat.allow_hlo()
            ),
            _stablehlo=lambda: self._stablehlo(cfg, knobs, built),
        )

    def _stablehlo(self, cfg: Config, extras: CallExtras, built: Built) -> str:
        shapes = [jax.ShapeDtypeStruct(o.shape, o.dtype.numpy) for o in built.inputs]
        traced = jax.jit(lambda *arrays: _primitive.bind(self, cfg, extras, arrays)).trace(*shapes)
        return traced.lower(lowering_platforms=("tpu",)).as_text()

    def _checked_extras(self, cfg: Config, extras: CallExtras | None) -> CallExtras:
        found = self.extras_of(cfg) if extras is None else extras
        if not isinstance(found, CallExtras):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExtrasError(f"extras is a {type(found).__name__}", op=self.name, hint="CallExtras(…)")
        found.check_names(self.inputs, self.outputs)
        return found

    # --- calling -----------------------------------------------------------------------------------------------------

    def __call__(self, *, cfg: Config, extras: CallExtras | None = None, **inputs: Any) -> Any:
        """Run the kernel: one ``tpu_custom_call``, under eager JAX, jit, shard_map and jax.export.

        Args:
            cfg: the config.
            extras: knobs of this call instead of the kernel's own.
            **inputs: one array for each input name.

        Returns:
            The output array, or a tuple of them in the order of ``outputs``.

        Raises:
            InputError: an array is missing, unexpected, or of another shape or dtype.
            NoTPUError: the program runs on a device that is not a TPU.
        """
        check_config(self.name, self.config, cfg)
        knobs = self._checked_extras(cfg, extras)
        operands = self._operands(cfg, inputs)
        results = _primitive.bind(self, cfg, knobs, operands)
        return results[0] if len(results) == 1 else tuple(results)

    def _operands(self, cfg: Config, inputs: dict[str, Any]) -> tuple[Any, ...]:
        missing = [n for n in self.inputs if n not in inputs]
        unexpected = [n for n in inputs if n not in self.inputs]
        if missing or unexpected:
            what = f"missing input {missing[0]!r}" if missing else f"unexpected input {unexpected[0]!r}"
            raise InputError(what, op=self.name, hint=f"inputs: {', '.join(self.inputs)}")
        return tuple(self._operand(o, inputs[o.name]) for o in self.inputs_of(cfg))

    def _operand(self, wanted: Operand, given: Any) -> Any:
        if not hasattr(given, "shape") or not hasattr(given, "dtype"):
            given = np.asarray(given)
        try:
            dtype = as_dtype(given.dtype)
        except DTypeError:
            dtype = None
        if tuple(given.shape) != wanted.shape or dtype is not wanted.dtype:
            raise InputError(
                f"{wanted.name!r} is {dtype or given.dtype}{list(given.shape)}, the config says {wanted}",
                op=self.name,
                hint="pass that array, or change the config",
            )
        return given

    def __repr__(self) -> str:
        return f"Kernel({self.name!r}, {self.config.__name__}, inputs={self.inputs}, outputs={self.outputs})"


__all__ = ["CACHE_SIZE", "Kernel"]
