"""Checks of the arrays of `mosaic_tpu.zoo.gated_delta_net`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from mosaic_tpu.kernel import InputError
from mosaic_tpu.zoo.validation._arguments import check_arrays

type Abstract = jax.Array | jax.ShapeDtypeStruct

_OP = "gated_delta_net"


def check_shapes(
    q: Abstract,
    k: Abstract,
    v: Abstract,
    g: Abstract,
    beta: Abstract,
    h0: Abstract,
    cu_seqlens: Abstract,
) -> None:
    """Refuse arrays whose shapes or dtypes do not fit each other. Needs no contents: works under jit.

    Raises:
        InputError: an array has another rank, shape or dtype than the others need.
    """
    check_arrays(_OP, q=q, k=k, v=v, g=g, beta=beta, h0=h0, cu_seqlens=cu_seqlens)
    for name, array, axes in (("q", q, "[1, T, H, K]"), ("v", v, "[1, T, HV, V]"), ("h0", h0, "[N, HV, K, V]")):
        if len(array.shape) != 4 or 0 in array.shape:
            raise InputError(f"{name} is {list(array.shape)}", op=_OP, hint=f"{name} is {axes}, every size at least 1")
    if len(cu_seqlens.shape) != 1:
        raise InputError(f"cu_seqlens is {list(cu_seqlens.shape)}", op=_OP, hint="cu_seqlens is [N + 1]")
    batch, tokens, heads, key_dim = q.shape
    value_heads, value_dim = v.shape[2:]
    sequences = h0.shape[0]
    if batch != 1:
        raise InputError(f"q is {list(q.shape)}: a batch of {batch}", op=_OP, hint="lay sequences end to end along T")
    _check_shape("k", k, (1, tokens, heads, key_dim), "that of q")
    _check_shape("v", v, (1, tokens, value_heads, value_dim), "one T with q")
    _check_shape("g", g, (1, tokens, value_heads), "[1, T, HV]")
    _check_shape("beta", beta, (1, tokens, value_heads), "[1, T, HV]")
    _check_shape("h0", h0, (sequences, value_heads, key_dim, value_dim), "[N, HV, K, V]")
    _check_shape("cu_seqlens", cu_seqlens, (sequences + 1,), "[N + 1] for the N states of h0")
    if value_heads % heads:
        raise InputError(f"v has {value_heads} heads, q has {heads}", op=_OP, hint="HV is a multiple of H")
    _check_dtypes(q, k, v, g, beta, h0, cu_seqlens)


def _check_shape(name: str, array: Abstract, wanted: tuple[int, ...], why: str) -> None:
    if array.shape != wanted:
        raise InputError(f"{name} is {list(array.shape)}, not {list(wanted)}", op=_OP, hint=f"its shape is {why}")


def _check_dtypes(
    q: Abstract, k: Abstract, v: Abstract, g: Abstract, beta: Abstract, h0: Abstract, cu_seqlens: Abstract
) -> None:
    if q.dtype not in (jnp.bfloat16, jnp.float32) or not q.dtype == k.dtype == v.dtype:
        raise InputError(f"q, k, v are {q.dtype}, {k.dtype}, {v.dtype}", op=_OP, hint="all bfloat16, or all float32")
    for name, gate in (("g", g), ("beta", beta)):
        if not jnp.issubdtype(gate.dtype, jnp.floating):
            raise InputError(f"{name} is {gate.dtype}", op=_OP, hint="a float; the kernel reads it as float32")
    if h0.dtype != jnp.float32:
        raise InputError(f"h0 is {h0.dtype}", op=_OP, hint="states are float32: h0.astype(jnp.float32)")
    if not jnp.issubdtype(cu_seqlens.dtype, jnp.integer):
        raise InputError(f"cu_seqlens is {cu_seqlens.dtype}", op=_OP, hint="integers; the kernel reads them as int32")


def validate_gated_delta_net(
    q: Abstract, k: Abstract, v: Abstract, g: Abstract, beta: Abstract, h0: Abstract, cu_seqlens: jax.Array
) -> None:
    """Check a call, and the values of ``cu_seqlens``, which it reads on the host: for tests and debugging.

    Of the other arrays only shapes and dtypes are looked at.

    Raises:
        InputError: `check_shapes` refuses the arrays, or ``cu_seqlens`` is traced, starts below 0, decreases, or ends
            beyond T.

    Example:
        >>> import numpy as np
        >>> f32 = np.float32
        >>> q, v, gate = np.zeros((1, 8, 2, 64), f32), np.zeros((1, 8, 4, 64), f32), np.zeros((1, 8, 4), f32)
        >>> validate_gated_delta_net(q, q, v, gate, gate, np.zeros((3, 4, 64, 64), f32), np.array([0, 3, 3, 8]))
    """
    if isinstance(cu_seqlens, Tracer):
        raise InputError("cu_seqlens is traced: its contents are not known", op=_OP, hint="call this outside of jit")
    check_shapes(q, k, v, g, beta, h0, cu_seqlens)
    tokens = q.shape[1]
    bounds = np.asarray(cu_seqlens, np.int64)
    falls = np.flatnonzero(np.diff(bounds) < 0)
    if bounds[0] < 0:
        raise InputError(f"cu_seqlens starts at {bounds[0]}", op=_OP, hint="the first sequence starts at 0 or later")
    if falls.size:
        n = int(falls[0])
        raise InputError(
            f"cu_seqlens falls from {bounds[n]} to {bounds[n + 1]} at sequence {n}",
            op=_OP,
            hint="each sequence ends where the next starts; an empty one repeats the number",
        )
    if bounds[-1] > tokens:
        raise InputError(
            f"cu_seqlens ends at {bounds[-1]}, there are {tokens} tokens", op=_OP, hint="ends are at most T"
        )
