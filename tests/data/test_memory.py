"""Data that people hold in memory are one value, however they hold it, known by its content."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small import SETTINGS, result
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from feddecorr import Experiment, RunOptions, UserError, resume, run
from feddecorr.settings.flat import parse_settings

PIXELS = np.random.default_rng(0).integers(0, 256, (60, 6, 6, 3)).astype(np.uint8)
LABELS = np.arange(60) % 3
FLOATS = torch.from_numpy(PIXELS).permute(0, 3, 1, 2) / 255


class Pairs(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """Examples one by one, as of torchvision's ToTensor."""

    classes = ("a", "b", "c")

    def __len__(self) -> int:
        return len(FLOATS)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return FLOATS[place], int(LABELS[place])


def experiment(data: Any, **others: Any) -> Experiment:
    known = {name: SETTINGS[name] for name in ("clients", "partition", "model", "training")}
    return Experiment.parse({**known, **others, "data": data})


def test_the_same_images_are_the_same_experiment() -> None:
    """Arrays and tensors, channels first or last, whole numbers or floats, and a data set of PyTorch."""
    held = [(PIXELS, LABELS), (FLOATS, torch.from_numpy(LABELS)), TensorDataset(FLOATS, torch.from_numpy(LABELS))]
    assert len({experiment(data) for data in held}) == 1
    assert experiment(Pairs()).data.read().classes == ("a", "b", "c")
    assert experiment((PIXELS, LABELS)) != experiment((PIXELS[:, ::-1], LABELS))
    both = experiment((PIXELS, LABELS, PIXELS[:6], LABELS[:6])).data.read()
    assert (len(both.train), len(both.test)) == (60, 6)
    assert experiment((PIXELS, np.array(["no", "so", "yes"])[LABELS])).data.read().classes == ("no", "so", "yes")


def test_hugging_face_s_images_and_tables() -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.Features({"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])})
    pictures = datasets.Dataset.from_dict({"img": list(PIXELS), "label": LABELS}, features=kinds)
    assert experiment(pictures).data.read().sha256 == experiment((PIXELS, LABELS)).data.read().sha256
    columns = {"one": PIXELS[:, 0, 0, 0] / 7, "two": PIXELS[:, 0, 0, 1], "label": LABELS}
    table = datasets.Dataset.from_dict(columns)
    found = experiment(datasets.DatasetDict(train=table, test=table), model="mlp").data.read()
    np.testing.assert_allclose(found.test.pixels[:, 0, 0, 0].numpy(), PIXELS[:, 0, 0, 0] / 7, rtol=1e-6)


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_it_is_run_and_continued_with_the_same_data_alone(tmp_path: Path, engine: str) -> None:
    mine = experiment((PIXELS, LABELS), training={"epochs": 1})
    options = RunOptions.parse({"rounds": 2, "engine": engine, "evaluation": {"label_measures": "always"}})
    whole = result(run(mine, options))
    out = tmp_path / "run"
    assert result(run(mine, options.model_copy(update={"rounds": 1}), out)) == whole[:1]
    with pytest.raises(UserError, match=r"give that experiment again: resume\(out, experiment, options\)"):
        list(resume(out, options=options))
    with pytest.raises(UserError, match=r"sha256"):
        list(resume(out, experiment((PIXELS[::-1], LABELS), training={"epochs": 1}), options))
    assert result(resume(out, mine, options)) == whole[1:]


def test_a_table_is_for_networks_of_tables() -> None:
    table = (PIXELS.reshape(60, -1) / 3, LABELS)
    assert experiment(table, model="mlp").data.read().shape == (108, 1, 1)
    with pytest.raises(UserError, match="tables of features are for model=mlp"):
        experiment(table)


def test_other_processes_and_files_get_the_digest_alone() -> None:
    mine = experiment({"name": "memory", "arrays": (PIXELS, LABELS), "augment": "crop"})
    sent = pickle.dumps(mine)
    assert len(sent) < PIXELS.nbytes
    assert pickle.loads(sent) == mine == parse_settings(mine.to_dict())[0]  # noqa: S301 - our own


class Stream(IterableDataset[int]):
    """Has no length."""

    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ((PIXELS,), "not a tuple of 1"),
        ((PIXELS, LABELS, PIXELS), "not a tuple of 3"),
        ([PIXELS, LABELS], r"data in memory are \(x, y\), .*; not a list"),
        (PIXELS, "not a ndarray"),
        (DataLoader(TensorDataset(FLOATS)), "not a DataLoader"),
        (None, "a data set is a name or a table of options"),
        (Stream(), "Stream has no length"),
        (TensorDataset(FLOATS), r"TensorDataset\[0\] is no pair"),
        ((PIXELS, LABELS / 2), r"y is float64 of shape \(\d+,\); expected \d+ whole numbers from 0 on$"),
        ((PIXELS, LABELS.astype(float)), r"y = y.astype\(int\)$"),
        ((PIXELS, np.eye(LABELS.max() + 1)[LABELS]), r"y = y.argmax\(1\)$"),
        (
            (np.where(FLOATS > 0.9, np.nan, FLOATS), LABELS),
            r"x: \d+ values are missing or infinite, the first in image",
        ),
        ((FLOATS * 2 - 1, LABELS), "x is float32 from -1 to 1; expected uint8, or floats from 0 to 1, .* x = "),
        (([[1, 2], [3]], LABELS), "x is no array of numbers"),
        ((np.full((60, 2), np.nan), LABELS), "x: row 1, column 1 is missing"),
        ({"name": "memory", "arrays": (PIXELS, LABELS), "sha256": "0"}, "these are other data"),
        ("memory", r"data=memory: the data are in the memory of a Python program"),
    ],
)
def test_anything_else_is_refused(held: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        experiment(held).data.read()
