"""Engines by name."""

from feddecorr.core.registry import Registry
from feddecorr.engines.engine import Engine
from feddecorr.engines.pool import Pool
from feddecorr.engines.serial import Serial
from feddecorr.flower.engine import Flower
from feddecorr.server.federation import RunClients

ENGINES = Registry("engine", Engine, {"serial": Serial, "pool": Pool, "flower": Flower})

__all__ = ["ENGINES", "Engine", "Flower", "Pool", "RunClients", "Serial"]
