import json
from pathlib import Path

import pytest
import torch
from command_line import CommandLine
from outside import Tied
from small import small

from feddecorr.core.files import load_note, load_tensors
from feddecorr.errors import RunError
from feddecorr.runs import export
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in bfloat16, whose exported model computes in full precision all the same."""
    directory = tmp_path_factory.mktemp("runs") / "a"
    list(run(*small("rounds=1", "training.precision=bf16"), directory))
    return directory


@pytest.mark.parametrize("to", export.FORMATS)
def test_an_exported_model_decides_as_the_run_did(
    to: str, trained: Path, tmp_path: Path, feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logits that the written file gave are those of the run's own model, on any number of images."""
    logits = {}
    write = export.FORMATS[to]

    def keep(given: export.Exported, path: Path) -> torch.Tensor:
        logits["written"], logits["own"] = write(given, path), given.logits()
        return logits["written"]

    monkeypatch.setitem(export.FORMATS, to, keep)
    done = feddecorr("export", trained, "--to", to, "-o", tmp_path / "deep" / f"model.{to}", "--json")
    assert done.code == 0, done.err
    assert Path(done.document["written"][0]).is_file()
    assert len(logits["written"]) == export.CHECKED
    torch.testing.assert_close(logits["written"], logits["own"], rtol=1e-3, atol=1e-4)


def test_torchscript_runs_without_this_package(trained: Path, tmp_path: Path, feddecorr: CommandLine) -> None:
    feddecorr("export", trained, "--to", "torchscript", "-o", tmp_path / "model.pt")
    images = small().experiment.data.load().test
    with pytest.warns(DeprecationWarning, match=r"torch\.export"):  # PyTorch advises torch.export for new code
        program = torch.jit.load(str(tmp_path / "model.pt"))
    logits = program(images.pixels.permute(0, 3, 1, 2).float())
    accuracy = float((logits.argmax(1) == images.labels).float().mean())
    assert accuracy == pytest.approx(RunDirectory.open(trained).rounds()[-1].accuracy, abs=0.06)  # bfloat16 there


def test_the_note_of_weights_says_what_they_are_for(trained: Path, tmp_path: Path, feddecorr: CommandLine) -> None:
    feddecorr("export", trained, "--to", "safetensors", "-o", tmp_path / "model.safetensors")
    note = load_note(tmp_path / "model.safetensors")
    assert note["shape"] == "[1, 8, 8]"
    assert len(json.loads(note["mean"])) == len(json.loads(note["std"])) == 1


def test_exported_weights_are_taken_by_the_network_and_by_another_run(tmp_path: Path, feddecorr: CommandLine) -> None:
    """Also where a weight has two names."""
    record = next(run(*small("model=outside:Tied", "rounds=1"), tmp_path / "run"))
    file = tmp_path / "model.safetensors"
    assert feddecorr("export", tmp_path / "run", "--trust", "--to", "safetensors", "-o", file).code == 0
    model = Tied(4, 1)
    model.load_state_dict(load_tensors(file))
    assert all(torch.equal(record.state[name], tensor) for name, tensor in model.state_dict().items())
    begun = next(run(*small("model=outside:Tied", f"model.weights={file}", "training.lr=1e-12", "rounds=1")))
    assert all(torch.allclose(begun.state[name], tensor) for name, tensor in record.state.items())


def test_a_model_that_came_out_wrong_is_not_left_behind(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = export.FORMATS["safetensors"]
    monkeypatch.setitem(export.FORMATS, "safetensors", lambda given, path: write(given, path) + 1)
    with pytest.raises(RunError, match="other logits"):
        export.export_model(RunDirectory.open(trained), "safetensors", tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_refused(trained: Path, tmp_path: Path, feddecorr: CommandLine) -> None:
    for words, reason in {
        (trained, "--to", "keras"): "there is no --to keras: there are: mlflow",
        (trained,): "name the file to write",
        (trained, "--to", "onnx"): "name the file to write",
        (trained, "-o", tmp_path / "a.xlsx"): "a table ends in .parquet or .csv",
        (trained, trained, "--to", "onnx", "-o", tmp_path / "a.onnx"): "from one run",
        (trained, "--to", "mlflow", "-o", tmp_path / "a"): "leave --out out",
        (tmp_path, "-o", tmp_path / "a.csv"): "no run with a finished round",
        (tmp_path, "--to", "tensorboard"): "no run in",
    }.items():
        done = feddecorr("export", *words)
        assert (done.code, done.out) == (2, ""), words
        assert reason in done.err
