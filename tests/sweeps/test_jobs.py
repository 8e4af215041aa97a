from pathlib import Path

import pytest
from small import small

from feddecorr.config.experiment import Experiment
from feddecorr.results.study import Arm
from feddecorr.sweeps.jobs import plan


def test_a_run_is_there_once_however_many_arms_have_it(tmp_path: Path) -> None:
    """Whoever would run the clients."""
    arms = [
        Arm({"n": n}, *small(*words)) for n, words in enumerate([["seed=0"], ["seed=1"], ["seed=0", "engine=pool"]])
    ]
    jobs = plan(arms, tmp_path)
    assert [job.name for job in jobs] == ["n = 0, seed 0", "n = 1, seed 1"]
    assert [job.path for job in jobs] == [tmp_path / job.digest for job in jobs]
    assert {job.options.to_dict()["engine"]["name"] for job in jobs} == {"serial"}


def test_a_shared_run_has_all_that_any_of_its_arms_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most rounds, and every evaluation."""
    monkeypatch.setattr(Experiment, "digest", lambda _: "the same")
    words = [["rounds=4", "evaluation.every=4"], ["rounds=9", "evaluation.every=6"], ["rounds=2", "evaluation.every=8"]]
    (job,) = plan([Arm({}, *small(*each)) for each in words], tmp_path)
    assert (job.options.rounds, job.options.evaluation.every) == (9, 2)
    (job,) = plan([Arm({}, *small("evaluation.final=3", *each)) for each in words], tmp_path)
    assert (job.options.evaluation.every, job.options.evaluation.final) == (1, 3)
