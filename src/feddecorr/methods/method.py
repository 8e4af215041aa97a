"""What a federated method may change: a few hooks, each of which does nothing beyond FedAvg by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from torch import Tensor

from feddecorr.core.messages import Broadcast, RoundInfo, Server, Update
from feddecorr.core.registry import Config
from feddecorr.core.states import Mean, State
from feddecorr.errors import UserError
from feddecorr.objective.terms import ClientContext, GradientRule, Term, Trained

Trains = Literal["network", "body", "nothing"]
"""What local training moves: the network, all of it but the classifier, or nothing, not even statistics."""


class Method(Config):
    """A federated method; without any hook of its own it is FedAvg."""

    needs_sgd: ClassVar[bool] = False
    """Whether the method assumes SGD updates: that a client's change is a sum of gradients."""

    requires: ClassVar[Mapping[str, str]] = {}
    """Settings that it is not itself without: they come with it, and others are refused."""

    own_momentum: ClassVar[bool] = False
    """Whether its gradients have momentum already: then local steps are taken without `training.momentum`."""

    needs_feature_maps: ClassVar[bool] = False
    """Whether its terms look at what the network makes on the way to the representation."""

    state_optional: ClassVar[bool] = False
    """Whether a client that lost its memory may begin anew. Not where the server holds a share of what was lost."""

    term_names: ClassVar[tuple[str, ...] | None] = None
    """The names of what `terms` adds: a server takes no others of its clients. None: it takes any."""

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Prepare what the server shares and remembers; `info` tells the seed and the clients' sizes."""
        return server

    def broadcast(self, number: int, server: Server) -> Broadcast:
        """Return what the server sends to every client of a round."""
        return Broadcast.of(number, server)

    def trains(self, number: int) -> Trains:
        """Return what local training moves in that round."""
        return "network"

    def terms(self, context: ClientContext) -> Mapping[str, Term | None]:
        """Return terms to add to the local objective, or to replace one of the same name; None takes it away."""
        return {}

    def gradient(self, context: ClientContext) -> GradientRule:
        """Return the rule that makes the gradient of every local step of a round."""
        return lambda compute: compute()

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Return (extra for the server, memory for itself) after local training."""
        return {}, {}

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Return what the extra of an update looks like in that round (names, shapes, types); all else is refused."""
        return {}

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Aggregate the updates, each once as it comes; a method that needs only their mean has `server_update`."""
        return self.server_update(server, mean_weights(updates), info)

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Return the server after a round, given the mean of the clients' weights."""
        return replace(server, weights=mean)

    @classmethod
    def needs_each(cls) -> bool:
        """Tell whether anything but the mean of the clients' weights matters, to the server or to a client's memory."""
        return cls.aggregate is not Method.aggregate or cls.finish is not Method.finish

    @classmethod
    def averages(cls) -> bool:
        """Tell whether the server's weights are the mean of the clients' and nothing else."""
        return cls.aggregate is Method.aggregate and cls.server_update is Method.server_update

    @classmethod
    def known_terms(cls) -> tuple[str, ...] | None:
        """Return the names that it adds to an objective; None if it has terms and does not tell their names."""
        owner = next(each for each in cls.__mro__ if "terms" in vars(each))
        return () if owner is Method else vars(owner).get("term_names")


def find_classifier_weight(server: Server, info: RoundInfo) -> Tensor:
    """Return the classifier's weights, trained or not."""
    known = {**server.weights, **server.buffers}
    if info.classifier not in known:
        raise UserError("the method looks at the classifier, which training.trainable leaves out")
    return known[info.classifier]


def mean_weights(updates: Iterable[Update]) -> State:
    """Return the mean of the clients' weights by their numbers of examples, in one pass."""
    mean = Mean()
    for update in updates:
        mean.add(update.weights, update.examples)
    return mean.value
