"""Clients that the data name: every example goes to its owner."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from small import simulate, small

from feddecorr.data.builtin import Digits, DigitsByWriter
from feddecorr.data.dataset import content_digest
from feddecorr.data.tables import TableFile
from feddecorr.errors import UserError
from feddecorr.partition.external import Given
from feddecorr.runs.pipeline import run

WRITERS = ("data=digits_by_writer", "data.writers=3", "clients=3", "partition=given", "model=mlp")


@pytest.mark.parametrize("part", [None, 100])
def test_every_example_goes_to_its_owner(part: int | None) -> None:
    """In a drawn part of the data, too: an image keeps its writer."""
    whole = DigitsByWriter(writers=3).load()
    assert whole.owners is not None
    simulation = simulate(*WRITERS, *([] if part is None else [f"data.train={part}"]))
    written = {
        (pixels.tobytes(), label): owner
        for pixels, label, owner in zip(
            whole.train.pixels.numpy(), whole.train.labels.tolist(), whole.owners.tolist(), strict=True
        )
    }
    train = simulation.dataset.train
    assert sum(map(len, simulation.shards.parts)) == len(train) == (part or 1437)
    for client, places in enumerate(simulation.shards.parts):
        for place in places:
            assert written[train.pixels[place].numpy().tobytes(), int(train.labels[place])] == client


def test_workers_train_on_the_same_examples() -> None:
    one, other = (list(run(*small(*WRITERS, "rounds=1", f"engine={engine}"))) for engine in ("serial", "pool"))
    assert [record.model for record in one] == [record.model for record in other]


def test_data_without_owners_and_another_number_of_clients_are_refused() -> None:
    labels = np.arange(6) % 2
    with pytest.raises(UserError, match="do not assign examples to clients"):
        Given().split(labels, clients=2, seed=0)
    with pytest.raises(UserError, match="are those of 3 clients: set clients=3"):
        Given().split(labels, clients=2, seed=0, owners=np.arange(6) % 3)
    with pytest.raises(UserError, match="client 1 would hold 0 examples"):
        Given().split(labels, clients=3, seed=0, owners=np.array([0, 2, 0, 2, 0, 2]))


def test_writers_differ_in_features_and_not_in_labels() -> None:
    """Without a shift they write the embedded digits; with one, some other than they are."""
    plain, same, shifted = Digits().load(), DigitsByWriter(shift=0).load(), DigitsByWriter().load()
    assert torch.equal(same.train.pixels, plain.train.pixels)
    assert torch.equal(shifted.train.labels, plain.train.labels)
    assert shifted.owners is not None
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (shifted.owners.numpy(), shifted.train.labels.numpy()), 1)
    assert (counts.max(0) - counts.min(0) <= 1).all()
    ink = torch.stack([shifted.train.pixels[shifted.owners == writer].double().mean(0) for writer in range(10)])
    before = torch.stack([plain.train.pixels[shifted.owners == writer].double().mean(0) for writer in range(10)])
    assert ink.var(0).sum() > 10 * before.var(0).sum()
    assert not torch.equal(DigitsByWriter(seed=1).load().train.pixels, shifted.train.pixels)


def test_whose_an_example_is_belongs_to_the_digest() -> None:
    data = DigitsByWriter(writers=2, shift=0).load()
    assert data.owners is not None
    assert data.sha256 == content_digest(data.train, data.test, data.owners)
    assert data.sha256 != content_digest(data.train, data.test, 1 - data.owners)
    assert content_digest(data.train, data.test) == Digits().load().sha256


def test_a_column_of_a_table_names_its_clients(tmp_path: Path) -> None:
    """By their order, and numbers by their size."""
    rows = pd.DataFrame({"x": np.random.default_rng(0).normal(size=40), "label": np.arange(40) % 2})
    sites = np.array([10, 9, 2])[np.arange(40) % 3]
    rows.assign(site=sites).to_csv(tmp_path / "a.csv", index=False)
    table = TableFile(path=tmp_path / "a.csv", client="site").load()
    assert table.owners is not None
    held = {float(x): int(owner) for x, owner in zip(table.train.pixels.flatten(), table.owners, strict=True)}
    expected = {float(np.float32(x)): [2, 9, 10].index(site) for x, site in zip(rows["x"], sites, strict=True)}
    assert held.items() <= expected.items()
    assert table.shape == (1, 1, 1)
    part = TableFile(path=tmp_path / "a.csv", client="site", train=10).load()
    assert part.owners is not None
    assert [held[float(x)] for x in part.train.pixels.flatten()] == part.owners.tolist()


def test_a_row_without_a_client_is_refused(tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": np.arange(20.0) ** 2, "label": np.arange(20) % 2, "site": ["a", "b"] * 10})
    rows.loc[3, "site"] = ""
    rows.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(UserError, match="site of row 4 is missing"):
        TableFile(path=tmp_path / "a.csv", client="site").load()
