"""What a run costs, counted without running it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import CommandLine
from small import small
from torch.nn.functional import conv2d, cross_entropy
from torch.utils.flop_counter import FlopCounterMode

import feddecorr
from feddecorr.core.messages import Broadcast
from feddecorr.data.cifar import Cifar10
from feddecorr.methods import METHODS
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.runs.estimate import RunCost, cost_of
from feddecorr.runs.hardware import CARDS, find_hardware
from feddecorr.runs.operations import ClientWork, Counting, count_client, nbytes
from feddecorr.server.federation import Simulation
from feddecorr.training.client import Client

STANDARD = ("data.train=64", "data.test=20", "clients=2", "partition=homogeneous", "training.batch=16")


def count(*words: str) -> ClientWork:
    experiment, options = small(*STANDARD, *words)
    return count_client(experiment, options, experiment.data.outline())


def cost(*words: str, device: str = "a100") -> RunCost:
    return cost_of(*small(*STANDARD, *words), CARDS[device])


@pytest.mark.parametrize("groups", [1, 4, 32])
def test_a_convolution_and_its_gradient_take_three_passes_whatever_its_groups(groups: int) -> None:
    """By hand: 2 · batch · pixels · output channels · (input channels / groups) · kernel, by output, input, weights."""
    x = torch.randn(2, 32, 8, 8, requires_grad=True)
    w = torch.randn(32, 32 // groups, 3, 3, requires_grad=True)
    with Counting() as counting:
        torch.autograd.grad(conv2d(x, w, padding=1, groups=groups).sum(), (x, w))
    assert sum(call.flops for call in counting.calls) == 3 * 2 * 2 * 64 * 32 * (32 // groups) * 9


def test_a_step_has_the_flops_that_pytorch_counts_in_a_real_one() -> None:
    experiment, options = small(*STANDARD, "model=mlp", "model.widths=[8,6]")
    simulation = Simulation(experiment)
    model = simulation.task.build_model()
    x, y = simulation.task.inputs(simulation.shards[0].images.split(16)[0])
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(x), y).backward()
    work = count_client(experiment, options, experiment.data.outline())
    assert work.first.flops == work.later.flops == counter.get_total_flops()
    assert work.first_steps + work.later_steps == 2 * 32 / 16


@pytest.mark.parametrize("method", METHODS.table)
def test_every_method_is_counted(method: str) -> None:
    """With every message as large as it is; FedBABU leaves out the gradient of the classifier."""
    experiment, options = small(*STANDARD, f"method={method}", "rounds=1")
    work = count_client(experiment, options, experiment.data.outline())
    simulation = Simulation(experiment)
    start = simulation.federation.start()
    sent: Broadcast = replace(experiment.method.broadcast(1, start), round=1)
    update, _ = Client(simulation.task)(sent, simulation.shards[0], {})
    assert work.received == nbytes(sent.weights, sent.buffers, sent.shared)
    assert work.sent == nbytes(update.weights, update.buffers, update.extra)
    assert work.first.flops >= 0.99 * count().first.flops > 0


@pytest.mark.parametrize("regularizer", REGULARIZERS.table)
def test_every_regularizer_is_counted(regularizer: str) -> None:
    assert count(f"regularizers={regularizer}").first.count > count().first.count


@pytest.mark.parametrize("model", ["mobilenetv2", "resnet20", "transformer", "mlp", "lenet"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_twice_the_images_are_twice_the_work(model: str, precision: str) -> None:
    words = (f"model={model}", f"training.precision={precision}", "data.augment=none")
    one, two = (count(*words, f"training.batch={batch}") for batch in (8, 16))
    assert two.first.flops == pytest.approx(2 * one.first.flops, rel=0.02)
    assert one.memory < two.memory
    assert any(call.kind == "bf16" for call in two.first.calls) == (precision == "bf16")


def test_moon_looks_through_two_more_networks_once_if_images_come_as_they_are() -> None:
    """In later epochs it knows what they said; under augmentation it asks anew in each step."""
    plain, moon = count(), count("method=moon")
    forward = plain.forward.flops / plain.evaluated * 16
    assert moon.first.flops == pytest.approx(plain.first.flops + 2 * forward, rel=0.02)
    assert moon.later.flops == pytest.approx(plain.later.flops, rel=0.02)
    anew = count("method=moon", "data.augment=flip")
    assert anew.later.flops == anew.first.flops == moon.first.flops


def test_a_run_costs_its_rounds_clients_and_evaluations() -> None:
    one, five = (cost(f"rounds={rounds}", "evaluation.every=1") for rounds in (1, 5))
    assert five.flops == pytest.approx(5 * one.flops)
    assert five.seconds == pytest.approx(5 * one.seconds)
    assert (five.bytes_to_client, five.device_memory) == (one.bytes_to_client, one.device_memory)
    half = cost("rounds=5", "participation=0.5", "evaluation.every=1000")
    whole = cost("rounds=5", "evaluation.every=1000")
    assert half.seconds < whole.seconds


def test_a_run_that_computes_takes_as_much_less_as_the_card_is_faster() -> None:
    words = ("data.size=32", "model.widths=[512,512]", "training.batch=32")
    slow, fast = (cost(*words, device=device) for device in ("v100", "a100"))
    assert 1.1 < slow.seconds / fast.seconds < 2.5
    with pytest.raises(feddecorr.UserError, match=r"v100 has no products in bf16.*fp32"):
        cost(*words, "training.precision=bf16", device="v100")


def test_public_data_need_not_be_here_and_their_outline_is_that_of_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: Cifar10) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(Cifar10, "read", refuse)
    experiment = feddecorr.Experiment(data="cifar10", model={"name": "convnet", "widths": [8]})
    found = cost_of(experiment, feddecorr.RunOptions(), CARDS["a100"])
    assert (found.train, found.test, found.shape, found.classes) == (50_000, 10_000, (3, 32, 32), 10)


def test_the_processor_is_measured() -> None:
    found = find_hardware("cpu")
    assert all(rate > 1e8 for rate in found.flops.values())
    assert 0 < found.call < 1e-2
    with pytest.raises(feddecorr.UserError, match="a100"):
        find_hardware("a10")


def test_an_experiment_is_planned_from_words_a_file_and_a_run(feddecorr: CommandLine, tmp_path: Path) -> None:
    words = ["data=digits", "clients=2", "model=mlp", "model.widths=[8]", "training.epochs=1", "rounds=2"]
    plain = feddecorr("plan", *words, "--device", "a100", "--json").document
    assert plain["rounds"] == 2
    assert plain["device"]["source"].startswith("NVIDIA")
    file = tmp_path / "mine.toml"
    file.write_text(
        'data = "digits"\nclients = 2\nrounds = 2\n[model]\nname = "mlp"\nwidths = [8]\n[training]\nepochs = 1\n'
    )
    assert feddecorr("plan", str(file), "--device", "a100", "--json").document == plain
    feddecorr("run", *words, "--out", str(tmp_path / "run"))
    assert feddecorr("plan", str(tmp_path / "run"), "--device", "a100", "--json").document == plain
    longer = feddecorr("plan", str(tmp_path / "run"), "rounds=4", "--device", "a100", "--json").document
    assert longer["flops"] == pytest.approx(2 * plain["flops"])
    text = feddecorr("plan", *words, "--device", "rtx4090").out
    assert "assuming 40% of 82.6" in text
    assert "NVIDIA Ada" in text


def test_a_study_is_planned_and_says_what_all_of_it_costs(feddecorr: CommandLine) -> None:
    found = feddecorr("plan", "cifar10", "--scale", "smoke", "--device", "v100", "--json").document
    assert found["total_runs"] == sum(row["count"] for row in found["runs"])
    assert found["total_seconds"] == pytest.approx(sum(row["count"] * row["seconds"] for row in found["runs"]))
    answer = feddecorr("plan", "cifar10", "more", "--scale", "smoke")
    assert answer.code == 2
    assert "settings for all of its runs" in answer.err
