"""What the operations of a client's round come to, counted without a number being computed.

Tensors are fakes, which have shapes and no values: the client's own code runs, whatever its method and terms, and takes
milliseconds a layer on any machine. FLOPs are those of `torch.utils.flop_counter`.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from feddecorr.config.experiment import Experiment
from feddecorr.core.messages import Server
from feddecorr.core.states import State
from feddecorr.data.dataset import Images, Outline
from feddecorr.objective.reference_models import Reference
from feddecorr.objective.terms import Trained
from feddecorr.runs.hardware import ProductKind
from feddecorr.server.federation import Federation, Roster
from feddecorr.settings.options import RunOptions
from feddecorr.training.client import METHOD, Alone, Client, ClientRound
from feddecorr.training.shards import Shard
from feddecorr.training.task import Task

aten = torch.ops.aten
Step = TypeVar("Step")


class Operation(NamedTuple):
    """One call: its floating-point operations, of which kind they are, and the bytes that it reads and writes."""

    flops: int
    kind: ProductKind
    bytes: int


@dataclass(frozen=True)
class Operations:
    """Calls by what they come to."""

    calls: Counter[Operation] = field(default_factory=Counter)

    @property
    def flops(self) -> int:
        """Floating-point operations of matrix products and convolutions; a multiplication and an addition are two."""
        return sum(call.flops * count for call, count in self.calls.items())

    @property
    def count(self) -> int:
        """The number of calls."""
        return self.calls.total()


class Counting(TorchDispatchMode):
    """Counts each call on fake tensors, and the bytes that are alive at the same time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # PyTorch's
        self.calls: list[Operation] = []
        self.peak = 0
        self._alive = 0
        self._storages: dict[int, int] = {}
        self._lasting: dict[int, int] = {}

    @property
    def lasting(self) -> int:
        """Bytes of what was there before: weights, images, reference models."""
        return sum(self._lasting.values())

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count a call."""
        kwargs = kwargs or {}
        if func is aten._local_scalar_dense.default:
            return True  # the host may ask whether answers are kept from an earlier epoch
        found = func(*args, **kwargs) if func._schema.returns else None  # those without a result change their input
        inputs = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        outputs = [each for each in pytree.tree_leaves(found) if isinstance(each, Tensor)]
        self._lasting |= {each.data_ptr(): each.nbytes for each in inputs if not isinstance(each, FakeTensor)}
        for each in outputs:
            self._watch(each)
        if not func.is_view:
            size = sum(each.nbytes for each in (*inputs, *outputs))
            self.calls.append(Operation(flops(func, args, kwargs, found), product_kind(func, args), size))
        return found

    def _watch(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._storages[key] = storage.nbytes()
            self._alive += storage.nbytes()
            self.peak = max(self.peak, self._alive)
            weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self._alive -= self._storages.pop(key)


def flops(func: Any, args: Any, kwargs: Mapping[str, Any], found: Any) -> int:
    """Return the floating-point operations of a call, by PyTorch's own formulas.

    Except for the gradient of a convolution in groups, whose formula there is that of one group: a depthwise one would
    seem to take as many times too much as it has channels. By input and by weights it is each what the pass itself is.
    """
    packet = func._overloadpacket
    if packet is aten.convolution_backward:
        gradient, _, weight = args[:3]
        transposed, (by_input, by_weight, _) = args[7], args[-1]
        base = args[1] if transposed else gradient
        return int(2 * base.numel() * (weight.numel() // weight.shape[0]) * (by_input + by_weight))
    return int(flop_registry[packet](*args, **kwargs, out_val=found)) if packet in flop_registry else 0


def product_kind(func: Any, args: Any) -> ProductKind:
    """Return which kind of products a call makes."""
    tensors = [each for each in args if isinstance(each, Tensor)]
    where = {aten.convolution: 1, aten.convolution_backward: 2}.get(func._overloadpacket)
    if where is not None and args[8 if where == 1 else 9] > 1:
        return "grouped"
    if any(each.dtype is torch.bfloat16 for each in tensors):
        return "bf16"
    return "convolution" if where is not None and args[where][0, 0].numel() > 1 else "matrix"


@dataclass(frozen=True)
class ClientWork:
    """What one client does in a round: steps of its first local epoch and of later ones, and what travels.

    `forward` is the evaluation of one batch of `evaluated` images. `memory` is what is alive at once in a step,
    without the images.
    """

    first: Operations
    later: Operations
    first_steps: float
    later_steps: float
    forward: Operations
    evaluated: int
    memory: int
    received: int
    sent: int
    clients_per_batch: int

    def total(self, of: Callable[[Operations], float]) -> float:
        """Return what the client's round comes to, given what the operations of a step do."""
        return of(self.first) * self.first_steps + of(self.later) * self.later_steps


def count_client(experiment: Experiment, options: RunOptions, outline: Outline) -> ClientWork:
    """Count a round of a client with an average share of the images, after its first round.

    What chance does to images is not counted, nor what a client does once a round.
    """
    share = max(2, round(outline.train / experiment.clients))
    task = _task(experiment, options, outline)
    batch, seen = min(experiment.training.batch, share), experiment.trained_images(outline.train) / experiment.cohort
    server = Federation(task, Roster(np.full(experiment.clients, share))).start()
    broadcast = replace(experiment.method.broadcast(2, server), round=2)
    client = Client(task)
    channels, height, width = outline.shape
    count = max(share, evaluated := min(outline.test, options.evaluation.batch))
    labels = torch.arange(count) % outline.classes
    images = Images(torch.zeros(count, height, width, channels, dtype=outline.dtype), labels)
    shard = Shard(0, images.split(share)[0])
    extra, memory = _after_a_round(client, shard, server)
    part = ClientRound(task, client.model, broadcast, shard, memory)
    client.set_mode(broadcast.round)
    with client.settings(), part.stream:
        learner, counting, starts = Alone(part), Counting(), list[int]()
        learner.steps = _marked(list(learner.steps), lambda: starts.append(len(counting.calls)))
        with FakeTensorMode(allow_non_fake_inputs=True), counting:
            client.train(learner, broadcast.round)
    first_epoch = min(seen, share) / batch
    return ClientWork(
        first=Operations(Counter(counting.calls[starts[0] :][: starts[-1] - starts[0] or None])),
        later=Operations(Counter(counting.calls[starts[-1] :])),
        first_steps=first_epoch,
        later_steps=seen / batch - first_epoch,
        forward=_forward(client.model, task, images.split(evaluated)[0]),
        evaluated=evaluated,
        memory=counting.peak + counting.lasting - shard.images.nbytes,
        received=nbytes(broadcast.weights, broadcast.buffers, broadcast.shared),
        sent=nbytes(server.weights, server.buffers, extra),
        clients_per_batch=task.experiment.training.clients_per_batch,
    )


def _task(experiment: Experiment, options: RunOptions, outline: Outline) -> Task:
    """Return the task of two steps, of which the second is like those of later epochs: chance makes all alike."""
    names = tuple(map(str, range(outline.classes)))
    constants = (0.0,) * outline.shape[0], (1.0,) * outline.shape[0]
    task = Task(experiment, outline.shape, names, *constants, evaluation=options.evaluation)
    if options.auto_batching:
        task, _ = task.choose_batching()
    training = task.experiment.training.model_copy(update={"steps": 1 if experiment.data.augment else 2})
    return replace(task, experiment=task.experiment.model_copy(update={"training": training})).built()


def _after_a_round(client: Client, shard: Shard, server: Server) -> tuple[State, State]:
    """Return what a client sends besides its model, and what it remembers, after a round that changed nothing."""
    experiment = client.task.experiment
    part = ClientRound(client.task, client.model, replace(experiment.method.broadcast(1, server), round=1), shard, {})
    trained = Trained(server.weights, server.buffers, experiment.training.lr)
    with part.stream:
        extra, kept = experiment.method.finish(part.context, trained)
    return extra, {METHOD + name: tensor for name, tensor in kept.items()}


def _forward(model: nn.Module, task: Task, images: Images) -> Operations:
    """Count a pass through the network that is evaluated."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad(), Reference(model).watched() as look, fake, Counting() as counting:
        look(task.inputs(images)[0])
    return Operations(Counter(counting.calls))


def _marked(steps: Iterable[Step], mark: Callable[[], None]) -> Iterator[Step]:
    for step in steps:
        mark()
        yield step


def nbytes(*states: State) -> int:
    """Return the bytes of the tensors."""
    return sum(tensor.nbytes for state in states for tensor in state.values())
