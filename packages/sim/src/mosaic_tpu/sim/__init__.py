"""Run Mosaic TPU kernels on a CPU, and see races, deadlocks and stray memory.

Each error is a class of `mosaic_tpu.sim.errors`.
"""

from mosaic_tpu.sim._api import simulate as simulate
from mosaic_tpu.sim._api import simulate_devices as simulate_devices
from mosaic_tpu.sim._coverage import Coverage as Coverage
from mosaic_tpu.sim._coverage import Row as Row
from mosaic_tpu.sim._coverage import coverage as coverage
from mosaic_tpu.sim._machine import Event as Event
from mosaic_tpu.sim._module import Module as Module
from mosaic_tpu.sim._read import read as read
from mosaic_tpu.sim._report import Report as Report
from mosaic_tpu.sim.errors import HazardError as HazardError
from mosaic_tpu.sim.errors import SimulationError as SimulationError

__all__ = [
    "Coverage",
    "Event",
    "HazardError",
    "Module",
    "Report",
    "Row",
    "SimulationError",
    "coverage",
    "read",
    "simulate",
    "simulate_devices",
]
