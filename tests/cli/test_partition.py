from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from small import simulate, write_settings


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_split_is_that_of_a_run(feddecorr: CommandLine, here: Path) -> None:
    """The counts, the file and the numbers are those of the split that `run` would train on."""
    outcome = feddecorr("partition", write_settings(here / "s.json"), "seed=3", "--out", "split.json", "--json")
    assert outcome.code == 0
    simulation = simulate("seed=3")
    assert json.loads((here / "split.json").read_text()) == [part.tolist() for part in simulation.shards.parts]
    document = outcome.document
    assert [sum(row) for row in document["counts"]] == [len(part) for part in simulation.shards.parts]
    assert document["classes"] == ["0", "1", "2", "3"]
    assert document["heterogeneity"]["examples"] == 120
    assert Path(document["split"]) == here / "split.json"


def test_a_written_split_is_read_again(feddecorr: CommandLine, here: Path) -> None:
    """`partition=file` gives the same split as the one that was drawn."""
    settings = write_settings(here / "s.json")
    drawn = feddecorr("partition", settings, "--out", "split.json", "--json").document
    read = feddecorr("partition", settings, "partition=file", "partition.path=split.json", "--json").document
    assert drawn["counts"] == read["counts"]
    assert drawn["heterogeneity"] == read["heterogeneity"]


def test_the_picture_needs_no_network(feddecorr: CommandLine, here: Path) -> None:
    """The page holds all that draws it, every client and every number."""
    feddecorr("partition", write_settings(here / "s.json"), "--picture", "deep/picture.html")
    page = (here / "deep" / "picture.html").read_text()
    assert 'class="plotly-graph-div"' in page
    assert "<script src=" not in page
    assert "mean effective classes" in page
    assert not (here / "partition.html").exists()


def test_text_shows_every_client_and_every_number(feddecorr: CommandLine, here: Path) -> None:
    """Results are on standard output: a line a client with its labels drawn, and a line a number."""
    outcome = feddecorr("partition", write_settings(here / "s.json"), "partition=classes", "partition.per_client=1")
    lines = outcome.out.splitlines()
    shades = [line.split("|")[1] for line in lines if "|" in line]
    assert len(shades) == 4
    assert sorted(shades) == ["   █", "  █ ", " █  ", "█   "]
    assert any(line.startswith("mean effective classes  1.000") for line in lines)
    assert f"picture: {here / 'partition.html'}" in outcome.err.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["partition.alpa=1"], "did you mean 'alpha'"),
        (["clients=1000"], "lower clients or partition.minimum"),
        (["partition=file", "partition.path=no.json"], "no.json cannot be read"),
    ],
)
def test_what_the_user_must_change_ends_with_2(
    feddecorr: CommandLine, here: Path, words: list[str], message: str
) -> None:
    """Nothing is printed as a result, nothing is written, and the message is on standard error."""
    outcome = feddecorr("partition", *words)
    assert outcome.code == 2
    assert message in outcome.err
    assert not outcome.out
    assert not list(here.iterdir())
