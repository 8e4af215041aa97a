from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CommandLine
from copies import cifar10_binary, mnist, tinyimagenet, write_folder, write_tar

from feddecorr.data import DATA
from feddecorr.data.download import Home
from feddecorr.data.mnist import Mnist
from feddecorr.runs.directory import RunDirectory


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache of its own."""
    monkeypatch.setenv("FEDDECORR_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_prints_the_folder_and_the_file(feddecorr: CommandLine, folder: Path, tmp_path: Path) -> None:
    assert feddecorr("data", "where").out == f"{folder}\n"
    assert feddecorr("data", "where", "--json").document == {"path": str(folder)}
    missing = feddecorr("data", "where", "mnist")
    assert missing.code == 2
    assert "'feddecorr data get mnist'" in missing.err
    feddecorr("data", "get", "mnist", "--partial", "--from", write_folder(tmp_path / "copy", mnist()))
    assert feddecorr("data", "where", "mnist").out == f"{folder / 'mnist.safetensors'}\n"
    assert feddecorr("data", "where", "digits").code == 2


def test_list_shows_every_data_set_and_what_is_here(feddecorr: CommandLine, tmp_path: Path, folder: Path) -> None:
    states = {row["name"]: row["state"] for row in feddecorr("data", "list", "--json").document}
    assert set(states) == set(DATA.table)
    assert (states["digits"], states["cifar10"], states["folder"]) == ("always", "no", "your own")
    feddecorr("data", "get", "tinyimagenet", "--from", write_folder(tmp_path / "copy", tinyimagenet()))
    (folder / "cifar10.safetensors").write_bytes(b"broken")
    rows = {line.split()[0]: line for line in feddecorr("data", "list").out.splitlines()}
    assert " a part " in rows["tinyimagenet"]
    assert " damaged " in rows["cifar10"]


def test_get_from_a_copy_refuses_a_part_unless_asked_for(feddecorr: CommandLine, tmp_path: Path, folder: Path) -> None:
    copy = write_tar(tmp_path / "copy.tgz", cifar10_binary())
    refused = feddecorr("data", "get", "cifar10", "--from", copy)
    assert refused.code == 2
    assert "50 of 50000 training images" in refused.err
    assert not (folder / "cifar10.safetensors").exists()
    taken = feddecorr("data", "get", "cifar10", "--from", copy, "--partial", "--json")
    assert taken.code == 0
    assert (taken.document["train"], taken.document["test"], taken.document["classes"]) == (50, 10, 10)
    assert taken.document["note"].startswith("not the whole, official cifar10")


def test_get_does_nothing_when_the_data_set_is_there_whole(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run never downloads."""
    recipe = replace(Mnist.recipe, train=40, test=20, check=lambda _: iter(()), sources=(Home(()),))
    monkeypatch.setattr(Mnist, "recipe", recipe)
    feddecorr("data", "get", "mnist", "--from", write_folder(tmp_path / "copy", mnist()))
    again = feddecorr("data", "get", "mnist")
    assert again.code == 0
    assert "there already" in again.err
    assert again.out == "mnist: verified, 40 training and 20 test images of 28×28×1 in 10 classes\n"


def test_get_without_a_source_that_works_is_a_failure(feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mnist, "recipe", replace(Mnist.recipe, sources=()))
    done = feddecorr("data", "get", "mnist")
    assert done.code == 1
    assert "--from FILE_OR_FOLDER" in done.err


@pytest.mark.parametrize("words", [("get", "cifar11"), ("verify", "cifar10"), ("get", "digits", "--source", "npm")])
def test_what_cannot_be_done_is_refused(words: tuple[str, ...], feddecorr: CommandLine) -> None:
    done = feddecorr("data", *words)
    assert done.code == 2
    assert done.out == ""


def test_verify_tells_of_every_data_set_and_fails_if_one_is_wrong(
    feddecorr: CommandLine, tmp_path: Path, folder: Path
) -> None:
    assert feddecorr("data", "verify", "digits").out.startswith("digits: verified, 1437 training and 360 test images")
    feddecorr("data", "get", "mnist", "--partial", "--from", write_folder(tmp_path / "a", mnist()))
    feddecorr("data", "get", "tinyimagenet", "--from", write_folder(tmp_path / "b", tinyimagenet()))
    good = feddecorr("data", "verify", "--json")
    assert good.code == 0
    assert [verdict["name"] for verdict in good.document] == ["tinyimagenet", "mnist"]
    file = folder / "mnist.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    bad = feddecorr("data", "verify")
    assert bad.code == 1
    assert "mnist: WRONG" in bad.out
    assert "sha256" in bad.out
    file.write_bytes(content[:-1])
    cut = feddecorr("data", "verify")
    assert cut.code == 2
    assert "is damaged" in cut.err
    assert "tinyimagenet: a part" in cut.out


def test_data_of_ones_own_can_be_verified(feddecorr: CommandLine, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((10, 4, 4), np.uint8), y=np.arange(10) % 2)
    assert feddecorr("data", "verify", f"npz:{tmp_path}/a.npz", "--json").document["train"] == 8
    done = feddecorr("data", "get", f"npz:{tmp_path}/a.npz")
    assert done.code == 0
    assert "needs no fetching" in done.err


def test_a_run_without_its_data_says_how_to_get_them(feddecorr: CommandLine, tmp_path: Path) -> None:
    """A run never downloads by itself."""
    done = feddecorr("run", "data=cifar100", "--out", tmp_path / "run")
    assert done.code == 2
    assert "'feddecorr data get cifar100' fetches it" in done.err


def test_a_run_learns_from_a_part_of_real_images(feddecorr: CommandLine, tmp_path: Path) -> None:
    feddecorr("data", "get", "mnist", "--partial", "--from", write_folder(tmp_path / "copy", mnist(50)))
    words = ["data=mnist", "data.train=60", "data.test=30", "data.augment=crop,flip", "partition=homogeneous"]
    words += ["clients=2", "rounds=1", "training.epochs=1", "model.widths=[4]"]
    assert feddecorr("run", *words, "--out", tmp_path / "run").code == 0
    counts = RunDirectory.open(tmp_path / "run").roster().labels
    assert counts is not None
    assert counts.table().tolist() == [[3] * 10] * 2
