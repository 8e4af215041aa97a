from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from feddecorr.collapse.representation import capture_representations, find_classifier
from feddecorr.errors import UserError
from feddecorr.loss.module import FedDecorrLoss

torch.set_num_threads(1)  # tensors are tiny


class Net(nn.Module):
    """Two layers with names, as users write them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(x))
        return logits


class TwoHeads(nn.Module):
    """A classifier and an auxiliary one of the same width, registered after it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.fc = nn.Linear(8, 3)
        self.aux = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.body(x)) + 0.1 * self.aux(x)
        return logits


class ByName(nn.Module):
    """Passes the classifier its input by name."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(input=x)
        return logits


class Unused(nn.Module):
    """Takes the classifier's weights without calling it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.fc.weight)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(1))


def test_the_classifiers_input_is_caught_without_a_second_pass(net: Net, x: Tensor) -> None:
    """It is the very tensor of the forward pass, with its graph."""
    calls = []
    net.body.register_forward_hook(lambda _module, _inputs, output: calls.append(output))
    with capture_representations(net) as seen:
        net(x)
    assert seen.z is calls[0]
    assert len(calls) == 1
    assert seen.layer == "fc"


def test_the_gradient_reaches_all_layers_before_the_classifier(net: Net, x: Tensor) -> None:
    """And none of the classifier's own."""
    with capture_representations(net) as seen:
        net(x)
    FedDecorrLoss()(seen.z).backward()
    first = net.body[0].weight
    assert isinstance(first, Tensor)
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    assert net.fc.weight.grad is None


def test_the_model_is_as_before_after_the_block(net: Net, x: Tensor) -> None:
    """Also when the block ends by an error; what was seen stays readable."""
    before = net(x)
    with suppress(ZeroDivisionError), capture_representations(net) as seen:
        assert torch.equal(net(x), before)
        raise ZeroDivisionError
    kept = seen.z
    net(2 * x)
    assert seen.z is kept
    assert not net.fc._forward_pre_hooks


def test_each_forward_pass_replaces_what_was_seen(net: Net, x: Tensor) -> None:
    """One block can be open around a whole training loop."""
    with capture_representations(net) as seen:
        net(x)
        net(2 * x)
        assert torch.equal(seen.z, net.body(2 * x))


def test_accumulated_gradients_are_the_sum_over_parts(net: Net, x: Tensor) -> None:
    """Each part of a batch has a loss of its own, and the gradients add up."""
    y = torch.arange(6) % 3

    def total(part: slice) -> Tensor:
        with capture_representations(net) as seen:
            logits = net(x[part])
        loss: Tensor = cross_entropy(logits, y[part]) + 0.1 * FedDecorrLoss()(seen.z)
        return loss

    parts = [slice(0, 3), slice(3, 6)]
    expected = torch.autograd.grad(torch.stack([total(part) for part in parts]).sum(), list(net.parameters()))
    for part in parts:
        total(part).backward()
    torch.testing.assert_close([parameter.grad for parameter in net.parameters()], list(expected))


def heads() -> Iterator[tuple[str, nn.Module, str]]:
    """Yield models and the name of the layer that must be found in each."""
    yield "sequential head", nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Dropout(), nn.Linear(8, 3))), "1.1"
    yield "hidden layers as wide as the output", nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), "2"
    yield "nested Sequentials", nn.Sequential(nn.Sequential(nn.Linear(4, 3)), nn.Sequential(nn.Linear(3, 3))), "1.0"
    yield "one layer", nn.Linear(4, 3), ""
    yield "convolutions only", nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1)), "1"
    yield "linear after convolutions", nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 5)), "2"
    yield "attention at the end", nn.ModuleList([nn.Linear(4, 6), nn.MultiheadAttention(6, 2)]), "0"
    yield "lazy", nn.Sequential(nn.LazyLinear(8), nn.LazyLinear(3)), "1"


@pytest.mark.parametrize(("model", "name"), [pytest.param(*rest, id=title) for title, *rest in heads()])
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
def test_the_classifier_is_the_last_linear_layer_or_else_the_last_convolution(model: nn.Module, name: str) -> None:
    """Layers before it in a Sequential are no rivals, and attention never calls its own."""
    assert find_classifier(model) is model.get_submodule(name)


def test_several_heads_ask_for_a_name(x: Tensor) -> None:
    """The error lists them; a name decides."""
    model = TwoHeads()
    with pytest.raises(UserError, match=r"each with 3 outputs.* layer=…, for example 'fc', 'aux'"):
        find_classifier(model)
    with capture_representations(model, layer="fc") as seen:
        model(x)
    assert seen.z.shape == (6, 8)


def test_a_model_may_name_its_layer_itself() -> None:
    """By an attribute, which a name in the call overrules and wrappers do not hide."""
    model = TwoHeads()
    model.representation_layer = "fc"  # type: ignore[assignment]  # modules take any attribute
    assert find_classifier(model) is model.fc
    assert find_classifier(nn.DataParallel(model)) is model.fc
    assert find_classifier(model, "aux") is model.aux


def test_an_unknown_name_gets_the_nearest_one(net: Net) -> None:
    """Without the names of wrappers."""
    with pytest.raises(UserError, match=r"no layer 'fcc': did you mean 'fc'\?"):
        find_classifier(nn.DataParallel(net), "fcc")


def test_a_model_without_any_candidate_asks_for_a_name() -> None:
    """Where the named layer can be of any kind."""
    model = nn.Sequential(nn.Flatten(), nn.ReLU())
    with pytest.raises(UserError, match="no linear layer and no convolution"):
        find_classifier(model)
    assert find_classifier(model, "1") is model[1]


def test_nothing_seen_is_reported_with_its_possible_reasons(x: Tensor) -> None:
    """Before any pass, and when the model does not call the layer; `hasattr` tells it, too."""
    model = Unused()
    with capture_representations(model) as seen:
        assert not hasattr(seen, "z")
        model(x)
    with pytest.raises(UserError, match="no forward pass has gone through the layer 'fc'"):
        _ = seen.z


def test_an_input_passed_by_name_is_caught(x: Tensor) -> None:
    """Not only the first positional one."""
    model = ByName()
    with capture_representations(model) as seen:
        model(x)
    assert seen.z is x


def test_an_input_that_is_no_tensor_is_refused() -> None:
    """With its type."""

    class Takes(nn.Module):
        def forward(self, parts: list[Tensor]) -> Tensor:
            return parts[0]

    model = nn.Sequential(Takes())
    with capture_representations(model, "0"), pytest.raises(UserError, match="'0' takes in list, not a tensor"):
        model([torch.zeros(2)])


@pytest.mark.parametrize(
    ("model", "shape", "layer", "average"),
    [
        pytest.param(nn.Linear(5, 3), (2, 7, 5), None, lambda x: x.mean(1), id="tokens"),
        pytest.param(nn.Linear(5, 3), (2, 4, 6, 5), None, lambda x: x.mean((1, 2)), id="channels last"),
        pytest.param(nn.Conv2d(5, 3, 1), (2, 5, 4, 6), None, lambda x: x.mean((2, 3)), id="feature maps"),
        pytest.param(nn.Conv1d(5, 3, 1), (2, 5, 4), None, lambda x: x.mean(2), id="signals"),
        pytest.param(nn.Conv3d(5, 3, 1), (2, 5, 4, 2, 2), None, lambda x: x.mean((2, 3, 4)), id="volumes"),
        pytest.param(nn.AvgPool2d(2), (2, 5, 4, 6), "", lambda x: x.mean((2, 3)), id="another layer, feature maps"),
        pytest.param(nn.ReLU(), (2, 7, 5), "", lambda x: x.mean(1), id="another layer, tokens"),
    ],
)
def test_positions_are_averaged(
    model: nn.Module, shape: tuple[int, ...], layer: str | None, average: Callable[[Tensor], Tensor]
) -> None:
    """All axes but samples and features; which is which, the layer knows."""
    x = torch.randn(shape)
    with capture_representations(model, layer) as seen:
        model(x)
    torch.testing.assert_close(seen.z, average(x))
    assert seen.raw is x


def test_under_autocast_representations_are_float32(net: Net, x: Tensor) -> None:
    """`raw` is what the layer took in."""
    with capture_representations(net) as seen, torch.autocast("cpu", torch.bfloat16):
        net(x)
    assert seen.raw.dtype == torch.bfloat16
    assert seen.z.dtype == torch.float32
    assert FedDecorrLoss()(seen.z).isfinite()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models_are_caught_in_one_graph(net: Net, backend: str) -> None:
    """In a block for each step, with new blocks and passes without any between them."""
    torch.compiler.reset()
    compiled: Any = torch.compile(net, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(6, 4)
        with capture_representations(compiled, layer="fc") as seen:
            logits = compiled(x)
        torch.testing.assert_close(seen.z, net.body(x))
        (gradient,) = torch.autograd.grad(FedDecorrLoss()(seen.z) + logits.sum(), list(net.body.parameters())[:1])
        assert gradient.abs().sum() > 0
        with torch.no_grad():
            compiled(x)


def test_code_compiled_without_the_hook_is_reported(net: Net, x: Tensor) -> None:
    """PyTorch does not look for new hooks; the error says what helps, and forgetting that code helps as well."""
    torch.compiler.reset()
    compiled: Any = torch.compile(net, backend="eager")
    compiled(x)
    with capture_representations(compiled) as seen:
        compiled(x)
    with pytest.raises(UserError, match="open the block before its first call"):
        _ = seen.z
    torch.compiler.reset()
    with capture_representations(compiled) as seen:
        compiled(x)
    torch.testing.assert_close(seen.z, net.body(x))


class Halves(nn.DataParallel[nn.Module]):
    """Does with the halves of a batch what DataParallel does on two devices, wherever this runs."""

    def __init__(self, module: nn.Module) -> None:
        nn.Module.__init__(self)
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.module(part) for part in x.chunk(2)])


def test_the_parts_of_data_parallel_are_put_together(net: Net, x: Tensor) -> None:
    """In each pass anew, in the order of the batch."""
    model = Halves(net)
    with capture_representations(model) as seen:
        for batch in (x, 2 * x):
            model(batch)
            torch.testing.assert_close(seen.z, net.body(batch))
    assert not model._forward_pre_hooks


def test_distributed_data_parallel(net: Net, x: Tensor) -> None:
    """A process group of one is enough to see that its wrapper is looked through."""
    distributed: Any = torch.distributed  # which types only a part of itself
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(net)
        with capture_representations(model) as seen:
            model(x)
        FedDecorrLoss()(seen.z).backward()
    finally:
        distributed.destroy_process_group()
    assert torch.equal(seen.z, net.body(x))
    assert seen.layer == "fc"
