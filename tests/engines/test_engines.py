import sys
from pathlib import Path

import pytest
from small import digest, result, simulate, small

from feddecorr.core.client_memory import Memories
from feddecorr.core.files import write_json
from feddecorr.core.messages import Broadcast, Update
from feddecorr.errors import RunError, UserError
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import resume, run
from feddecorr.settings.flat import to_settings
from feddecorr.settings.options import ENGINES

TOGETHER = "model=mlp model.widths=[16] clients=6 partition.minimum=3 training.clients_per_batch=2"


@pytest.mark.parametrize(
    ("words", "workers"),
    [
        ("", 1),
        ("regularizers=feddecorr", 2),
        ("batchnorm=local", 3),
        ("method=outside:Remembering", 2),
        (TOGETHER, 3),
        (f"{TOGETHER} training.pre_aggregate=true method=fedavgm", 2),
        ("training.clients_per_batch=2 training.pre_aggregate=true batchnorm=pooled", 3),
        ("batchnorm=local training.clients_per_batch=2", 2),
        (f"{TOGETHER} method=scaffold regularizers=feddecorr", 1),
    ],
)
def test_engines_agree_bit_for_bit(words: str, workers: int) -> None:
    """However many workers there are, and whatever clients remember."""
    settings = ["evaluation.batch=7", "participation=0.75", *words.split()]
    pool = ["engine=pool", f"engine.workers={workers}"]
    assert result(run(*small(*settings, *pool))) == result(run(*small(*settings, "engine=serial")))


def bits(update: Update) -> str:
    return digest(update.weights) + digest(update.buffers)


@pytest.mark.parametrize(
    "words",
    ["", "model=mlp model.widths=[] training.clients_per_batch=2", "batchnorm=local training.clients_per_batch=2"],
)
@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_updates_can_be_kept(tmp_path: Path, engine: str, words: str) -> None:
    """A method may hold on to any of the updates while later clients train, also where others were let go."""
    simulation = simulate(*words.split())
    server = simulation.federation.start()
    kept: list[tuple[Update, str]] = []
    opened = ENGINES.parse(engine).open(simulation.task, simulation.shards, Memories(tmp_path))
    with opened as run_clients:
        for number in (1, 2, 3):
            updates = run_clients(Broadcast.of(number, server), [0, 1, 2, 3])
            kept += [
                (update, bits(update)) for update in updates if isinstance(update, Update) and update.client != number
            ]
    assert [bits(update) for update, _ in kept] == [then for _, then in kept]
    assert len({then for _, then in kept}) == 9


@pytest.mark.parametrize(
    "words", ["", TOGETHER, f"{TOGETHER} training.pre_aggregate=true", "clients=12 partition.minimum=1"]
)
def test_a_killed_worker_is_replaced_and_leaves_no_trace(tmp_path: Path, words: str) -> None:
    """Whether it played one client, a group, or several at once."""
    killed = ["method=outside:Killed", f"method.directory={tmp_path}"]
    expected = result(run(*small(*words.split(), "engine=serial")))
    assert result(run(*small(*words.split(), *killed, "engine=pool", "engine.workers=2"))) == expected
    assert len(list(tmp_path.iterdir())) == 1


def test_a_client_whose_worker_always_dies_ends_the_run(tmp_path: Path) -> None:
    killed = ["method=outside:Killed", f"method.directory={tmp_path}", "method.times=1000"]
    with pytest.raises(RunError, match=r"client 1 failed in round 2.*exit code -9"):
        list(run(*small(*killed, "engine=pool", "engine.workers=2")))


@pytest.mark.parametrize("words", ["", TOGETHER])
@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_a_client_that_raises_is_named_and_the_run_can_go_on(tmp_path: Path, engine: str, words: str) -> None:
    out = tmp_path / "run"
    records = run(*small("method=outside:Failing", f"engine={engine}", *words.split()), out)
    next(records)
    with pytest.raises(RunError, match="client 1 failed in round 2: ZeroDivisionError: on purpose"):
        next(records)
    directory = RunDirectory.open(out)
    assert directory.finished_rounds() == 1
    # The cause is taken away, as a user would repair the method, and the run continues to the same end.
    repaired, repaired_options = small(
        "method=outside:Failing", "method.round=1000", f"engine={engine}", *words.split()
    )
    write_json(out / "experiment.json", to_settings(repaired, repaired_options))
    assert result(resume(out, trust=True)) == result(run(repaired, repaired_options))[1:]


def test_without_flower_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is a run."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"engine=flower needs ray: pip install 'feddecorr\[flower\]'"):
        list(run(*small("engine=flower"), tmp_path / "run"))
    assert not (tmp_path / "run").exists()
