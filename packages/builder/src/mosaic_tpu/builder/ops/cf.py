"""The cf dialect: assertions. Its jumps do not exist here: regions have one block."""

from __future__ import annotations

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import DTypeError


class CfOps(Core):
    """``cf.*``."""

    @op("cf.assert", source="checkify.check(condition, message, debug=True)", traits=("debug",))
    def assert_(self, condition: Value, message: str) -> None:
        """Stop the kernel with ``message`` unless ``condition`` holds, where such checks are compiled in.

        Args:
            condition: an ``i1`` scalar.
            message: what is reported.

        Example:
            >>> b.assert_(b.lift(1) < 2, "one is less than two")
        """
        used = self._use(condition, "cf.assert")
        if condition._info is not self.types.scalar(dt.i1):
            self.fail(
                DTypeError,
                "the condition must be an i1 scalar",
                op="cf.assert",
                operands=[condition],
                hint="compare scalars: n > 0",
            )
        self._emit_void("cf.assert", [used], {"msg": self.types.string(self._text(message, "cf.assert", "message"))})
