"""The example of a user's own Flower app, in the shape of Flower's quickstart: ordinary but for the marked lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, MetricRecord, RecordDict
from local_grid import LocalGrid

from feddecorr import FedDecorrLoss, diagnose
from feddecorr.core.evidence import Evidence
from feddecorr.core.randomness import threads
from feddecorr.flower.spectrum_metrics import BYTES, average_with_spectrum

SOURCE = Path(__file__).parents[2] / "examples" / "flower_app"
FILES = ("task", "client_app", "server_app")
MARK = "  # +\n"
RUN = {"num-server-rounds": 2, "fraction-evaluate": 1.0, "local-epochs": 1, "learning-rate": 0.05, "batch-size": 32}
NODES = {10 + number: {"partition-id": number, "num-partitions": 4} for number in range(4)}


def lines(file: str) -> list[str]:
    return (SOURCE / f"{file}.py").read_text().splitlines(keepends=True)


@pytest.fixture(params=["with", "without"])
def modules(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """Return the modules of the app, with the lines or without them."""
    for file in FILES:
        kept = lines(file)
        if request.param == "without":
            kept = [re.sub(r"with .*:  # \+", "if True:", line) for line in kept]
            kept = [line for line in kept if not line.endswith(MARK)]
        (tmp_path / f"{file}.py").write_text("".join(kept))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in FILES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: __import__(name) for name in FILES}


def test_ten_lines_are_enough() -> None:
    """Those that are marked, and the one that is moved below a `with`."""
    added = [line for file in FILES for line in lines(file) if line.endswith(MARK)]
    assert 0 < len(added) + sum("with " in line for line in added) <= 10


def test_the_app_trains_and_with_the_lines_knows_its_spectrum(
    modules: dict[str, ModuleType], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Without them it is an ordinary app, which works as well."""
    grid = LocalGrid(NODES, app=modules["client_app"].app, run_config=RUN)
    with threads(1):  # which tests share with others
        modules["server_app"].app(grid, Context(1, 1, {}, RecordDict(), dict(RUN)))
    printed = capsys.readouterr().out
    (found,) = re.findall(r"^2 \{(.*)\}", printed, re.M)
    measured = {name: float(value) for name, value in re.findall(r"'(\w+)': ([\d.]+)", found)}
    assert ("global_effective_rank" in measured) == ("[with]" in request.node.name)
    if "global_effective_rank" in measured:
        assert measured["global_accuracy"] == pytest.approx(measured["eval_acc"])
        assert measured["global_samples"] == 360  # a fifth of 1797 digits, for each client rounded up
        assert 1 < measured["global_effective_rank"] < 128


def test_a_step_of_the_app_minimizes_the_loss_that_the_lines_add(
    modules: dict[str, ModuleType], request: pytest.FixtureRequest
) -> None:
    """One batch, one step: the mean loss is that of the classes, and with the lines a tenth of FedDecorr's more."""
    task = modules["task"]
    torch.manual_seed(0)
    net, samples = task.Net(), next(iter(task.load_data(0, 4, 64)[0]))
    logits = net(samples["img"])
    expected = torch.nn.functional.cross_entropy(logits, samples["label"])
    if "[with]" in request.node.name:
        expected = expected + 0.1 * FedDecorrLoss()(net.features(samples["img"]))
    gradients = torch.autograd.grad(expected, list(net.parameters()))
    before = [weight.detach().clone() for weight in net.parameters()]
    found = task.train(net, [samples], 1, 0.05)
    assert found == pytest.approx(float(expected.detach()), rel=1e-5)
    for old, new, gradient in zip(before, net.parameters(), gradients, strict=True):
        torch.testing.assert_close(new.detach(), old - 0.05 * gradient, rtol=1e-4, atol=1e-6)


def reply(content: Any, *, examples: int = 3) -> RecordDict:
    metrics = MetricRecord({"eval_acc": 0.5, "num-examples": examples})
    return RecordDict({"metrics": metrics, "evidence": ConfigRecord({BYTES: content})})


def test_merged_evidence_measures_what_all_samples_together_would() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    parts = [(torch.randn(count, 5), torch.arange(count) % 3) for count in (7, 20)]
    replies = [reply(Evidence.of(model, [part]).to_bytes(), examples=len(part[0])) for part in parts]
    found = average_with_spectrum(replies, "num-examples")
    whole = diagnose(model, parts)
    assert (found["global_samples"], found["global_accuracy"], found["eval_acc"]) == (27, whole.accuracy, 0.5)
    assert found["global_effective_rank"] == pytest.approx(whole.effective_rank, rel=1e-9)
