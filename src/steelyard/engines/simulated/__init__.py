"""A cluster that exists only in memory and a small state file, marked simulated in every fact."""

from steelyard.engines.simulated.behaviour import Behaviour, parse_expect
from steelyard.engines.simulated.engine import SimulatedEngine
from steelyard.engines.simulated.spec import SimulationSpec, parse_simulation

__all__ = ["Behaviour", "SimulatedEngine", "SimulationSpec", "parse_expect", "parse_simulation"]
