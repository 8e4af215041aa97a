"""Networks of which only a part is trained: chosen weights, or low-rank adapters of frozen ones (LoRA).

What is frozen is neither a parameter nor a buffer afterwards, but a plain tensor that modules hold. So whatever asks a
network for its state (clients, methods, transforms, files, messages) finds only what is trained.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

import torch
from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from feddecorr.collapse.representation import CONVOLUTIONS, find_classifier
from feddecorr.collapse.spectrum import effective_rank
from feddecorr.core.messages import Update
from feddecorr.core.registry import Config, Registry
from feddecorr.core.states import Mean, State
from feddecorr.core.text import read_list
from feddecorr.errors import UserError, nearest

Patterns = Annotated[tuple[str, ...], BeforeValidator(lambda value: tuple(map(str, read_list(value))))]
"""Names with `*` and `?`, as a list or with commas."""

Network = TypeVar("Network", bound=nn.Module)


class Adapter(Config):
    """None: the weights themselves are trained."""

    def adapt(self, model: nn.Module, trainable: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002
        """Add what is trained in place of the weights; return patterns of the names of all that is."""
        return trainable or ("*",)

    def check(self, method: str, *, averages: bool) -> None:
        """Raise if the server cannot aggregate so; `averages` says that the method's own step is the mean alone."""

    def products(self, weights: State) -> State:  # noqa: ARG002
        """Return what is added to each layer's weights."""
        return {}

    def factors(self, products: State) -> State:  # noqa: ARG002
        """Return the weights nearest to these products, where the server averages products; else none."""
        return {}


class LoRA(Adapter):
    """Low-rank adapters: W + (alpha/rank)·B·A with W frozen (Hu et al., ICLR 2022); the classifier is trained whole."""

    rank: PositiveInt = Field(8, description="columns of B and rows of A")
    alpha: PositiveFloat = Field(16.0, description="B·A is multiplied by alpha/rank")
    layers: Patterns = Field(
        ("*",), description="names of the linear, convolutional and attention layers that get one, with * and ?"
    )
    average: Literal["factors", "products"] = Field(
        "factors",
        description="what the server averages: A and B separately, or the products B·A, of which it keeps the nearest "
        "of that rank",
    )

    def adapt(self, model: nn.Module, trainable: tuple[str, ...]) -> tuple[str, ...]:
        """Add B·A to the layers' weights; B begins at zero, A is drawn as a linear layer's weights are."""
        classifier = find_classifier(model)
        places = {name: weight for name, weight in _adaptable(model, classifier) if _matches(name, self.layers)}
        if not places:
            names = ", ".join(name for name, _ in _adaptable(model, classifier))
            raise UserError(
                f"training.adapter.layers={','.join(self.layers)} matches no layer that an adapter is for: {names}"
            )
        for name, weight in places.items():
            module = model.get_submodule(name)
            low_rank = LowRank(getattr(module, weight), self.rank, self.alpha / self.rank)
            register_parametrization(module, weight, low_rank)
        head = next(name for name, module in model.named_modules() if module is classifier)
        return "*.lora_a", "*.lora_b", *(trainable or (f"{head}.*",))

    def check(self, method: str, *, averages: bool) -> None:
        """Raise if products are to be averaged where the server does more than that."""
        if self.average == "products" and not averages:
            raise ValueError(
                f"training.adapter.average=products is for methods whose server averages, as fedavg: {method} does "
                "more; say training.adapter.average=factors"
            )

    def products(self, weights: State) -> State:
        """Return (alpha/rank)·B·A of each layer, as a matrix, in float64."""
        scale = self.alpha / self.rank
        pairs = {name.removesuffix(".lora_a"): tensor for name, tensor in weights.items() if name.endswith(".lora_a")}
        return {layer: scale * weights[f"{layer}.lora_b"].double() @ lora_a.double() for layer, lora_a in pairs.items()}

    def factors(self, products: State) -> State:
        """Return the best approximations of this rank (Eckart and Young), with B and A of equal norm."""
        if self.average == "factors":
            return {}
        found: State = {}
        for layer, product in products.items():
            u, s, v = torch.linalg.svd(product * (self.rank / self.alpha), full_matrices=False)
            rank = min(self.rank, len(s))
            root = s[:rank].sqrt()
            rest = self.rank - rank
            found[f"{layer}.lora_a"] = nn.functional.pad(root[:, None] * v[:rank], (0, 0, 0, rest)).float()
            found[f"{layer}.lora_b"] = nn.functional.pad(u[:, :rank] * root, (0, rest)).float()
        return found


ADAPTERS: Registry[Adapter] = Registry("adapter", Adapter, {"none": Adapter, "lora": LoRA})


class LowRank(nn.Module):
    """Adds scale·B·A to a weight of any shape, whose first dimension is that of the outputs."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.lora_a = nn.Parameter(weight.new_empty(rank, weight[0].numel()))
        self.lora_b = nn.Parameter(weight.new_zeros(weight.shape[0], rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight that the layer uses."""
        return weight + (self.scale * self.lora_b @ self.lora_a).view(weight.shape)


def _adaptable(model: nn.Module, classifier: nn.Module) -> Iterator[tuple[str, str]]:
    """Yield the layers that an adapter is for, each with the name of its weight; not the classifier."""
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, *CONVOLUTIONS)) and module is not classifier:
            yield name, "weight"
        elif isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
            yield name, "in_proj_weight"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def freeze(model: nn.Module, trained: Sequence[str]) -> None:
    """Leave only those parameters and buffers that match; a module that loses a buffer stays in evaluation mode.

    BatchNorm with frozen statistics thus normalizes by them and never changes them.
    """
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    kept = {id(tensor) for name, tensor in tensors if _matches(name, trained)}
    names = [name for name, _ in model.named_parameters()]
    if not any(id(parameter) in kept for parameter in model.parameters()):
        wrong = ",".join(trained)
        raise UserError(f"training.trainable={wrong} matches no parameter: {nearest(trained[0], names)}")
    for module in model.modules():
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        for name, tensor in own:
            if id(tensor) in kept:
                continue
            if name in module._buffers:
                module.eval()
                module.train = _stay  # type: ignore[method-assign, assignment]
            delattr(module, name)
            setattr(module, name, tensor.detach())


def body(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that training moves, but for the classifier's."""
    classifier = {id(parameter) for parameter in find_classifier(model).parameters()}
    return [each for each in model.parameters() if each.requires_grad and id(each) not in classifier]


def _stay(_mode: bool = True) -> Any:
    """Stand in for `train` of a module that stays in evaluation mode."""


def copy_network(model: Network) -> Network:
    """Return a copy that shares the frozen tensors."""
    frozen = [value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in frozen})


def whole_state(model: nn.Module, like: nn.Module) -> State:
    """Return the weights and buffers that a network computes with, by their names in the same one before adapting."""
    return {
        name: attrgetter(name)(model).detach().clone() for name, _ in (*like.named_parameters(), *like.named_buffers())
    }


@dataclass(frozen=True)
class AdapterRanks:
    """Effective ranks of what a layer's weights are changed by, from the adapters of a round's clients.

    `factors` is that of mean(B)·mean(A), `products` that of mean(B·A).
    """

    factors: float
    products: float


class AdapterMean:
    """The means of the clients' factors and of their products, which differ."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._factors, self._products = Mean(), Mean()

    def see(self, updates: Iterable[Update]) -> Iterator[Update]:
        """Pass updates on, mixing each in by its number of examples."""
        for update in updates:
            if products := self._adapter.products(update.weights):
                factors = {name: each for name, each in update.weights.items() if name.endswith((".lora_a", ".lora_b"))}
                self._factors.add(factors, update.examples)
                self._products.add(products, update.examples)
            yield update

    def weights(self) -> State:
        """Return the weights that the server takes in place of the method's, where it averages products."""
        return self._adapter.factors(self._products.value) if self._products.value else {}

    def ranks(self) -> dict[str, AdapterRanks]:
        """Return the ranks by layer."""
        factors = self._adapter.products(self._factors.value)
        return {
            layer.replace(".parametrizations.", "."): AdapterRanks(_rank(factors[layer]), _rank(product))
            for layer, product in self._products.value.items()
        }


def _rank(matrix: Tensor) -> float:
    return effective_rank(torch.linalg.svdvals(matrix))
