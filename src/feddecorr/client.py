"""The client: local training from what the server sent, which every engine calls and no method repeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from feddecorr.federation import Shard, Task
from feddecorr.local_training.alone import Alone
from feddecorr.local_training.batches import batches
from feddecorr.local_training.loop import Shorten, train
from feddecorr.local_training.part import BUFFERS, Part, section
from feddecorr.local_training.several import ClientError, blamed
from feddecorr.local_training.side_by_side import SideBySide
from feddecorr.messages import Broadcast, Update
from feddecorr.methods import Trained
from feddecorr.optimizers import OPTIMIZERS, Optimizer, clip, clip_each
from feddecorr.representation import capture_representations
from feddecorr.states import State, copy_into
from feddecorr.threads import threads

Room = Mapping[str, State]
"""Tensors to hold the trained `weights` and `buffers`, if there are any, laid out like those of an earlier update."""

NO_ROOM: Room = {}

Outcome = tuple[Update, State] | Exception
"""What a client sends and what it is to remember, or what went wrong."""


class Client:
    """Plays any client of a task, from what the server sent and what that client holds and remembers alone.

    One is built per process, with one model.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = task.build_model()
        self.parameters = dict(self.model.named_parameters())
        self.buffers = dict(self.model.named_buffers())

    def __call__(self, broadcast: Broadcast, shard: Shard, memory: State, room: Room = NO_ROOM) -> tuple[Update, State]:
        """Train on the shard from what the server sent; return the update and what to remember."""
        experiment = self.task.experiment
        remembered = section(memory, BUFFERS) if experiment.buffers == "local" else {}
        _load(self.parameters, broadcast.weights, room.get("weights", {}))
        _load(self.buffers, remembered or broadcast.buffers, room.get("buffers", {}))
        self.model.train()
        with threads(experiment.training.threads), torch.random.fork_rng():
            part = Part(self.task, self.model, broadcast, shard, memory)
            with part.stream, capture_representations(self.model) as seen:
                learner = Alone(part.local, experiment.method, part.terms, seen)
                optimizer = self._optimizer(learner.trainable, broadcast.round)
                amounts = train(learner.gradients, batches(self.task, part.visits), optimizer, self._shorten(clip))
            weights = {name: parameter.detach().cpu() for name, parameter in self.parameters.items()}
            buffers = {name: buffer.detach().cpu() for name, buffer in self.buffers.items()}
            return part.finish(Trained(weights, buffers, amounts[-1]), learner.tally)

    def together(self, broadcast: Broadcast, held: Sequence[tuple[Shard, State, Room]]) -> dict[int, Outcome]:
        """Train several clients side by side, each as if it were alone, but for the last bits.

        A client that fails leaves, and the others are trained without it.
        """
        outcomes: dict[int, Outcome] = {}
        while left := [each for each in held if each[0].client not in outcomes]:
            try:
                outcomes |= self._side_by_side(broadcast, left)
            except ClientError as error:
                outcomes[error.client] = error.error
        return outcomes

    def _side_by_side(self, broadcast: Broadcast, held: Sequence[tuple[Shard, State, Room]]) -> dict[int, Outcome]:
        for parameter in self.parameters.values():  # nobody's: who looks at the live module is not to go unnoticed
            parameter.data = torch.full_like(parameter, torch.nan)
        with threads(self.task.experiment.training.threads), torch.random.fork_rng():
            parts = []
            for shard, memory, _ in held:
                with blamed(shard.client):
                    parts.append(Part(self.task, self.model, broadcast, shard, memory))
            rooms = {shard.client: room.get("weights", {}) for shard, _, room in held}
            outcomes: dict[int, Outcome] = {}
            for names in {tuple(part.terms): None for part in parts}:
                alike = [part for part in parts if tuple(part.terms) == names]
                alike.sort(key=lambda part: -part.visits.steps)
                learner = SideBySide(self.task, self.model, alike)
                optimizer = self._optimizer(learner.trainable, broadcast.round)
                amounts = train(learner.gradients, learner.steps, optimizer, self._shorten(clip_each))
                for place, part in enumerate(alike):
                    weights = learner.weights(place, rooms[part.local.client])
                    trained = Trained(weights, {}, amounts[part.visits.steps - 1])
                    try:
                        outcomes[part.local.client] = part.finish(trained, learner.tally, place)
                    except Exception as error:  # whatever a client raises is reported, not swallowed
                        outcomes[part.local.client] = error
        return outcomes

    def _optimizer(self, trainable: Sequence[Tensor], number: int) -> Optimizer:
        training = self.task.experiment.training
        return OPTIMIZERS[training.optimizer](trainable, training, training.rate(number))

    def _shorten(self, shorten: Callable[[Sequence[Tensor], float], Sequence[Tensor]]) -> Shorten | None:
        longest = self.task.experiment.training.clip
        return None if longest is None else lambda gradients: shorten(gradients, longest)


@torch.no_grad()
def _load(mine: Mapping[str, Tensor], theirs: State, room: State) -> None:
    """Give the model fresh tensors with these values, in its own memory format: what it held stays with its update."""
    on_device = room if all(tensor.device == mine[name].device for name, tensor in room.items()) else {}
    fresh = {name: on_device[name] if name in on_device else torch.empty_like(tensor) for name, tensor in mine.items()}
    copy_into(fresh.values(), (theirs[name] for name in fresh))
    for name, tensor in mine.items():
        tensor.data = fresh[name]
