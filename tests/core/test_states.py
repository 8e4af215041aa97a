from pathlib import Path

import pytest
import torch
from command_line import CommandLine
from outside import Tied
from safetensors.torch import save_file
from small import result, small
from torch import nn

from feddecorr.core.states import load_into, misfits, not_finite
from feddecorr.errors import UserError
from feddecorr.methods import METHODS
from feddecorr.runs.pipeline import resume, run


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_one_bad_number_among_many_is_found(dtype: torch.dtype, bad: float) -> None:
    """And a state of many large, fair numbers is fine in every precision."""
    fair = {"a": torch.full((1000,), 100.0, dtype=dtype), "count": torch.tensor(3)}
    assert not_finite(fair) == []
    spoilt = torch.ones(1000, dtype=dtype)
    spoilt[500] = bad
    assert not_finite({**fair, "b": spoilt, "c": -spoilt}) == ["b", "c"]


def test_a_misfit_is_reported_by_name() -> None:
    expected = {"a": torch.ones(2), "b": torch.ones(3)}
    assert misfits(expected, expected, types=True) == []
    found = misfits({"a": torch.ones(3), "c": torch.ones(1)}, expected)
    assert found == ["missing: b", "unknown: c", "of another shape: a (3,) in place of (2,)"]
    assert misfits({"a": torch.ones(2), "b": torch.ones(3).int()}, expected) == []
    assert misfits({"a": torch.ones(2), "b": torch.ones(3).int()}, expected, types=True) == [
        "of another type: b torch.int32 in place of torch.float32"
    ]


def test_a_state_that_does_not_fit_is_never_loaded_in_part() -> None:
    model = nn.Linear(2, 2)
    before = model.weight.clone()
    with pytest.raises(UserError, match="missing: bias"):
        load_into(model, {"weight": torch.zeros(2, 2)})
    assert torch.equal(model.weight, before)


def test_tied_weights_and_buffers_outside_of_the_state_dict_are_loaded() -> None:
    one, other = Tied(3, 1), Tied(3, 1)
    with torch.no_grad():
        one.get_buffer("scale").fill_(2.0)
    load_into(other, {**dict(one.named_parameters()), **dict(one.named_buffers())})
    x = torch.randn(4, 1, 8, 8)
    assert torch.equal(one(x), other(x))


@pytest.mark.filterwarnings(
    "ignore::feddecorr.loss.module.DyingFeatures"
)  # so small networks lose some features at once
@pytest.mark.parametrize("name", METHODS.table)
def test_every_method_takes_networks_with_frozen_layers_and_tied_weights(name: str, tmp_path: object) -> None:
    """Frozen layers stay as they were, runs can be interrupted, and engines agree: with and without clients' memory."""
    words = [f"method={name}", "model=outside:frozen_and_tied", "rounds=2", "regularizers=feddecorr"]
    experiment, options = small(*words)
    experiment = experiment.model_copy(update={"clients": 4})
    records = list(run(experiment, options))
    begun = result(run(experiment, options.model_copy(update={"rounds": 1}), f"{tmp_path}/run"))
    engine = ["engine=pool", "engine.workers=2"] if name in ("fedavg", "scaffold") else []
    assert begun + result(resume(f"{tmp_path}/run", *small(*words, *engine))) == result(records)
    first, *_, last = records
    assert torch.equal(first.state["flat.2.weight"], last.state["flat.2.weight"])
    assert torch.equal(last.state["once.weight"], last.state["twice.weight"])
    assert not torch.equal(first.state["once.weight"], last.state["once.weight"])


def test_the_state_of_a_record_is_what_load_state_dict_takes(tmp_path: Path, feddecorr: CommandLine) -> None:
    """Also with a weight under two names and a buffer that no state_dict holds; so does the file of weights."""
    record = next(run(*small("model=outside:Tied", "rounds=1"), tmp_path / "run"))
    model = Tied(4, 1)
    model.load_state_dict(record.state)
    assert torch.equal(model.once.weight, model.twice.weight)
    assert torch.equal(model.once.weight, record.state["once.weight"])
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, tmp_path / "own.safetensors")
    files = [tmp_path / "run" / "weights.safetensors", tmp_path / "own.safetensors"]
    words = [
        "--data",
        "synthetic",
        "data.train=120",
        "data.test=40",
        "data.classes=4",
        "data.channels=1",
        "data.size=8",
    ]
    reported = [
        feddecorr(
            "diagnose", "--model", "outside:Tied", "--weights", file, *words, "--picture", tmp_path / "p", "--json"
        )
        for file in files
    ]
    found = [{**each.document, "name": "", "picture": "", "answer": ""} for each in reported]
    assert found[0] == found[1]
    assert found[0]["accuracy"] == record.accuracy
