"""What `training.precision=auto` comes to, and that a run keeps it."""

import json
from pathlib import Path

import pytest
import torch
from small import result, small

from feddecorr.errors import RunError, UserError
from feddecorr.results.study import Arm
from feddecorr.runs import precision_probe
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import ensure, resume, run
from feddecorr.runs.precision_probe import Choice, Trial, choose, has_bfloat16, judge, try_out
from feddecorr.server.federation import Simulation
from feddecorr.sweeps.jobs import plan

AUTO = "training.precision=auto"


@pytest.mark.parametrize(
    ("trials", "precision"),
    [
        ([Trial(speed=1.5, drift=0.1)], "bf16"),
        ([Trial(speed=0.5, drift=0.1)], "fp32"),
        ([Trial(speed=1.0, drift=0.0)], "fp32"),
        ([Trial(speed=9.0, drift=0.5)], "fp32"),
        ([Trial(speed=9.0, drift=float("nan"))], "fp32"),
        ([Trial(speed=1.5, drift=0.1), Trial(speed=1.5, drift=0.3)], "fp32"),
        ([Trial(speed=0.9, drift=0.1), Trial(speed=1.5, drift=0.1), Trial(speed=1.6, drift=0.1)], "bf16"),
    ],
)
def test_half_precision_is_picked_only_where_it_is_faster_and_disappears_in_the_noise(
    trials: list[Trial], precision: str
) -> None:
    assert judge(trials).precision == precision


def test_a_trial_tells_the_two_precisions_apart() -> None:
    """Rounding to bfloat16 changes the model, though less than other batches; with the same precision, nothing."""
    simulation = Simulation(small(AUTO, "training.schedule=cosine", "training.schedule.over=1"))
    drifts = [trial.drift for trial in try_out(simulation, seconds=0)]
    assert len(drifts) == 1
    assert 0 < drifts[0] < 1
    assert [trial.drift for trial in try_out(simulation.settled("fp32"), seconds=0)] == [0.0]


def test_trials_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("feddecorr.runs.precision_probe.time.perf_counter", lambda: float(next(clock)))
    assert len(try_out(Simulation(small(AUTO)), seconds=25)) == 3  # of seven seconds each, and one to warm up
    assert len(try_out(Simulation(small(AUTO)), seconds=0)) == 1


def test_without_instructions_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False, "amx_bf16": False})
    monkeypatch.setattr(precision_probe, "try_out", lambda _simulation: pytest.fail("a trial"))
    assert choose(Simulation(small(AUTO))).precision == "fp32"


@pytest.mark.parametrize(
    ("capabilities", "has"), [({"amx_bf16": True}, True), ({"bf16": False, "sve_bf16": True}, True), ({}, False)]
)
def test_what_the_processor_has_is_asked(
    capabilities: dict[str, bool], has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert has_bfloat16("cpu") == has


def test_a_trial_that_breaks_off_is_no_reason_for_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(_simulation: Simulation) -> list[Trial]:
        raise RunError("the term 'cross_entropy' became nan")

    monkeypatch.setattr(precision_probe, "has_bfloat16", lambda _device: True)
    monkeypatch.setattr(precision_probe, "try_out", diverge)
    choice = choose(Simulation(small(AUTO)))
    assert choice.precision == "fp32"
    assert "cross_entropy" in choice.reason


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_keeps_what_was_picked_when_it_began(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the bits of a run that was told so, also where the trial would now come out otherwise."""
    expected = result(run(small(f"training.precision={precision}")))
    picked = Choice("bf16" if precision == "bf16" else "fp32", "a test", speed=1.5, drift=0.1)
    monkeypatch.setattr("feddecorr.runs.pipeline.choose", lambda _simulation: picked)
    begun = result(run(small(AUTO, "rounds=1"), tmp_path / "run"))
    monkeypatch.setattr("feddecorr.runs.pipeline.choose", lambda _simulation: pytest.fail("a second trial"))
    further = result(resume(tmp_path / "run", experiment=small(AUTO, "rounds=2")))
    assert begun + further + result(ensure(small(AUTO), tmp_path / "run")) == expected
    assert list(ensure(small(AUTO), tmp_path / "run")) == []
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.experiment().training.precision == precision
    assert directory.precision() == picked
    assert json.loads((tmp_path / "run" / "precision.json").read_text())["reason"] == "a test"


def test_a_run_that_was_told_its_precision_has_no_trial(tmp_path: Path) -> None:
    list(run(small("rounds=1"), tmp_path / "run"))
    assert RunDirectory.open(tmp_path / "run").precision() is None


def test_where_nothing_is_tried_a_precision_must_be_said() -> None:
    """By runs that are compared, and wherever a network is built outside of a run."""
    with pytest.raises(UserError, match="fp32 or bf16"):
        plan([Arm({"seed": 0}, small(AUTO))], Path("store"))
    with pytest.raises(UserError, match="fp32 or bf16"):
        Simulation(small(AUTO)).federation.start()
