"""Engines by name."""

from feddecorr.core.registry import Family
from feddecorr.engines.engine import Engine
from feddecorr.engines.pool import Pool
from feddecorr.engines.serial import Serial
from feddecorr.flower.engine import Flower
from feddecorr.server.federation import RunClients

ENGINES = Family("engine", Engine, {"serial": Serial, "pool": Pool, "flower": Flower})

__all__ = ["ENGINES", "Engine", "Flower", "Pool", "RunClients", "Serial"]
