"""Clients of one process that train at once, from what the server sent to their updates or the mean of those."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from feddecorr.core.messages import Broadcast, Update
from feddecorr.core.states import State, not_finite
from feddecorr.objective.terms import Trained
from feddecorr.training.batched.grouping import mixes_rows
from feddecorr.training.batched.learner import BatchedLearner
from feddecorr.training.client import Client, ClientError, ClientRound, OutBuffers, Outcome, load
from feddecorr.training.shards import Shard

Held = tuple[Shard, State, OutBuffers]
"""What a client holds and remembers, and where its update is to lie."""


class ClientGroup:
    """Plays several clients at once, with the module and the loop of one."""

    def __init__(self, client: Client) -> None:
        self._client, self._task = client, client.task
        self._mixes = mixes_rows(client.model, client.task.shape)

    def __call__(self, broadcast: Broadcast, held: Sequence[Held]) -> dict[int, Outcome]:
        """Train several clients, each as if it were alone, but for the last bits.

        A client that fails leaves, and the others are trained without it.
        """
        outcomes: dict[int, Outcome] = {}
        with self._client.settings():
            while left := [each for each in held if each[0].client not in outcomes]:
                try:
                    outcomes |= self._play(broadcast, left)
                except ClientError as error:
                    outcomes[error.client] = error.error
        return outcomes

    def _play(self, broadcast: Broadcast, held: Sequence[Held]) -> dict[int, Outcome]:
        model, parameters, buffers = self._client.model, self._client.parameters, self._client.buffers
        load(parameters, broadcast.weights, {})
        self._client.set_mode(broadcast.round)
        out_buffers = {shard.client: out_buffers.get("weights", {}) for shard, _, out_buffers in held}
        # By the terms they have: a method may give clients different ones.
        kinds: dict[tuple[str, ...], list[ClientRound]] = {}
        for shard, memory, _ in held:
            part = ClientRound(self._task, model, broadcast, shard, memory)
            if buffers:
                load(buffers, part.buffers, {})
            with part.turn():
                kinds.setdefault(tuple(part.terms), []).append(part)
        for parameter in parameters.values():  # so that a term that reads the live module is noticed
            parameter.data = torch.full_like(parameter, torch.nan)
        outcomes: dict[int, Outcome] = {}
        for parts in kinds.values():
            outcomes |= self._train(sorted(parts, key=lambda part: -part.visits.steps), broadcast.round, out_buffers)
        return outcomes

    def _train(self, parts: Sequence[ClientRound], number: int, out_buffers: dict[int, State]) -> dict[int, Outcome]:
        learner = BatchedLearner(self._task, self._client.model, parts, mixes=self._mixes)
        amounts = self._client.train(learner, number)
        if self._task.together.merge and (mean := _mean(learner, parts, amounts, out_buffers[parts[0].client])):
            return dict.fromkeys(mean.clients, (mean, {}))
        outcomes: dict[int, Outcome] = {}
        for place, part in enumerate(parts):
            trained = Trained(*learner.trained(place, out_buffers[part.client]), amounts[part.visits.steps - 1])
            try:
                with part.turn():
                    outcomes[part.client] = part.finish(trained, learner.tally, place)
            except ClientError as error:
                outcomes[part.client] = error.error
        return outcomes


def _mean(
    learner: BatchedLearner, parts: Sequence[ClientRound], amounts: Sequence[float], out_buffers: State
) -> Update | None:
    """Return the mean of the updates by numbers of examples, in these buffers if there are any.

    None if anybody's training diverged: then each is to be looked at by itself.
    """
    first, *others = parts
    examples = [len(part.visits.shard) for part in parts]
    steps = [part.visits.steps for part in parts]
    metrics = learner.tally.mean(steps, examples)
    weights, buffers = learner.mean(examples, out_buffers)
    if not all(map(math.isfinite, metrics.values())) or not_finite(weights) or not_finite(buffers):
        return None
    done = [amounts[count - 1] * images for count, images in zip(steps, examples, strict=True)]
    return Update(
        round=first.context.broadcast.round,
        client=first.client,
        examples=sum(examples),
        amount=sum(done) / sum(examples),
        weights=weights,
        buffers=buffers,
        extra={},
        metrics=metrics,
        merged_clients=[part.client for part in others],
    )
