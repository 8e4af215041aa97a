"""How many clients train side by side: decided by the experiment alone, so that every engine forms the same groups."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from feddecorr.collapse.representation import CONVOLUTIONS, capture_representations
from feddecorr.config.experiment import Experiment
from feddecorr.config.training import Evaluation
from feddecorr.core.randomness import generator, seeded
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.methods.method import Method
from feddecorr.models.model import Shape
from feddecorr.models.partial import ADAPTERS, Adapter
from feddecorr.training import placement
from feddecorr.training.batched.stacked import Stacked, functional, linear_chain

ROWS = 4
"""Images of a trial's batch."""

TOLERANCE = 1e-2
"""Of the largest gradient: far above rounding in float32, far below what a wrong rule does."""

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

MEANINGS = {
    "randomness": "draws random numbers, which have to come from each client's own stream",
    "data-dependent": "lets its course depend on values (data-dependent control flow)",
    ".item()": "lets its course depend on values (Tensor.item)",
    "performance drop": "calls an operation that vmap has no rule for",
}
"""What vmap's errors and warnings are about, by words in them."""


def obstacle(model: nn.Module, shape: Shape) -> str:
    """Return why clients cannot train such networks at once, equal to one by one; nothing if they can."""
    return next(_hooked(model), "") or _fails(model, shape)


def _hooked(model: nn.Module) -> Iterator[str]:
    for name, module in model.named_modules():
        hooks = [hook for kind in HOOKS for hook in getattr(module, kind).values()]
        if any(getattr(hook, "__module__", "") != placement.__name__ for hook in hooks):
            yield f"its {_place(name)} has a hook, which would see all clients at once"
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks:
            yield f"its parameter '{name}' has a hook, which would not be called"


def _fails(model: nn.Module, shape: Shape) -> str:
    """Take the gradients of two clients at once and one by one, and compare all that there is."""
    model.train()
    x, sent, chance = _inputs(model, shape, (2, ROWS))
    stacked = Stacked(model, sent, [dict(model.named_buffers())] * 2)
    with torch.no_grad():
        for weight in stacked.trainable:
            weight.mul_(1 + 0.1 * torch.rand(weight.shape, generator=chance).to(weight))
    states = [_detached(stacked, client) for client in range(2)]
    with seeded(0, "trial"), _inside(model) as places:
        try:
            with warnings.catch_warnings(), stacked.watching():
                warnings.filterwarnings("error", "There is a performance drop")
                z, logits, _ = stacked(x)
                gradients = _gradients(z, logits, stacked.trainable)
        except Exception as error:  # whatever a network raises that is not made for this
            return _reason(error, places)
        for client, state in enumerate(states):
            trainable = [tensor for tensor in state.values() if tensor.requires_grad]
            with capture_representations(model) as seen:
                alone = functional(model)(state, x[client])
            expected = _gradients(seen.z, alone, trainable)
            same = (
                _close([logits[client]], [alone])
                and _close([each[client] for each in gradients], expected)
                and _close([each[client] for each in stacked.buffers.values()], [state[n] for n in stacked.buffers])
            )
            if not same:
                return "trained at once, it does not give what it gives one by one"
    return ""


def _detached(stacked: Stacked, client: int) -> State:
    """Return copies of one client's parameters, which take gradients where the module's do, and buffers."""
    held = {**stacked.weights, **stacked.buffers}
    return {name: each[client].detach().clone().requires_grad_(each.requires_grad) for name, each in held.items()}


def mixes_rows(model: nn.Module, shape: Shape) -> bool:
    """Tell whether what a network makes of an image depends on the others of its batch, as with BatchNorm."""
    x, sent, _ = _inputs(model.train(), shape, (ROWS,))
    other = torch.cat([x[:-1], -x[-1:]])
    found: list[list[Tensor]] = []
    buffers = dict(model.named_buffers())
    with torch.no_grad(), seeded(0, "trial"), capture_representations(model) as seen:
        for batch in (x[:-1], x, other):
            state = {**sent, **{name: buffer.clone() for name, buffer in buffers.items()}}
            logits = functional(model)(state, batch)
            found.append([logits[: ROWS - 1], seen.z[: ROWS - 1]])
            if not all(torch.equal(state[name], buffer) for name, buffer in buffers.items()):
                return True
    return not all(_close(found[0], each) for each in found[1:])


def multiplications(model: nn.Module, shape: Shape) -> list[int]:
    """Return about how many multiplications one image takes with each of the network's weights, vectors left out.

    The weights of a layer act at each position of its output, (n, …, d) or, of convolutions, (n, d, …).
    """
    x, sent, _ = _inputs(model.eval(), shape, (1,))
    found: dict[str, int] = {}
    hooks = [module.register_forward_hook(partial(_count, found, name)) for name, module in model.named_modules()]
    with torch.no_grad(), seeded(0, "trial"):
        functional(model)({**sent, **{name: buffer.clone() for name, buffer in model.named_buffers()}}, x)
    for hook in hooks:
        hook.remove()
    return [
        parameter.numel() * next((found[place] for place in _around(name) if place in found), 1)
        for name, parameter in sent.items()
        if parameter.ndim > 1
    ]


def _count(found: dict[str, int], name: str, layer: nn.Module, _inputs: object, output: object) -> None:
    output = output[0] if isinstance(output, tuple) else output
    if isinstance(output, Tensor) and output.ndim > 1:
        positions = output[0, 0] if isinstance(layer, CONVOLUTIONS) else output[0, ..., 0]
        found[name] = found.get(name, 0) + positions.numel()


def _around(name: str) -> Iterator[str]:
    """Yield the names of the modules around a parameter, the innermost first."""
    while name:
        name = name.rpartition(".")[0]
        yield name


def _inputs(model: nn.Module, shape: Shape, sizes: tuple[int, ...]) -> tuple[Tensor, State, torch.Generator]:
    """Return made-up images and the network's weights, and draw nothing from PyTorch's own generator."""
    chance = generator(0, "trial")
    sent = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x = torch.randn(*sizes, *shape, generator=chance)
    return x.to(next(iter(sent.values()), x)), sent, chance


def _gradients(z: Tensor, logits: Tensor, trainable: Sequence[Tensor]) -> tuple[Tensor, ...]:
    value = logits.square().sum() + z.square().sum()
    return torch.autograd.grad(value, trainable, materialize_grads=True)


def _close(mine: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    """Tell whether tensors differ by rounding at most, seen from the largest number in any of them."""
    numbers = [each.detach().double().flatten() for each in theirs]
    apart = [one.detach().double().flatten() - other for one, other in zip(mine, numbers, strict=True)]
    return not numbers or bool(torch.cat(apart).abs().max() <= TOLERANCE * torch.cat(numbers).abs().max())


@contextmanager
def _inside(model: nn.Module) -> Iterator[list[str]]:
    """Keep the names of the modules that are being called, the innermost last."""
    places: list[str] = []

    def leave(*_: object) -> None:
        places.pop()

    handles = []
    for name, module in model.named_modules():
        enter = lambda *_, name=name: places.append(name)  # noqa: E731 - one for each module
        handles += [module.register_forward_pre_hook(enter, prepend=True), module.register_forward_hook(leave)]
    try:
        yield places
    finally:
        for handle in handles:
            handle.remove()


def _reason(error: Exception, places: Sequence[str]) -> str:
    words = str(error)
    first = words.strip().split("\n")[0].split(". ")[0]
    meant = next((meaning for word, meaning in MEANINGS.items() if word in words), "does not run under torch.func.vmap")
    return f"its {_place(places[-1] if places else '')} {meant} ({type(error).__name__}: {first})"


def _place(name: str) -> str:
    return f"layer '{name}'" if name else "network"


LARGEST = 32
"""Clients in a group under `auto`: more bring little, and fewer groups could be run at once."""

TINY = 1 << 20
"""Multiplications of a batch with the weights of one layer, on average, up to which `auto` trains clients at once.

Below, a step takes longer to be called than to be done, on any device, and clients at once share the calls; above, the
products take the time, and there is nothing to share.
"""

THIN = 1 << 18
"""Weights up to which `auto` trains clients at once, but for perceptrons.

Every step of every client reads and writes them all, and stacked convolutions bring them into another order, too.
"""


@dataclass(frozen=True)
class Together:
    """The number of clients that train side by side and, where they could have, why they do not.

    `merge` says that whoever trained them sends the mean of their updates.
    """

    clients: int
    because: str = ""
    merge: bool = False


def choose(
    experiment: Experiment,
    shape: Shape,
    build_model: Callable[[], nn.Module],
    *,
    evaluation: Evaluation,
    auto: bool = False,
) -> Together:
    """Return what the experiment asks for on images of that shape, or refuse what cannot be; or choose, with `auto`."""
    wanted, merge = experiment.training.clients_per_batch, experiment.training.pre_aggregate
    if merge and (looks := _who_looks(experiment, evaluation, auto=auto)):
        raise UserError(f"training.pre_aggregate=true cannot be: {looks}")
    if wanted == 1 and not auto:
        return Together(1)
    because = _obstacle(experiment)
    model = build_model()
    if auto:
        because = because or _too_large(experiment, model, shape)
    because = because or obstacle(model, shape)
    if because and not auto:
        raise UserError(
            f"training.clients_per_batch={wanted} cannot be: {because}; training.clients_per_batch=1 is always possible"
        )
    if because:
        return Together(1, because)
    return Together(_even(experiment.cohort) if auto else wanted, merge=merge)


def _obstacle(experiment: Experiment) -> str:
    if type(experiment.method).gradient is not Method.gradient:
        return f"{type(experiment.method).__name__} takes its gradients by itself, from one client's live network"
    if experiment.training.precision != "fp32":
        return f"training.precision={experiment.training.precision} is for a network by itself"
    return ""


def _who_looks(experiment: Experiment, evaluation: Evaluation, *, auto: bool) -> str:
    """Return who needs the update of each client by itself; nobody where their mean will do."""
    if experiment.training.clients_per_batch == 1 and not auto:
        return "clients that train one by one have no mean of their own; say training.clients_per_batch=auto"
    if experiment.method.needs_each():
        return f"{type(experiment.method).__name__} needs more of its clients than the mean of their weights"
    words = f"transforms={','.join(experiment.transforms)}" if experiment.transforms else ""
    if type(experiment.training.adapter) is not Adapter:
        words = f"training.adapter={ADAPTERS.name(experiment.training.adapter)}"
    if words:
        return f"{words} is for the update of each client"
    if experiment.batchnorm == "local":
        return "with batchnorm=local each client keeps statistics of its own"
    if evaluation.clients or evaluation.updates or evaluation.epochs:
        return "evaluation.clients, evaluation.updates and evaluation.epochs are about each client"
    return ""


def _too_large(experiment: Experiment, model: nn.Module, shape: Shape) -> str:
    if experiment.training.is_partial:
        return "a network that is frozen in part is large for what is trained of it"
    weights = sum(parameter.numel() for parameter in model.parameters())
    if weights > THIN and not linear_chain(model):
        return f"a network of {weights} weights is not thin"
    batch, work = experiment.training.batch, multiplications(model, shape)
    each = batch * sum(work) // max(1, len(work))
    return f"a batch of {batch} with {each} multiplications in a layer is no tiny step" if each > TINY else ""


def _even(cohort: int) -> int:
    """Return the size of an even number of groups that are as large as each other."""
    return math.ceil(cohort / (2 * math.ceil(cohort / (2 * LARGEST))))
