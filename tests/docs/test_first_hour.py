"""What the tutorial and the README show of the first runs is what their commands do now."""

from pathlib import Path

import pytest
from benchmarks.quotes.drawn import FOLDER, PICTURES
from benchmarks.quotes.first_hour import MEASURES, first_runs
from pages import all_pages

from feddecorr.cli.run import DEMO_RUNS, DEMO_SETTINGS
from feddecorr.report.printed import save
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.short_keys import read_settings


def test_the_recorded_runs_are_those_of_the_demo_and_of_the_tutorial() -> None:
    """If not: run the tutorial's commands with seeds 0 to 4, and `feddecorr records` into docs/tutorial/runs.jsonl."""
    recorded = {name: runs[0].digest for name, runs in first_runs().items()}
    demo = {name: parse_settings({**DEMO_SETTINGS, **extra})[0].digest() for name, extra in DEMO_RUNS.items()}
    (page,) = (page for page in all_pages() if page.path == "docs/tutorial.md")
    commands = [command.words for command in page.commands if command.words[:2] == ("feddecorr", "run")]
    typed = {
        Path(words[-1]).name: parse_settings(read_settings(words[2:-2]))[0].digest()
        for words in commands
        if words[-2] == "--out" and "cured.toml" not in words
    }
    assert recorded == demo == typed


def test_every_recorded_seed_shows_the_collapse_and_the_cure() -> None:
    found = first_runs()
    assert {tuple(run.experiment["seed"] for run in runs) for runs in found.values()} == {tuple(range(5))}
    for even, skewed, cured in zip(*found.values(), strict=True):
        for measure in MEASURES:
            values = [run.rounds[-1]["model"][measure] for run in (even, skewed, cured)]
            assert values[1] == min(values)


@pytest.mark.parametrize("name", [name for name in PICTURES if name.startswith("tutorial/")])
def test_pictures_are_those_of_the_records(name: str, tmp_path: Path) -> None:
    """If not, `make quotes` draws them anew."""
    save(PICTURES[name](), tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_bytes() == (FOLDER / f"{name}.svg").read_bytes()
