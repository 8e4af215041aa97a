"""Studies as a user would write them, with runs of a second."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from small import digest, small, without_time

from feddecorr.core.files import load_tensors
from feddecorr.methods import Method
from feddecorr.objective.terms import ClientContext, Term
from feddecorr.report.figures import over_rounds
from feddecorr.results.study import Arm, Figure, Finding, Result, Study, Table
from feddecorr.runs.pipeline import run
from feddecorr.sweeps.runner import run_all


class Logged(Method):
    """FedAvg that writes down every round that begins."""

    directory: str
    number: int

    def terms(self, context: ClientContext) -> Mapping[str, Term]:
        """Add a line to the run's file, in one piece, whoever else writes to it."""
        if context.client == 0:
            file = os.open(Path(self.directory) / "rounds", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, f"{self.number} {context.broadcast.round}\n".encode())
            os.close(file)
        return {}


def arms(*varied: str, seeds: int = 1, rounds: int = 3) -> list[Arm]:
    """Return small runs, each changed by some words."""
    return [
        Arm({"what": words, "seed": seed}, *small(*words.split(), f"seed={seed}", f"rounds={rounds}"))
        for seed in range(seeds)
        for words in varied
    ]


LOGGED = 6


def logged_arms(directory: Path, count: int = LOGGED) -> list[Arm]:
    """Return numbered runs that write down what they do."""
    logged = f"method=own_studies:Logged method.directory={directory} method.number="
    return arms(*(f"{logged}{number}" for number in range(count)))


def do_logged_runs(directory: Path) -> None:
    """Let numbered runs be there."""
    failures = run_all(logged_arms(directory), directory / "store", jobs=2)
    if failures:
        raise RuntimeError(str(failures))


def outcome(store: Path) -> dict[str, Any]:
    """Return all of the runs that must not depend on who did them, when, or how often they were interrupted."""
    return {
        path.name: (
            [without_time(json.loads(line)) for line in (path / "rounds.jsonl").read_text().splitlines()],
            digest(load_tensors(path / "weights.safetensors")),
        )
        for path in sorted(store.iterdir())
    }


def straight(given: list[Arm], store: Path) -> dict[str, Any]:
    """Return the same of runs that were done one after another in this process."""
    for arm in given:
        list(run(arm.experiment, arm.options, store / arm.experiment.digest()))
    return outcome(store)


class Own(Study):
    """Two methods, with and without FedDecorr."""

    name = "own"
    shows = "That users' own studies can be run"
    place = "nowhere"
    varied: Sequence[str] = ("method=fedavg", "method=fedprox", "regularizers=feddecorr")

    def arms(self, scale: str, seeds: int) -> list[Arm]:
        """Return more rounds at a larger scale."""
        return arms(*self.varied, seeds=seeds, rounds={"paper": 100, "small": 12, "many": 12, "smoke": 3}[scale])

    def findings(self, results: Sequence[Result], scale: str) -> list[Finding]:
        """Return all accuracies to their last digit, so that no bit can go astray unseen."""
        rows = [[*map(str, result.labels.values()), self._accuracies(result)] for result in results]
        table = Table("Accuracies", ["what", "seed", "by round"], rows, f"At the scale {scale}.")
        return [table, Figure("Accuracy per round", lambda: self._draw(results))]

    def _accuracies(self, result: Result) -> str:
        if result.summary is None:
            return "missing"
        return " ".join(str(line["model"]["accuracy"]) for line in result.summary.rounds)

    def _draw(self, results: Sequence[Result]) -> Any:
        lines = {
            " ".join(map(str, result.labels.values())): [
                (line["round"], line["model"]["accuracy"]) for line in result.summary.rounds
            ]
            for result in results
            if result.summary
        }
        return over_rounds(lines, "accuracy")


class Broken(Own):
    """One of its runs fails."""

    name = "broken"
    varied = ("method=fedavg", "method=outside:Failing", "regularizers=feddecorr")


NOT_A_STUDY = object
