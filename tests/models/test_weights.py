from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from small import digest, simulate, small
from torch import nn

from feddecorr.core.files import load_tensors
from feddecorr.errors import UserError
from feddecorr.models.weights import load_weights, read_weights, weights_digest
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.settings.options import RunOptions


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return weights that a run of another seed has learned."""
    list(run(*small("rounds=1", "seed=5"), tmp_path / "before"))
    return tmp_path / "before" / "weights.safetensors"


def test_a_run_starts_from_given_weights(weights: Path) -> None:
    server = simulate(f"model.weights={weights}").federation.start()
    assert digest({**server.weights, **server.buffers}) == digest(load_tensors(weights))


def test_files_of_torch_save_are_taken_too(weights: Path, tmp_path: Path) -> None:
    torch.save({"state_dict": load_tensors(weights)}, tmp_path / "w.pt")
    one, other = (simulate(f"model.weights={path}") for path in (weights, tmp_path / "w.pt"))
    assert digest(one.federation.start().weights) == digest(other.federation.start().weights)
    assert one.task.experiment.digest() == other.task.experiment.digest()


def test_weights_that_do_not_fit_are_refused_before_there_is_a_run(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"does not fit the model .*of another shape"):
        next(run(*small(f"model.weights={weights}", "model.widths=[8, 8]"), tmp_path / "run"))
    with pytest.raises(UserError, match="there is no file"):
        next(run(*small("model.weights=nothing.safetensors"), tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "run" / "rounds.jsonl").exists()


def test_a_run_is_known_by_its_first_weights_wherever_they_lie(weights: Path, tmp_path: Path) -> None:
    """It continues with a copy, and not with others; without given weights its digest is what it was."""
    list(run(*small(f"model.weights={weights}", "rounds=1"), tmp_path / "run"))
    stored = RunDirectory.open(tmp_path / "run").settings()[0]
    assert stored.model.sha256
    assert stored.digest() != small().experiment.digest()
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(weights.read_bytes())
    moved = stored.model_copy(update={"model": stored.model.model_copy(update={"weights": copy})})
    assert moved == stored
    assert moved.digest() == stored.digest()
    assert len(list(resume(tmp_path / "run", moved, RunOptions(rounds=2)))) == 1
    save_file({"a": torch.zeros(1)}, copy)
    with pytest.raises(UserError, match="has changed"):
        list(resume(tmp_path / "run", moved, RunOptions(rounds=3)))


BASE = torch.arange(24.0)
FORMS: dict[str, dict[str, torch.Tensor]] = {
    "views of one storage": {
        "a": BASE[3:9].view(2, 3),
        "b": BASE.view(4, 6).t(),
        "c": BASE[:0],
        "d": BASE.expand(2, 24),
    },
    "kinds": {
        str(kind): torch.tensor([0, 1, 2]).to(kind)
        for kind in (torch.bool, torch.int8, torch.bfloat16, torch.float16, torch.complex64, torch.int64, torch.float64)
    },
    "parameters": dict(torch.nn.Linear(3, 2).named_parameters()),
    "new kinds": {"a": torch.tensor([1, 2], dtype=torch.uint16), "b": torch.tensor([1.0]).to(torch.float8_e4m3fn)},
}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_tensors_are_those_that_pytorch_reads(form: str, old: bool, tmp_path: Path) -> None:
    """Also of files from before 1.6, and of checkpoints with much else in them."""
    if old and form == "new kinds":  # which that form cannot hold
        return
    shared = (0.9, 0.999)
    rest = {"optimizer": {"groups": [{"betas": shared}, {"betas": shared}], "seen": {1, 2}}, "epoch": 3, "b": b"x"}
    torch.save({"state_dict": FORMS[form], **rest}, tmp_path / "w.pt", _use_new_zipfile_serialization=not old)
    expected = torch.load(tmp_path / "w.pt", weights_only=True)["state_dict"]
    found = read_weights(tmp_path / "w.pt")
    assert list(found) == list(expected)
    for name, tensor in found.items():
        assert (tensor.dtype, tensor.shape) == (expected[name].dtype, expected[name].shape)
    assert weights_digest(found) == weights_digest({name: tensor.detach() for name, tensor in expected.items()})


def test_a_wrapper_s_prefix_and_a_checkpoint_s_key_are_found(tmp_path: Path) -> None:
    """As DataParallel, torch.compile and training scripts leave them."""
    mine = nn.Sequential(nn.Linear(3, 2))
    expected = mine.state_dict()
    wrapped = [{f"{prefix}{name}": tensor for name, tensor in expected.items()} for prefix in ("module.", "_orig_mod.")]
    for saved in (*wrapped, {"model": expected, "epoch": 3}, {"model_state_dict": wrapped[0]}):
        torch.save(saved, tmp_path / "w.pt")
        found = nn.Sequential(nn.Linear(3, 2))
        load_weights(found, tmp_path / "w.pt")
        assert all(torch.equal(found.state_dict()[name], tensor) for name, tensor in expected.items())


def test_a_whole_model_and_junk_are_reported_in_a_sentence(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(3, 2)), tmp_path / "whole.pt")
    (tmp_path / "page.pt").write_text("<html>404</html>")
    (tmp_path / "empty.pt").touch()
    said = {"whole": "holds a whole object .*Sequential.*: save model.state_dict\\(\\)", "page": "no file of weights"}
    for name, sentence in {**said, "empty": "no file of weights"}.items():
        with pytest.raises(UserError, match=sentence):
            load_weights(nn.Linear(3, 2), tmp_path / f"{name}.pt")
