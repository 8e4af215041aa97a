"""Networks of which a part is trained: nothing else travels, is averaged, kept or counted, and nothing else moves."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path

import pytest
import torch
from each import each
from small import digest, result, simulate, small
from torch import nn

from feddecorr.core.messages import Broadcast, Update, to_bytes
from feddecorr.core.states import State
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.models.partial import AdapterMean, LoRA, copy_network, freeze
from feddecorr.models.weights import read_weights
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.export import export_model
from feddecorr.runs.pipeline import resume, run
from feddecorr.training.client import Client
from feddecorr.training.task import Task

PART = "training.trainable=features.3.*,features.4.*,classifier.*"
LORA = ("training.adapter=lora", "training.adapter.rank=2", "training.adapter.layers=features.3")
A, B = (f"features.3.parametrizations.weight.0.lora_{factor}" for factor in "ab")
HEAD = {"classifier.weight", "classifier.bias"}
HEADS = {"etf": {"classifier.scale"}, "prototypes": {"classifier.weight", "classifier.scale"}}
WAYS = {
    (PART,): {"features.3.weight", "features.4.weight", "features.4.bias"} | HEAD,
    LORA: {A, B} | HEAD,
}
"""What is trained, by the words that ask for it."""

METHODS_BY_WAY = list(zip(METHODS.table, cycle(REGULARIZERS.table), cycle(WAYS), strict=False))


def whole(task: Task) -> State:
    """Return all that the network computes with, frozen or not."""
    model = task.build_model()
    held = ((f"{place}.{name}", value) for place, each in model.named_modules() for name, value in vars(each).items())
    return {name: value for name, value in held if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize(("name", "regularizer", "way"), METHODS_BY_WAY)
def test_any_method_with_any_regularizer_sees_only_what_is_trained(
    name: str, regularizer: str, way: tuple[str, ...], tmp_path: Path
) -> None:
    """In the model, in files and in memories; and an interrupted run ends in the bits of a straight one."""
    words = [f"method={name}", f"regularizers={regularizer}", *way, "rounds=2", "participation=0.75"]
    experiment, options = small(*words)
    expected = result(run(experiment, options))
    begun = result(run(experiment, options.model_copy(update={"rounds": 1}), tmp_path / "run"))
    assert begun + result(resume(tmp_path / "run", experiment, options)) == expected
    assert len({bits for _, bits in expected}) == 2
    server = RunDirectory.open(tmp_path / "run").load_server(simulate(*words).federation.start())
    assert server is not None
    head = experiment.model.head
    assert server.weights.keys() == WAYS[way] - HEAD | HEADS.get(head, HEAD)
    assert all(part.startswith(("features.4.", *["classifier."] * (head == "etf"))) for part in server.buffers)
    frozen = ("features.0", "features.1")
    for part in (server.shared, server.memory):
        assert not [tensor for tensor in part if tensor.split("/")[-1].startswith(frozen)]


@each("way", list(WAYS))
def test_engines_agree(way: tuple[str, ...]) -> None:
    """And clients of one batch are those of one by one, but for rounding."""
    straight = list(run(*small(*way)))
    assert result(run(*small(*way, "engine=pool", "engine.workers=2"))) == result(straight)
    batched = list(run(*small(*way, "training.clients_per_batch=2")))
    for name, tensor in straight[-1].state.items():
        torch.testing.assert_close(batched[-1].state[name], tensor, rtol=1e-3, atol=1e-4)


def test_to_train_everything_is_to_train() -> None:
    words = ("method=scaffold", "regularizers=feddecorr")
    assert result(run(*small(*words, "training.trainable=*"))) == result(run(*small(*words)))


def test_a_step_moves_what_is_trained_as_it_would_all() -> None:
    """Without BatchNorm, whose statistics a frozen layer keeps."""
    words = ("model=lenet", "training.steps=1", "rounds=1", "clients=1", "partition=homogeneous")
    (record,) = run(*small(*words))
    (part,) = run(*small(*words, "training.trainable=features.0.*,classifier.weight"))
    assert 0 < len(part.state) < len(record.state)
    assert all(torch.equal(tensor, record.state[name]) for name, tensor in part.state.items())


def test_what_is_frozen_stays_wherever_it_is_built() -> None:
    """The clients' networks hold the same before and after training, also where only the task's document arrives."""
    task = simulate(PART).task
    expected = whole(task)
    assert any("running_mean" in name for name in expected)
    simulation = simulate(PART)
    server = simulation.federation.start()
    client = Client(simulation.task)
    client(Broadcast.of(1, server), simulation.shards[0], {})
    held = [
        value for each in client.model.modules() for value in vars(each).values() if isinstance(value, torch.Tensor)
    ]
    assert digest(dict(zip(expected, held, strict=True))) == digest(expected)
    assert digest(whole(Task.from_dict(json.loads(json.dumps(task.to_dict()))))) == digest(expected)


def test_copies_share_what_is_frozen() -> None:
    task = simulate(PART).task.built()
    one, other = task.build_model(), task.build_model()
    frozen = [vars(each.get_submodule("features.0"))["weight"] for each in (one, other)]
    assert frozen[0] is frozen[1]
    assert one.get_parameter("classifier.weight") is not other.get_parameter("classifier.weight")


def test_a_file_gives_what_is_frozen_and_an_export_has_all(tmp_path: Path) -> None:
    """The file is pinned by its digest: another one in its place is refused."""
    list(run(*small("seed=3", "rounds=1"), tmp_path / "first"))
    export_model(RunDirectory.open(tmp_path / "first"), "safetensors", tmp_path / "first.safetensors")
    given = read_weights(tmp_path / "first.safetensors")
    for way in WAYS:
        out = tmp_path / way[0].split(".")[1]
        records = list(run(*small(*way, f"model.weights={tmp_path}/first.safetensors"), out))
        export_model(RunDirectory.open(out), "safetensors", out / "whole.safetensors")
        written = read_weights(out / "whole.safetensors")
        moved = {name for name in given if not torch.equal(written[name], given[name])}
        assert {"features.3.weight", *HEAD} <= moved
        assert not [name for name in moved if name.startswith(("features.0", "features.1"))]
        assert digest({name: written[name] for name in HEAD}) == digest(
            {name: records[-1].state[name] for name in HEAD}
        )
    (tmp_path / "first.safetensors").write_bytes((out / "whole.safetensors").read_bytes())
    with pytest.raises(UserError, match="has changed"):
        list(resume(out, options=small("rounds=4").options))


def test_an_adapter_begins_as_the_network_itself() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    x = torch.randn(2, 3, 3, 3)
    expected = model(x)
    freeze(model, LoRA(rank=3).adapt(model, ()))
    assert torch.equal(model(x), expected)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes["0.parametrizations.weight.0.lora_a"] == (3, 27)
    assert shapes["2.parametrizations.weight.0.lora_b"] == (6, 3)
    assert len(shapes) == 6
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert torch.equal(copy_network(model)(x), model(x))


def client_weights(*pairs: tuple[torch.Tensor, torch.Tensor]) -> list[State]:
    return [{"layer.lora_b": b, "layer.lora_a": a} for b, a in pairs]


def mean_of(adapter: LoRA, states: list[State]) -> AdapterMean:
    mean = AdapterMean(adapter)
    sent = [Update(1, client, 1, 1.0, state, {}, {}, {}) for client, state in enumerate(states)]
    assert list(mean.see(sent)) == sent
    return mean


def test_averaging_factors_is_not_averaging_products() -> None:
    """Two clients with the same product, of which one has both factors turned round: their mean factors vanish."""
    b, a = torch.tensor([[3.0], [1.0]]), torch.tensor([[1.0, -2.0, 0.5]])
    states = client_weights((b, a), (-b, -a))
    adapter = LoRA(rank=1, alpha=2, average="products")
    mean = mean_of(adapter, states)
    (ranks,) = mean.ranks().values()
    assert ranks.factors == 0
    assert ranks.products == pytest.approx(1)
    found = mean.weights()
    torch.testing.assert_close(found["layer.lora_b"] @ found["layer.lora_a"], b @ a)
    assert mean_of(LoRA(rank=1), states).weights() == {}


def test_products_are_kept_as_well_as_their_rank_allows() -> None:
    """Two clients that change different directions: the mean has both, and one factor of rank one the stronger."""
    one, other = torch.eye(4, 1), 2 * torch.eye(4).roll(1, 0)[:, :1]
    states = client_weights((one, one.T), (other, other.T))
    mean = (states[0]["layer.lora_b"] @ states[0]["layer.lora_a"] + other @ other.T) / 2
    for rank, expected in ((2, mean), (1, other @ other.T / 2)):
        padded = [{name: _widen(tensor, name, rank) for name, tensor in state.items()} for state in states]
        found = mean_of(LoRA(rank=rank, alpha=7, average="products"), padded).weights()
        torch.testing.assert_close(found["layer.lora_b"] @ found["layer.lora_a"], expected)


def _widen(tensor: torch.Tensor, name: str, rank: int) -> torch.Tensor:
    wide = torch.zeros(rank, 4) if name.endswith("a") else torch.zeros(4, rank)
    wide[: tensor.shape[0], : tensor.shape[1]] = tensor
    return wide


def test_a_run_records_ranks_both_ways() -> None:
    """The products of clients that differ have more directions than one client's, whichever way it averages."""
    for words in ((), ("training.adapter.average=products",)):
        records = list(run(*small(*LORA, *words)))
        for record in records:
            (ranks,) = record.adapters.values()
            assert 1 <= ranks.factors <= 2 + 1e-9
            assert ranks.factors != ranks.products
            assert 1 <= ranks.products <= 4 * 2


def test_every_byte_is_counted_once_per_client(tmp_path: Path) -> None:
    """What is sent is what a message's tensors take; a client that fell out has sent nothing."""
    sizes = {}
    for words in ((), LORA):
        simulation = simulate(*words)
        sent = Broadcast.of(1, simulation.federation.start())
        (record, *_) = run(*small(*words), tmp_path / f"run{len(words)}")
        tensors = len(to_bytes(sent)) - 8 - int.from_bytes(to_bytes(sent)[:8], "little")
        assert record.sent == tensors
        assert record.received == dict.fromkeys(record.clients, tensors)
        assert record.to_dict()["received"] == {str(client): tensors for client in record.clients}
        sizes[words] = tensors
    assert sizes[LORA] < sizes[()] / 4
    (scaffold,) = run(*small("method=scaffold", "rounds=1"))
    assert scaffold.sent is not None
    assert scaffold.sent > sizes[()]


@each(
    "words, message",
    [
        (["training.trainable=clasifier.*"], "matches no parameter"),
        ([*LORA[:2], "training.adapter.layers=head"], "matches no layer .* features.0, features.3"),
        ([*LORA, "training.adapter.average=products", "method=scaffold"], "scaffold does more"),
        ([*LORA, "training.clients_per_batch=2", "training.pre_aggregate=true"], "training.adapter=lora is for"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(run(*small(*words)))
