"""Kinds that live outside of the project, as a user's would."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from feddecorr.methods import Local, Method, Trained
from feddecorr.objective import Pass, Term
from feddecorr.states import State


class Failing(Method):
    """Raises in one client of one round."""

    client: int = 1
    round: int = 2

    def terms(self, local: Local) -> Mapping[str, Term]:
        """Raise when the time has come."""
        if (local.client, local.broadcast.round) == (self.client, self.round):
            raise ZeroDivisionError("as it was told to")
        return {}


class Killed(Method):
    """Kills its own process by SIGKILL in one client of one round, the first `times` times."""

    client: int = 1
    round: int = 2
    times: int = 1
    directory: str = ""

    def terms(self, local: Local) -> Mapping[str, Term]:
        """Count the deaths in files, which survive them."""
        died = len(list(Path(self.directory).iterdir()))
        if (local.client, local.broadcast.round) == (self.client, self.round) and died < self.times:
            (Path(self.directory) / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {}


class Remembering(Method):
    """Counts, on the client, in how many rounds it took part, and lets the count act on the objective."""

    def terms(self, local: Local) -> Mapping[str, Term]:
        """Scale a pull towards zero by the count."""
        count = local.memory.get("count", torch.zeros(()))

        def pull(forward: Pass) -> Tensor:
            return 1e-3 * count * sum(weight.square().sum() for weight in forward.parameters.values())

        return {"pull": pull}

    def finish(self, local: Local, trained: Trained) -> tuple[State, State]:
        """Send and remember the count."""
        count = local.memory.get("count", torch.zeros(())) + 1
        return {"count": count}, {"count": count}
