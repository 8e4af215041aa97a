"""Spectra of changes: known ranks, low-rank adapters by their products, and how alike clients' changes are."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small import small
from torch import Tensor, nn

import feddecorr
from feddecorr import UserError, diagnose_update
from feddecorr.collapse.updates import RoundUpdates
from feddecorr.core.files import load_tensors
from feddecorr.report.runs_page import write_report
from feddecorr.results.summary import Summary
from feddecorr.runs.diagnosis import Wanted, examine
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_known_changes_have_their_ranks() -> None:
    before = {"a.weight": noise(6, 9), "b.weight": noise(4, 3, 2, 2), "a.bias": noise(6), "still.weight": noise(3, 3)}
    after = {name: tensor.clone() for name, tensor in before.items()}
    after["a.weight"] += 0.1 * torch.outer(noise(6, seed=1), noise(9, seed=2))
    after["b.weight"] += torch.linalg.qr(noise(12, 4)).Q.T.reshape(4, 3, 2, 2)
    found = diagnose_update(before, after)
    one, all_of_them, none = found.layers.values()
    assert list(found.layers) == ["a", "b", "still"]
    assert (one.effective_rank, one.stable_rank, one.maximum_rank) == pytest.approx((1, 1, 6))
    assert (all_of_them.effective_rank, all_of_them.stable_rank, all_of_them.norm) == pytest.approx((4, 4, 2))
    assert all_of_them.relative_norm == pytest.approx(2 / float(before["b.weight"].norm()))
    assert (none.effective_rank, none.norm) == (0, 0)
    assert "the fewest in 'a': 1.0 of 6" in str(found)
    assert "1 of 3 layers have not changed" in found.answer()[1]


def test_the_spectrum_is_that_of_numpy_whatever_the_scale() -> None:
    before, change = noise(7, 5), noise(7, 5, seed=1)
    values = np.linalg.svd(change.numpy(), compute_uv=False)
    shares = values / values.sum()
    for scale in (1, 1e-6):
        (found,) = diagnose_update({"w": before}, {"w": before + scale * change}).layers.values()
        assert found.singular_values == pytest.approx(scale * values, rel=1e-6)
        assert found.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
        assert found.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2)


@pytest.mark.parametrize(
    "names", ["lora_{}.weight", "lora_{}.default.weight", "lora_embedding_{}.default"]
)  # as peft has them
def test_an_adapter_is_diagnosed_by_its_product(names: str) -> None:
    """Both factors change; the product's change has rank up to twice theirs."""
    a, b = (noise(2, 9), noise(2, 9, seed=1)), (noise(6, 2, seed=2), noise(6, 2, seed=3))
    factors = [{f"q.{names.format('A')}": x, f"q.{names.format('B')}": y} for x, y in zip(a, b, strict=True)]
    products = [{"q.weight": y @ x} for x, y in zip(a, b, strict=True)]
    (found,), (expected,) = (diagnose_update(*each).layers.values() for each in (factors, products))
    assert found.singular_values == pytest.approx(expected.singular_values, abs=1e-12)
    assert sum(value > 1e-9 for value in found.singular_values) == 4
    assert found.effective_rank == pytest.approx(expected.effective_rank)
    assert found.relative_norm == pytest.approx(expected.relative_norm)


def test_models_and_wrapped_names_fit() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Conv2d(3, 2, 1))
    wrapped = {f"module.{name}": tensor + 1 for name, tensor in model.state_dict().items()}
    assert [each.effective_rank for each in diagnose_update(model, wrapped).layers.values()] == pytest.approx([1, 1])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UserError, match="only one of the two models has 'b'"):
        diagnose_update({"a": noise(2, 2), "b": noise(2, 2)}, {"a": noise(2, 2)})
    with pytest.raises(UserError, match=r"'a' has the shape \(2, 2\) before and \(2, 3\) after"):
        diagnose_update({"a": noise(2, 2)}, {"a": noise(2, 3)})
    with pytest.raises(UserError, match="no weight of two dimensions"):
        diagnose_update({"a": noise(2)}, {"a": noise(2)})
    with pytest.raises(UserError, match=r"there is no 'q\.lora_A'"):
        diagnose_update({"q.lora_B": noise(2, 2)}, {"q.lora_B": noise(2, 2)})
    with pytest.raises(UserError, match="the change of 'a' is not finite"):
        diagnose_update({"a": noise(2, 2)}, {"a": noise(2, 2) * torch.inf})


@pytest.mark.parametrize(
    ("directions", "alignment", "rank"),
    [
        ([[1, 0, 0], [1, 0, 0]], 1, 1),
        ([[1, 0, 0], [-1, 0, 0]], -1, 0),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], 0, 3),
        ([[1, 0, 0], [0, 0, 0]], None, 1),
    ],
)
def test_alignment_is_the_mean_cosine_of_two_clients(
    directions: list[list[int]], alignment: float | None, rank: int
) -> None:
    """Whatever their lengths; each client's change has rank 1, or 0 where it changed nothing."""
    sent = {"w": noise(3, 3)}
    found = RoundUpdates(sent)
    for direction in directions:
        found.take({"w": sent["w"] + torch.diag(torch.tensor(direction)) / 3}, examples=5)
    (layer,) = found.layers().values()
    assert layer.alignment == (None if alignment is None else pytest.approx(alignment, abs=1e-12))
    assert layer.averaged_effective_rank == pytest.approx(rank)
    assert layer.effective_rank == pytest.approx(float(all(map(any, directions))))


def test_adapters_of_a_run_count_by_their_layers() -> None:
    words = ("training.adapter=lora", "training.adapter.rank=2", "training.adapter.layers=features.3", "rounds=1")
    (record,) = run(*small("evaluation.updates=true", *words))
    found = record.updates["features.3"]
    assert "features.3" in record.updates
    assert 0 < found.effective_rank <= 4 < found.maximum_rank
    assert found.averaged_effective_rank > found.effective_rank


def test_a_run_records_what_a_diagnosis_finds_and_trains_as_without(tmp_path: Path) -> None:
    """Under FedAvg, the average of the updates is the change of the global model."""
    *_, plain = run(*small(), tmp_path / "plain")
    *_, last = run(*small("evaluation.updates=true"), tmp_path / "run")
    assert all(torch.equal(plain.state[name], tensor) for name, tensor in last.state.items())
    assert not plain.updates
    directory = RunDirectory.open(tmp_path / "run")
    updated = examine(directory, Wanted(updates=True), "a", lambda _text: None).updates
    assert updated is not None
    assert updated.layers == last.updates == directory.round(last.round).updates
    assert list(updated.clients) == [0, 1, 2, 3]
    server = load_tensors(tmp_path / "run" / "previous" / "weights.safetensors")
    whole = diagnose_update(server, {name: last.state[name] for name in server})
    for layer, each in whole.layers.items():
        assert updated.layers[layer].averaged_effective_rank == pytest.approx(each.effective_rank, rel=1e-4)
        assert -1 <= (updated.layers[layer].alignment or 0) <= 1
    kept = Summary.of(directory).rounds[-1]["updates"]
    assert kept["classifier"]["effective_rank"] == last.updates["classifier"].effective_rank
    write_report([tmp_path / "plain", tmp_path / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for heading in ("Rank of updates", "Rank of the average update", "Alignment of updates"):
        assert f"<h2>{heading} per round</h2>" in page
    assert "updates" not in Summary.of(RunDirectory.open(tmp_path / "plain")).rounds[-1]


def test_what_is_found_is_ready_to_be_kept() -> None:
    found = diagnose_update({"w": noise(3, 3)}, {"w": noise(3, 3, seed=1)}, name="round 1")
    assert found.to_dict()["layers"]["w"]["effective_rank"] == found.layers["w"].effective_rank
    assert found.to_dict()["answer"][0].startswith("round 1: in effect")
    assert feddecorr.UpdateDiagnosis is type(found)
