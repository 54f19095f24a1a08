"""Round trips: from a body to source in either style, and from that to the body."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from conformance.harness import levels
from mosaic_tpu.lift import build, lift
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given

_NO_TYPE = "elements that the builder has no type of: f4e2m1fn"
#: Ops that lifted source writes in their generic form, each with the reason; all others have a rule that fits.
GENERIC: Final = {
    "builtin.module": "attributes beside its name",
    "func.func": f"index maps of another form; {_NO_TYPE}",
    "func.return": "of such functions",
    "arith.constant": "elements that differ, and bits that no number has",
    "arith.extf": _NO_TYPE,
    "arith.truncf": _NO_TYPE,
    "vector.load": _NO_TYPE,
    "tpu.vector_store": _NO_TYPE,
    "tpu.reduce_index": "positions in 16 bits: the helper has 32",
    "vector.store": "to a memory that is not VMEM",
}


@dataclass
class Trip:
    """What became of the modules of one source."""

    modules: int = 0
    identical: int = 0
    helped: int = 0
    idiomatic: int = 0
    again: int = 0
    stable: int = 0
    generic: Counter[str] = field(default_factory=Counter[str])

    def add(self, body: bytes) -> bool:
        """Lift a body in both styles, run the sources, and compare the bytes as the compiler would be handed them."""
        self.modules += 1
        version, wanted = levels.ir_version(body), levels.stripped(body)
        plain, idiomatic = (lifted(given(body), style) for style in ("ops", "idioms"))
        built = [build(found.text) for found in (plain, idiomatic)]
        same = all(
            levels.stripped(module.serialize(ir_version=version, unzip=False).body) == wanted for module in built
        )
        self.identical += same
        self.stable += lift(built[0]) == plain.text and lift(built[1], style="idioms") == idiomatic.text
        self.helped += plain.helped
        self.idiomatic += idiomatic.idiomatic
        self.again += idiomatic.attempts > plain.attempts
        self.generic.update(plain.generic)
        return same

    def row(self, source: str) -> dict[str, object]:
        """For the report."""
        return {
            "source": source,
            "modules": self.modules,
            "identical": self.identical,
            "failed": self.modules - self.identical,
            "ops by helpers": self.helped,
            "ops in idioms": self.idiomatic,
            "idioms refused": self.again,
            "sources that come back": self.stable,
            "generic": self.generic.total(),
            "generic ops": " ".join(sorted(self.generic)) or "none",
        }
