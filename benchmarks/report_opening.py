"""How large a report of many long runs is, and how long a browser takes until all of its figures are drawn.

    python -m benchmarks.report_opening [--runs 30] [--rounds 300] [--repeats 3] [--record FILE.json]

One short run of the digits is trained; its record is repeated, with other numbers, for every round of every run: each
has settings of its own, so that no two share a line. The page is opened from the disk by Chromium, without a network.
Seconds are from the request to the last figure, by the clock and of the page's own processor time; of several repeats
the least counts, and Chromium's own start does not. Where other processes share the cores, the second is the one to
compare.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from benchmarks.recording import write_record
from feddecorr.config.experiment import Experiment
from feddecorr.config.overrides import read_overrides
from feddecorr.core.files import load_tensors
from feddecorr.report.runs_page import write_report
from feddecorr.runs.directory import Mark, RunDirectory, write_weights
from feddecorr.runs.pipeline import run
from feddecorr.settings.flat import parse_settings
from feddecorr.settings.options import RunOptions

WORDS = ("data=digits", "rounds=1", "training.epochs=1", "regularizers=feddecorr")
DRAWN = "[...document.querySelectorAll('.plotly-graph-div')].every(figure => figure.querySelector('.trace, .hm'))"


def make_runs(folder: Path, runs: int, rounds: int, experiment: Experiment) -> list[Path]:
    """Return the directories of runs that differ in the learning rate."""
    first = folder / "first"
    list(run(experiment, RunOptions(rounds=1), first))
    line = json.loads((first / "rounds.jsonl").read_text())
    settings = json.loads((first / "experiment.json").read_text())
    stream = np.random.default_rng(0)
    made = []
    for number in range(runs):
        path = folder / f"run {number}"
        shutil.copytree(first, path)
        changed = {**settings, "rounds": rounds, "training": {**settings["training"], "lr": 0.01 * (number + 1)}}
        (path / "experiment.json").write_text(json.dumps(changed))
        with (path / "rounds.jsonl").open("w") as lines:
            for each, accuracy in enumerate(stream.random(rounds), start=1):
                lines.write(
                    json.dumps({**line, "round": each, "model": {**line["model"], "accuracy": accuracy}}) + "\n"
                )
        write_weights(path / "weights.safetensors", load_tensors(path / "weights.safetensors"), _mark(first, rounds))
        made.append(path)
    return made


def _mark(path: Path, rounds: int) -> Mark:
    if RunDirectory.open(path).finished_rounds() != 1:
        raise RuntimeError(f"{path} should have one round")
    return Mark(round=rounds, server="", memories="")


def opening_seconds(page: Path, repeats: int) -> list[tuple[float, float]]:
    """Return how long each opening took, by the clock and of processor time."""
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("there is no chromium: 'make browser' installs it")
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(repeats):
            context = browser.new_context(offline=True)
            tab = context.new_page()
            inside = context.new_cdp_session(tab)
            inside.send("Performance.enable", {"timeDomain": "threadTicks"})
            started = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_function(DRAWN)
            clock = time.perf_counter() - started
            measured = {each["name"]: each["value"] for each in inside.send("Performance.getMetrics")["metrics"]}
            found.append((clock, float(measured["ThreadTime"])))
            context.close()
        browser.close()
    return found


def main() -> None:
    """Measure, print, and record if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        made = make_runs(Path(folder), arguments.runs, arguments.rounds, parse_settings(read_overrides(WORDS))[0])
        started = time.perf_counter()
        write_report(made, page)
        writing = time.perf_counter() - started
        megabytes = page.stat().st_size / 1e6
        clock, processor = (min(seconds) for seconds in zip(*opening_seconds(page, arguments.repeats), strict=True))
    print(
        f"{megabytes:.1f} MB, written in {writing:.1f} s, drawn in {clock:.1f} s ({processor:.1f} s of processor time)"
    )
    if arguments.record:
        found = {
            "runs": arguments.runs,
            "rounds": arguments.rounds,
            "megabytes": megabytes,
            "seconds to write": writing,
            "seconds to open": clock,
            "processor seconds to open": processor,
        }
        write_record(arguments.record, found)


if __name__ == "__main__":
    main()
