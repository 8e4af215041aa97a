"""Engines by name."""

from feddecorr.engines.engine import Engine, RunClients
from feddecorr.engines.flower_simulation import Flower
from feddecorr.engines.pool import Pool
from feddecorr.engines.serial import Serial
from feddecorr.settings.kinds import Family

ENGINES = Family("engine", Engine, {"serial": Serial, "pool": Pool, "flower": Flower})

__all__ = ["ENGINES", "Engine", "Flower", "Pool", "RunClients", "Serial"]
