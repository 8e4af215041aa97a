"""One client's part in a round, from what it was sent, holds and remembers, to its update."""

from __future__ import annotations

from torch import nn

from feddecorr.federation import Shard, Task
from feddecorr.local_training.batches import Visits
from feddecorr.local_training.tally import Tally
from feddecorr.messages import Broadcast, Update
from feddecorr.methods import Local, Trained
from feddecorr.objective import Term, cross_entropy
from feddecorr.randomness import Stream
from feddecorr.states import State

BUFFERS = "buffers/"
METHOD = "method/"


class Part:
    """What one client trains on, with which objective, and what comes of it; whoever trains beside it."""

    def __init__(self, task: Task, model: nn.Module, broadcast: Broadcast, shard: Shard, memory: State) -> None:
        """Ask the method for its terms, within `torch.random.fork_rng()`."""
        self.experiment = task.experiment
        self.visits = Visits(task, broadcast.round, shard)
        self.stream = Stream(task.experiment.seed, "client", broadcast.round, shard.client)
        self.local = Local(
            client=shard.client,
            broadcast=broadcast,
            memory=section(memory, METHOD),
            model=model,
            labels=shard.images.labels,
            classes=len(task.classes),
        )
        with self.stream:
            own = self.experiment.method.terms(self.local)
        self.terms: dict[str, Term] = {"cross_entropy": cross_entropy, **self.experiment.regularizers, **own}

    def finish(self, trained: Trained, tally: Tally, place: int = 0) -> tuple[Update, State]:
        """Return the update and what to remember, of the client that has this place in the tally."""
        with self.stream:
            extra, kept = self.experiment.method.finish(self.local, trained)
        memory = {METHOD + name: tensor for name, tensor in kept.items()}
        if self.experiment.buffers == "local":
            # Copies, because the method may remember the same tensors, and a file holds none twice.
            memory |= {BUFFERS + name: tensor.clone() for name, tensor in trained.buffers.items()}
        lengths = [len(sizes) for sizes in self.visits.sizes]
        update = Update(
            round=self.local.broadcast.round,
            client=self.local.client,
            examples=len(self.visits.shard),
            amount=trained.amount,
            weights=trained.weights,
            buffers=trained.buffers,
            extra=extra,
            metrics=tally.means(place, sum(lengths)),
            epochs=tally.epochs(place, lengths) if self.experiment.evaluation.epochs else {},
        )
        return update, memory


def section(state: State, prefix: str) -> State:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
