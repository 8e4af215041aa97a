"""Kinds that live outside of the project, as a user's would."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from feddecorr.collapse.diagnosis import ClassSpreads
from feddecorr.collapse.measures import Principal
from feddecorr.config.training import Measure
from feddecorr.core.messages import RoundInfo, Server, Update
from feddecorr.core.states import Mean, State
from feddecorr.methods import Method
from feddecorr.models import ConvNet
from feddecorr.models.model import Shape
from feddecorr.objective.optimizers import Optimizer
from feddecorr.objective.terms import ClientContext, Pass, Term, Trained


class Counted(ConvNet):
    """A network that counts how often it is built in this process."""

    builds: ClassVar[int] = 0

    def build(self, shape: Shape, classes: int) -> nn.Module:
        """Count, and build."""
        Counted.builds += 1
        return super().build(shape, classes)


class Failing(Method):
    """Raises in one client of one round."""

    client: int = 1
    round: int = 2

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Raise when the time has come."""
        if (context.client, context.broadcast.round) == (self.client, self.round):
            raise ZeroDivisionError("on purpose")
        return {}


class Killed(Method):
    """Kills its own process by SIGKILL in one client of one round, the first `times` times."""

    client: int = 1
    round: int = 2
    times: int = 1
    directory: str = ""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Count the deaths in files, which survive them."""
        died = len(list(Path(self.directory).iterdir()))
        if (context.client, context.broadcast.round) == (self.client, self.round) and died < self.times:
            (Path(self.directory) / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {}


class Remembering(Method):
    """Counts, on the client, in how many rounds it was sampled, and lets the count act on the objective."""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Scale a pull towards zero by the count."""
        count = context.memory.get("count", torch.zeros(()))

        def pull(forward: Pass) -> Tensor:
            return 1e-3 * count * sum(weight.square().sum() for weight in forward.parameters.values())

        return {"pull": pull}

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Announce the count."""
        return {"count": torch.zeros(())}

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Send and remember the count."""
        count = context.memory.get("count", torch.zeros(())) + 1
        return {"count": count}, {"count": count}


class Impatient(Method):
    """Takes the first update for all of them, and reads no other."""

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Stop after one."""
        return replace(server, weights={name: weight.clone() for name, weight in next(iter(updates)).weights.items()})


class Diverging(Method):
    """Ends one client's training in one round with infinite weights, by its very last step."""

    client: int = 1
    round: int = 2

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Spoil what was trained, after every check of the objective."""
        if (context.client, context.broadcast.round) == (self.client, self.round):
            next(iter(trained.weights.values())).fill_(torch.inf)
        return {}, {}


class Cubing(Method):
    """Cubes the mean, which large weights do not survive."""

    def server_update(self, server: Server, mean: State, info: RoundInfo) -> Server:
        """Take the third power, twice."""
        return replace(server, weights={name: weight.pow(9) for name, weight in mean.items()})


class Drawing(Method):
    """Sends and remembers a random number, drawn when training has ended."""

    def expected_extra(self, server: Server, info: RoundInfo) -> State:
        """Announce the number."""
        return {"drawn": torch.zeros(())}

    def finish(self, context: ClientContext, trained: Trained) -> tuple[State, State]:
        """Draw from PyTorch's global generator, as dropout does."""
        drawn = torch.rand(())
        return {"drawn": drawn}, {"drawn": drawn.clone()}

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Move every weight by the sum of the numbers."""
        mean, total = Mean(), 0.0
        for update in updates:
            mean.add(update.weights, update.examples)
            total += float(update.extra["drawn"])
        return replace(server, weights={name: weight + total for name, weight in mean.value.items()})


class Noisy(Method):
    """Shakes the objective in every step, by PyTorch's global generator, and that of client 1 not at all."""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Draw anew in every pass."""
        return {} if context.client == 1 else {"noise": lambda forward: torch.rand(()) * forward.logits.square().mean()}


class Live(Method):
    """Looks at the network that is being trained, not at the parameters of the pass."""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Look at one of its weights."""
        return {"look": lambda forward: 0 * forward.logits.sum() + context.trainable[0].detach().sum()}


class Exploding(Method):
    """Makes the objective of client 1 infinite from the second round on."""

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Multiply by infinity, or by zero."""
        factor = torch.inf if context.client == 1 and context.broadcast.round > 1 else 0.0
        return {"blow": lambda forward: factor * forward.logits.square().sum()}


class HookCalls(Method):
    """Keeps what the server's hooks are given."""

    def start(self, server: Server, info: RoundInfo) -> Server:
        """Write down the sizes."""
        return replace(server, memory={"sizes": torch.tensor(info.sizes), "seed": torch.tensor(info.seed)})

    def aggregate(self, server: Server, updates: Iterable[Update], info: RoundInfo) -> Server:
        """Write down the round."""
        moved = super().aggregate(server, updates, info)
        return replace(moved, memory={**server.memory, "round": torch.tensor(info.round)})


class Tied(nn.Module):
    """A network with one weight under two names, and a buffer that no state_dict holds."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.flat = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 6), nn.ReLU())
        self.once, self.twice = nn.Linear(6, 6), nn.Linear(6, 6)
        self.twice.weight = self.once.weight
        self.register_buffer("scale", torch.full((), 0.5), persistent=False)
        self.classifier = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Use the weight twice."""
        logits: Tensor = self.classifier(torch.relu(self.twice(torch.relu(self.once(self.flat(x)))) * self.scale))
        return logits


def frozen_and_tied(classes: int, channels: int) -> nn.Module:
    """Return it with a first layer that is not trained."""
    model = Tied(classes, channels)
    model.flat.requires_grad_(False)
    return model


class Looped(nn.Module):
    """A network whose classifier acts on the representation, too."""

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.flat = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.classifier = nn.Linear(4 * channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Go through the classifier's weight twice before the classifier."""
        weight = self.classifier.weight
        logits: Tensor = self.classifier(self.flat(x) @ weight.T @ weight)
        return logits


class Half(nn.Module):
    """A network with a whole number and a number of half precision among its buffers."""

    passes: Tensor
    scale: Tensor

    def __init__(self, classes: int, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 6), nn.ReLU())
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.full((3,), 0.7, dtype=torch.bfloat16))
        self.classifier = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Count, and let the half precision act."""
        self.passes += 1
        self.scale *= 1.01
        logits: Tensor = self.classifier(self.body(x) * self.scale[0])
        return logits


class Plain(Optimizer):
    """SGD with momentum, written in plain PyTorch."""

    momentum: float = 0.9

    def start(self, parameter: Tensor) -> State:
        """Begin at rest."""
        return {"velocity": torch.zeros_like(parameter)}

    def step(self, parameter: Tensor, gradient: Tensor, memory: State, *, lr: float, weight_decay: float) -> None:
        """Take the textbook's step."""
        memory["velocity"].mul_(self.momentum).add_(gradient + weight_decay * parameter)
        parameter.sub_(lr * memory["velocity"])


class Normed(Optimizer):
    """Steps of one length: what one parameter does depends on all of its numbers."""

    def step(self, parameter: Tensor, gradient: Tensor, memory: State, *, lr: float, weight_decay: float) -> None:
        """Go a step of that length."""
        parameter.sub_(lr * gradient / (gradient.norm() + 1e-12))


class Gini(Measure):
    """Gini coefficient of the eigenvalues: 0 when all are equal, near 1 when one carries all."""

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:
        """Return the coefficient."""
        values = principal.values.flip(0)
        places = torch.arange(1, len(values) + 1, dtype=values.dtype)
        return float(2 * (places @ values) / (len(values) * values.sum()) - (len(values) + 1) / len(values))


class Farthest(Measure):
    """The largest distance of a class mean from the centre, by `power`."""

    power: int = 1

    def __call__(self, principal: Principal, classes: ClassSpreads | None) -> float | None:
        """Return it where labels are measured."""
        if classes is None:
            return None
        return max(float((each.mean - principal.moments.mean).norm()) for each in classes.values()) ** self.power
