"""Every kernel that has a Pallas counterpart: the same call from us and from Pallas, config by config."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from conformance.cases import gated_delta_net as gdn
from conformance.cases import matmul
from conformance.cases import ragged_paged_attention as rpa
from conformance.harness import pallas
from conformance.kernels import gated_delta_net_seed
from conformance.kernels import matmul as scratch_matmul
from mosaic_tpu import zoo
from mosaic_tpu.kernel import Kernel

type Shapes = tuple[jax.ShapeDtypeStruct, ...]


@dataclass(frozen=True)
class KernelCase:
    """One config of one kernel: a function of ours, Pallas's, and the shapes both are called with.

    Attributes:
        kernel: the name in the tables.
        config: the config's id.
        ours: our function of the arrays.
        theirs: Pallas's function.
        args: shapes and dtypes of Pallas's arrays, in order.
        ours_args: of ours: the same, but for kernels that are called on their operands directly.
        direct: why the operands are compared by their types alone, where Pallas's function prepares arrays that ours,
            a kernel called on its operands, is given as they are; empty where operands are compared in full.
        refused: what the TPU compiler says where it refuses the config; empty where none is known.
    """

    kernel: str
    config: str
    ours: Callable[..., Any] = field(repr=False)
    theirs: Callable[..., Any] = field(repr=False)
    args: Shapes = field(repr=False)
    ours_args: Shapes = field(repr=False)
    direct: str = ""
    refused: str = ""

    def lowered(self, **options: bool) -> tuple[pallas.PallasCall, pallas.PallasCall]:
        """Our call and Pallas's, as `levels.compare` takes them; options are those of `pallas.lower`."""
        ours = pallas.lower(self.ours, *self.ours_args, **options)
        theirs = pallas.lower(self.theirs, *self.args, **options)
        return (ours.by_types(), theirs.by_types()) if self.direct else (ours, theirs)

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return f"{self.kernel}-{self.config}"


def _rpa(config: rpa.RpaConfig) -> KernelCase:
    ours = functools.partial(
        zoo.ragged_paged_attention,
        sm_scale=config.sm_scale,
        sliding_window=config.sliding_window,
        soft_cap=config.soft_cap,
        mask_value=config.mask_value,
        k_scale=config.k_scale,
        v_scale=config.v_scale,
        num_kv_pages_per_block=config.pages_per_block,
        num_queries_per_block=config.queries_per_block,
        vmem_limit_bytes=config.vmem_limit_bytes,
    )
    shapes = tuple(rpa.args(config).values())
    return KernelCase(
        "ragged_paged_attention", config.id, ours, rpa.pallas_fn(config), shapes, shapes, refused=config.refused
    )


def _matmul(config: matmul.MatmulConfig) -> KernelCase:
    ours = functools.partial(
        zoo.matmul, block_shape=(config.bm, config.bn), block_k=config.bk, out_dtype=config.out_dtype
    )
    shapes = tuple(matmul.args(config).values())
    return KernelCase("matmul", config.id, ours, matmul.wheel_fn(config), shapes, shapes)


def _on_operands(kernel: Kernel[Any], cfg: Any) -> tuple[Callable[..., Any], Shapes]:
    """A kernel that has no function around it, as a function of its operands."""

    def call(*arrays: jax.Array) -> Any:
        return kernel(cfg=cfg, **dict(zip(kernel.inputs, arrays, strict=True)))

    return call, tuple(jax.ShapeDtypeStruct(o.shape, o.dtype.numpy) for o in kernel.inputs_of(cfg))


def _scratch_matmul(config: matmul.MatmulConfig) -> KernelCase:
    ours, shapes = _on_operands(scratch_matmul.KERNEL, matmul.scratch_config(config))
    theirs, args = matmul.pallas_fn(config), tuple(matmul.args(config).values())
    return KernelCase("matmul, scratch accumulator", config.id, ours, theirs, args, shapes)


def _gdn(config: gdn.GdnConfig) -> KernelCase:
    ours = functools.partial(
        zoo.gated_delta_net,
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
        block_tokens=config.block_tokens,
        block_heads=config.block_heads,
        block_v=config.block_v,
        transpose_keys=config.transpose_keys,
        vmem_limit_bytes=config.vmem_limit_bytes,
    )
    shapes = tuple(gdn.args(config).values())
    return KernelCase("gated_delta_net", config.id, ours, gdn.pallas_fn(config), shapes, shapes)


def _gdn_seed(config: gdn.GdnSeedConfig) -> KernelCase:
    ours, shapes = _on_operands(gated_delta_net_seed.KERNEL, gdn.seed_config(config))
    theirs, args = gdn.seed_pallas_fn(config), tuple(gdn.args(config).values())
    # Where no width needs padding, the operands are the arguments on both sides and are compared in full.
    direct = "" if shapes == args else "Pallas's function pads K and V to blocks; the kernel takes padded arrays"
    return KernelCase("gated_delta_net, seed's form", config.id, ours, theirs, args, shapes, direct)


CASES = [
    *map(_rpa, rpa.CONFIGS),
    *map(_matmul, matmul.WHEEL_CONFIGS),
    *map(_scratch_matmul, matmul.CONFIGS),
    *map(_gdn, gdn.CONFIGS),
    *map(_gdn_seed, gdn.SEED_CONFIGS),
]
