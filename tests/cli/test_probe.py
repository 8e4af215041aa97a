from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import CommandLine
from sklearn.datasets import load_digits
from small import SETTINGS, small

import feddecorr as package
from feddecorr.runs.pipeline import run

pytestmark = pytest.mark.usefixtures("plain_look")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_is_probed_on_its_own_images(feddecorr: CommandLine) -> None:
    """The accuracy of its head is what the run recorded; a head with wrong weights is found out."""
    *_, last = run(*small("rounds=1"), "run")
    found = feddecorr("probe", "run", "--json").document
    assert found["own"] == last.accuracy
    assert found["effective_rank"] == pytest.approx(last.effective_rank)
    state = {name: -tensor if name.startswith("classifier") else tensor for name, tensor in last.state.items()}
    torch.save(state, "bad.pt")
    words = [f"data.{key}={value}" for key, value in SETTINGS["data"].items() if key != "name"]
    words += ["model.widths=[8,16]", "--model", "convnet", "--data", "synthetic"]
    bad = feddecorr("probe", *words, "--weights", "bad.pt", "--json").document
    assert bad["linear"] == found["linear"]
    assert bad["own"] < found["own"]
    assert "The head is bad" in bad["answer"][1]


def test_features_are_split_or_tested_on_others(feddecorr: CommandLine) -> None:
    x, y = load_digits(return_X_y=True)
    tested = np.arange(len(x)) % 5 == 4
    for name, array in {"x": x, "y": y, "a": x[~tested], "b": y[~tested], "c": x[tested], "d": y[tested]}.items():
        np.save(f"{name}.npy", array)
    split = feddecorr("probe", "--features", "x.npy", "--labels", "y.npy")
    assert split.code == 0
    assert "nearest neighbours" in split.out
    other = ["--features", "a.npy", "--labels", "b.npy", "--test-features", "c.npy", "--test-labels", "d.npy"]
    found = feddecorr("probe", *other, "--json").document
    assert f"{100 * found['linear']:.1f} %" in split.out
    assert (found["linear"], found["knn"]) == package.probe(x[~tested], y[~tested], x[tested], y[tested])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to probe: name a run"),
        (["--features", "x.npy"], "a probe needs the labels"),
        (["--labels", "y.npy", "--model", "convnet"], "need --features"),
        (["--model", "convnet"], "--model needs --data"),
        (["--features", "x.npy", "--layer", "a"], "--layer is for models"),
    ],
)
def test_what_cannot_be_probed_is_refused(feddecorr: CommandLine, words: list[str], message: str) -> None:
    np.save("x.npy", np.eye(10))
    outcome = feddecorr("probe", *words)
    assert outcome.code == 2
    assert message in outcome.err
