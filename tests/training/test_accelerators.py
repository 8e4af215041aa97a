"""Runs on another device than the host, on the stand-in of `helpers/stand_in.py`: all that no card is needed for."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

import pytest
import torch
from small import digest, small
from stand_in import NAME, traffic
from torch import Tensor, nn

import feddecorr
from feddecorr.core.devices import configured
from feddecorr.methods import METHODS
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.objective.terms import Pass, Term
from feddecorr.runs.pipeline import resume, run
from feddecorr.runs.record import Record
from feddecorr.training.client import Alone
from feddecorr.training.shards import LabelledBatch

QUICK = (
    "rounds=2",
    "evaluation.every=1",
    "clients=2",
    "data.train=40",
    "data.test=20",
    "training.epochs=1",
    "training.batch=8",
)

METHODS_WITH_TERMS = [
    (f"method={method}", f"regularizers={regularizer}")
    for method, regularizer in zip(METHODS.table, cycle(REGULARIZERS.table), strict=False)
]
"""Every method, and every regularizer."""

NETWORKS = [
    ("model=lenet",),
    ("model=mlp", "model.widths=[8]"),
    ("model=mobilenetv2", "model.width=0.1", "model.blocks=1", "training.lr=0.001"),
    ("model=resnet18", "model.width=0.1", "training.lr=0.001"),
    ("model=resnet20", "model.width=0.25", "training.lr=0.001"),
    ("model=transformer", "model.width=8", "model.depth=1", "model.heads=2"),
    ("model.head=etf",),
    ("model.projection=8",),
    ("model.norm=group", "model.weight_standardization=true"),
]
OPTIONS = [
    ("data.channels=3", "data.augment=crop,flip", "training.epochs=2"),
    ("training.precision=bf16",),
    ("training.optimizer=adamw", "training.max_grad_norm=1"),
    ("training.memory_format=contiguous",),
    ("batchnorm=local",),
    ("batchnorm=pooled", "evaluation.clients=true"),
    ("training.clients_per_batch=2", "training.pre_aggregate=true", "model.norm=group"),
    ("training.clients_per_batch=2", "method=moon", "regularizers=feddecorr"),
    ("training.clients_per_batch=2", "data.channels=3", "data.augment=crop,flip"),
    ("training.adapter=lora", "training.adapter.rank=2"),
    ("training.trainable=classifier*",),
    ("batchnorm=fixed", "fix_after=1"),
    ("transforms=clip", "transforms.clip.clipping_norm=1"),
    ("transforms=locally_private", "transforms.locally_private.seed=1", "model.norm=group"),
    ("transforms=median", "participation=0.5"),
    (
        "evaluation.clients=true",
        "evaluation.updates=true",
        "evaluation.epochs=true",
        "evaluation.label_measures=always",
        "evaluation.measures=explained_variance,condition_number",
    ),
]


def records(device: str, *words: str) -> list[Record]:
    return list(run(*small(*QUICK, *(word for word in words if word), f"device={device}")))


def crossings(*words: str) -> Counter[str]:
    """Return what a run on the stand-in moves and reads."""
    traffic.clear()
    records(NAME, *words)
    return traffic.copy()


@pytest.mark.parametrize("words", [*METHODS_WITH_TERMS, *NETWORKS, *OPTIONS], ids=" ".join)
def test_a_run_has_the_numbers_of_the_host_and_its_steps_neither_read_nor_move(words: tuple[str, ...]) -> None:
    """Twice as many steps of half as many images cross and read as often as these do.

    Except for the status of an eigenvalue solver, which PyTorch checks.
    """
    host = records("cpu", *words)
    traffic.clear()
    there = records(NAME, *words)
    moved = traffic.copy()
    for mine, theirs in zip(host, there, strict=True):
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-2)
        for name, tensor in mine.state.items():
            torch.testing.assert_close(theirs.state[name], tensor, rtol=1e-2, atol=1e-3)
    more = crossings(*words, "training.batch=4")
    assert {kind: more[kind] for kind in ("in", "out", "reads")} == {
        kind: moved[kind] for kind in ("in", "out", "reads")
    }
    assert (more["solvers"] > moved["solvers"]) == ("regularizers=spectral_entropy" in words)


def test_policies_of_autoaugment_change_images_there_as_on_the_host() -> None:
    words = ("data.channels=3", "data.augment=crop,flip,autoaugment", "training.epochs=3")
    assert digest(records(NAME, *words)[-1].state) == digest(records("cpu", *words)[-1].state)


def test_steps_on_images_under_autoaugment_neither_read_nor_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often its draws cross differs with the draws, so that the steps themselves are watched."""
    gradients, during = Alone.gradients, []

    def watched(self: Alone, step: LabelledBatch) -> Sequence[Tensor]:
        before = traffic.copy()
        found = gradients(self, step)
        during.append(traffic - before)
        return found

    monkeypatch.setattr(Alone, "gradients", watched)
    records(NAME, "data.channels=3", "data.augment=autoaugment", "regularizers=feddecorr")
    assert len(during) >= 8
    assert not any(during)


def test_a_round_moves_the_weights_once_in_each_direction_and_no_image() -> None:
    """Images are there from the beginning; what comes in besides weights are the places of images, in each epoch."""
    words = ("evaluation.every=1000", "method=fedavg", "training.epochs=3")
    fewer, more = (crossings(*words, f"rounds={rounds}") for rounds in (2, 3))
    state = records("cpu")[0].state
    weights = 2 * sum(tensor.nbytes for tensor in state.values())
    places = (1 + 3) * 8 * 40
    assert more["bytes in"] - fewer["bytes in"] == weights + places
    assert weights <= more["bytes out"] - fewer["bytes out"] <= weights + 1000  # and what the terms were
    assert more["out"] - fewer["out"] == 2 * (len(state) + 1)


def test_an_evaluation_reads_back_once() -> None:
    words = ("rounds=3", "evaluation.label_measures=last")
    rare, often = (crossings(*words, f"evaluation.every={every}") for every in (1000, 1))
    assert often["out"] - rare["out"] == 2
    assert often["reads"] == rare["reads"] == 0


def test_a_tensor_left_on_the_host_is_refused_with_the_line_that_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(forward: Pass) -> Tensor:
        return (forward.z * torch.ones(forward.z.shape)).sum()

    def terms(*_: object) -> dict[str, Term]:
        return {"forgetful": forgetful}

    monkeypatch.setattr(METHODS.table["fedavg"], "terms", terms)
    with pytest.raises(feddecorr.RunError, match="same device") as found:
        records(NAME)
    assert "torch.ones(forward.z.shape)" in str(found.value.__cause__)


def test_a_resumed_run_is_a_straight_one(tmp_path: Path) -> None:
    words = ("method=scaffold", "regularizers=feddecorr")
    straight = records(NAME, *words)[-1]
    experiment, options = small(*QUICK, *words, f"device={NAME}", "rounds=1")
    list(run(experiment, options, tmp_path / "run"))
    (last,) = resume(tmp_path / "run", experiment, small(*QUICK, *words, f"device={NAME}").options)
    assert digest(last.state) == digest(straight.state)


def test_workers_of_a_pool_train_there() -> None:
    """They know the device from the module of a measure."""
    words = ("evaluation.measures=stand_in:Registers",)
    pooled = records(NAME, *words, "engine=pool", "engine.workers=2")
    assert digest(pooled[-1].state) == digest(records(NAME, *words)[-1].state)


def test_a_model_there_is_diagnosed() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    x, y = torch.randn(30, 6), torch.arange(30) % 3
    expected = feddecorr.diagnose(model, [(x, y)]).to_dict()
    found = feddecorr.diagnose(model.to(NAME), [(x.to(NAME), y.to(NAME))]).to_dict()
    assert found == expected


def test_workers_are_dealt_to_devices_of_one_kind() -> None:
    words = ("evaluation.measures=stand_in:Registers", "engine=pool", "engine.workers=1")
    assert digest(records(NAME, *words, f"engine.devices={NAME}:0,{NAME}:0")[-1].state) == digest(
        records(NAME)[-1].state
    )
    with pytest.raises(feddecorr.UserError, match="cpu is not of the kind of device=standin"):
        records(NAME, *words, "engine.devices=cpu")


def test_what_a_card_made_is_not_taken_for_what_the_processor_makes(tmp_path: Path) -> None:
    """Their experiments are not equal, and neither continues the other's run."""
    here, there = (small(*QUICK, "rounds=1", f"device={device}") for device in ("cpu", NAME))
    assert here.experiment != there.experiment
    assert here.experiment.digest() != there.experiment.digest()
    list(run(*there, tmp_path / "there"))
    list(run(*here, tmp_path / "here"))
    with pytest.raises(feddecorr.UserError, match="those of device=standin"):
        list(resume(tmp_path / "there", options=small(*QUICK, "rounds=2").options))
    with pytest.raises(feddecorr.UserError, match="accelerator"):
        list(resume(tmp_path / "here", options=small(*QUICK, "rounds=2", f"device={NAME}").options))


def test_algorithms_are_deterministic_while_a_client_trains_there_unless_it_is_given_up() -> None:
    seen = []

    class Watching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.are_deterministic_algorithms_enabled())
            return x

    with configured(NAME, deterministic=True):
        Watching()(torch.ones(1))
        with configured(NAME, deterministic=False):
            Watching()(torch.ones(1))
    with configured("cpu", deterministic=True):
        Watching()(torch.ones(1))
    assert seen == [True, False, False]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_full_device_is_an_error_that_names_client_and_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_forward: Pass) -> Tensor:
        raise torch.OutOfMemoryError("tried to allocate 2 GiB")

    monkeypatch.setattr(METHODS.table["fedavg"], "terms", lambda *_: {"full": full})
    with pytest.raises(feddecorr.RunError, match=r"client 0 failed in round 1.*standin is full.*fewer engine.workers"):
        records(NAME)


def test_a_full_device_in_a_pool_names_worker_too() -> None:
    """The network asks for more memory than there is."""
    words = ("evaluation.measures=stand_in:Registers", "model=stand_in:fills_memory", "engine=pool", "engine.workers=1")
    with pytest.raises(feddecorr.RunError, match=r"client 0 failed.*worker 0 on standin:0: standin:0 is full.*fewer"):
        records(NAME, *words, f"engine.devices={NAME}:0")


@pytest.mark.parametrize("deterministic", [True, False])
def test_precision_and_determinism_are_recorded(tmp_path: Path, deterministic: bool) -> None:
    experiment, options = small(
        *QUICK, "rounds=1", f"device={NAME}", f"training.deterministic={str(deterministic).lower()}"
    )
    list(run(experiment, options, tmp_path / "run"))
    found = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert found["deterministic_algorithms"] is deterministic
    assert found["tf32"] is False
    assert found["cudnn_benchmark"] is not deterministic
    assert found["cublas_workspace"] == ":4096:8"
