"""The example of a user's own Flower app, in the shape of Flower's quickstart: ordinary but for the marked lines."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from local_grid import LocalGrid

from feddecorr import FedDecorrLoss, diagnose
from feddecorr.core.evidence import Evidence
from feddecorr.core.randomness import threads
from feddecorr.errors import UserError
from feddecorr.flower.spectrum_metrics import BYTES, average_with_spectrum, evidence_mod

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
            kept = [line.replace("ClientApp(mods=[evidence_mod])  # +", "ClientApp()") for line in kept]
            kept = [line for line in kept if not line.endswith(MARK)]
        (tmp_path / f"{file}.py").write_text("".join(kept))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in FILES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return {name: __import__(name) for name in FILES}


def test_three_lines_for_the_term_and_three_and_an_argument_for_the_evidence() -> None:
    """Those that are marked; the argument is in a line that an app has anyway."""
    added = {file: [line for line in lines(file) if line.endswith(MARK)] for file in FILES}
    assert len(added["task"]) == 3
    evidence = [*added["client_app"], *added["server_app"]]
    assert len([line for line in evidence if "ClientApp(" not in line]) == 3


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


def evaluated(*calls: tuple[torch.nn.Module, torch.Tensor], kind: str = "evaluate", mode: bool = False) -> RecordDict:
    """Return the reply of a client that calls these networks, with the mod."""

    def app(message: Message, _context: Context) -> Message:
        for model, x in calls:
            model.train(mode)
            for loss in (torch.nn.functional.cross_entropy, torch.nn.CrossEntropyLoss()):
                loss(model(x), torch.zeros(len(x), dtype=torch.int64))
        return Message(RecordDict(), reply_to=message)

    LocalGrid({1: {}})  # as in a run, which messages need
    message = Message(RecordDict(), dst_node_id=1, message_type=kind)
    return evidence_mod(message, Context(1, 1, {}, RecordDict(), {}), app).content


def test_the_mod_sees_what_the_app_evaluates_and_nothing_else() -> None:
    """As the whole loader would: in training, or in other messages, nothing is looked at."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))
    parts = [torch.randn(count, 5) for count in (7, 20)]
    (record,) = evaluated(*((model, part) for part in parts)).config_records.values()
    content = record[BYTES]
    assert isinstance(content, bytes)
    found, whole = Evidence.from_bytes(content), Evidence.of(model, [(part,) for part in [*parts, *parts]])
    assert (found.moments.count, found.right) == (54, None)
    torch.testing.assert_close(found.moments.scatter, whole.moments.scatter)
    assert not evaluated((model, parts[0]), kind="train").config_records
    assert not evaluated((model, parts[0]), mode=True).config_records
    with pytest.raises(UserError, match="2 networks were evaluated"):
        evaluated((model, parts[0]), (torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Linear(4, 3)), parts[0]))
    assert not torch.nn.modules.module._global_forward_hooks


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
