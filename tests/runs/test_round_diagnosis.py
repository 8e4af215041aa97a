import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small import digest, small

from feddecorr.collapse.representation import capture_representations
from feddecorr.core.states import STATISTICS, State
from feddecorr.errors import UserError
from feddecorr.results.curves import change_by_averaging
from feddecorr.results.summary import Summary
from feddecorr.runs.diagnosis import Examination, KeptModels, Wanted, between, examine
from feddecorr.runs.directory import RunDirectory
from feddecorr.runs.pipeline import run
from feddecorr.runs.recompute import state_of
from feddecorr.server.federation import Simulation
from feddecorr.server.rounds import sample_clients

quiet: Callable[[str], None] = lambda _text: None  # noqa: E731 - a word for it


def test_looking_changes_nothing_in_the_run(tmp_path: Path) -> None:
    """Training again happens elsewhere: every file of the run keeps its bytes."""
    out = tmp_path / "run"
    list(run(*small("method=scaffold"), out))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    examine(RunDirectory.open(out), Wanted(local=True, averaging=True), "a", quiet)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_run_is_diagnosed_with_its_clients(tmp_path: Path) -> None:
    """The global model as it was recorded, then the asked clients', compared with it."""
    *_, last = run(*small(), tmp_path / "run")
    wanted = Wanted(local=True, clients=[3, 0])
    first, *local = examine(RunDirectory.open(tmp_path / "run"), wanted, "a", quiet).diagnoses
    assert first.singular_values == pytest.approx(last.singular_values)
    assert first.accuracy == last.accuracy
    assert [each.client for each in local] == [0, 3]
    assert all(each.reference == first.name and 0 < (each.linear_cka or 0) <= 1 for each in local)


def test_training_images_can_be_looked_at_too(tmp_path: Path) -> None:
    """All of them."""
    list(run(*small("rounds=1"), tmp_path / "run"))
    (found,) = examine(RunDirectory.open(tmp_path / "run"), Wanted(on="train"), "a", quiet).diagnoses
    assert found.samples == 120


def test_statistics_of_the_images_themselves(tmp_path: Path) -> None:
    """All models normalize the batch by itself, as in training; nothing else of them changes."""
    *_, last = run(*small("rounds=1", "partition.alpha=0.1"), tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    found, local = examine(directory, Wanted(statistics="batch", local=True, clients=[2]), "a", quiet).diagnoses
    simulation = Simulation(directory.settings()[0])
    model = simulation.task.build_model().train()
    model.load_state_dict(last.state)
    with torch.no_grad(), capture_representations(model) as seen:
        model(simulation.dataset.normalize(simulation.dataset.test.pixels))
    expected = torch.linalg.svdvals(torch.cov(seen.z.double().T, correction=0))
    assert found.singular_values == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-7)
    assert found.effective_rank != pytest.approx(last.effective_rank, rel=1e-3)
    assert found.name == "a, round 1, statistics of each batch, global"
    assert local.name == "a, round 1, statistics of each batch, client 2"


def test_rounds_and_clients_that_are_not_there_are_named(tmp_path: Path) -> None:
    """A round beyond the last, and a client that was not sampled."""
    list(run(*small("participation=0.5", "rounds=1"), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    drawn = sample_clients(Simulation(directory.settings()[0]).federation, 1)
    absent = next(client for client in range(4) if client not in drawn)
    with pytest.raises(UserError, match="rounds 1 to 1, not 7"):
        examine(directory, Wanted(round=7), "a", quiet)
    with pytest.raises(UserError, match=f"client {absent} did not train in round 1"):
        examine(directory, Wanted(local=True, clients=[absent]), "a", quiet)


def examined(out: Path, *words: str, wanted: Wanted) -> Examination:
    list(run(*small("rounds=2", *words), out))
    return examine(RunDirectory.open(out), wanted, "a", quiet)


def local_states(out: Path, number: int = 2) -> dict[int, tuple[State, int]]:
    """Return the clients' models of a round and their numbers of examples, in the order of the round."""
    directory = RunDirectory.open(out)
    simulation = Simulation(directory.settings()[0])
    with state_of(directory, simulation, directory.settings()[1], number, quiet) as state:
        updates = list(state.train(sample_clients(simulation.federation, number)))
    return {each.client: ({**each.weights, **each.buffers}, each.examples) for each in updates}


def rank_of(out: Path, state: State, classes: list[int] | None = None) -> float:
    """Return the effective rank by plain means: on all test images, or on those of some classes."""
    simulation = Simulation(RunDirectory.open(out).settings()[0])
    model = simulation.task.build_model().eval()
    model.load_state_dict(state)
    labels = simulation.dataset.test.labels
    kept = labels >= 0 if classes is None else torch.isin(labels, torch.tensor(classes))
    with torch.no_grad(), capture_representations(model) as seen:
        model(simulation.dataset.normalize(simulation.dataset.test.pixels[kept]))
    values = torch.linalg.svdvals(torch.cov(seen.z.double().T, correction=0))
    shares = values / values.sum()
    return float(torch.special.entr(shares).sum().exp())


@pytest.mark.parametrize(
    "words", [(), ("method=fedavgm", "method.momentum=0.9", "batchnorm=pooled"), ("transforms=clip",)]
)
def test_averaging_is_measured_as_the_run_recorded_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Of the average itself, whatever the method makes of it; under FedAvg that is the global model."""
    found = examined(
        tmp_path / "run", *words, "evaluation.clients=true", "participation=0.75", wanted=Wanted(averaging=True)
    )
    last = RunDirectory.open(tmp_path / "run").rounds()[-1]
    assert found.averaging is not None
    assert found.averaging.averaging == last.averaging
    assert found.averaging.averaging.clients == 3
    assert found.averaging.local_effective_ranks == pytest.approx(
        {client: model.effective_rank for client, model in last.local_models.items()}
    )
    same = found.averaging.global_effective_rank == found.averaging.averaging.averaged_effective_rank
    assert same == (not words)
    assert len(found.diagnoses) == 1  # clients' models are shown if they are asked for


def test_averaging_is_the_measure_of_the_claim(tmp_path: Path) -> None:
    """What studies make of a run's record is what the run recorded itself."""
    list(run(*small("rounds=2", "evaluation.clients=true"), tmp_path / "run"))
    summary = Summary.of(RunDirectory.open(tmp_path / "run"))
    recorded = summary.rounds[-1]["averaging"]
    change = math.log(recorded["averaged_effective_rank"] / recorded["local_effective_rank"])
    assert change_by_averaging(summary) == pytest.approx(change)


def test_the_average_is_measured_by_plain_means(tmp_path: Path) -> None:
    """An independent mean of weights and statistics, and an independent rank; the way to it leads through the middle.

    Layer by layer, what the classifier takes in is the representation.
    """
    wanted = Wanted(averaging=True, local=True, clients=[2], layers=True)
    found = examined(tmp_path / "run", wanted=wanted)
    states = local_states(tmp_path / "run")
    total = sum(examples for _, examples in states.values())
    average = {
        name: torch.stack([state[name] * (examples / total) for state, examples in states.values()]).sum(0)
        for name in states[0][0]
    }
    middle = {name: (tensor + average[name]) / 2 for name, tensor in states[2][0].items()}
    assert found.averaging is not None
    (way,) = found.averaging.ways
    assert way.client == 2
    assert way.shares == [step / 8 for step in range(9)]
    expected = [rank_of(tmp_path / "run", state) for state in (states[2][0], middle, average)]
    assert way.effective_ranks[::4] == pytest.approx(expected, rel=1e-4)
    assert way.accuracies[0] == found.diagnoses[1].accuracy
    assert [each.client for each in found.diagnoses] == [None, 2]
    assert found.averaging.layers["classifier"][1] == pytest.approx(expected[2], rel=1e-4)


@pytest.mark.parametrize("words", [(), ("batchnorm=pooled", "participation=0.75"), ("method=fedacg",)])
def test_clients_are_ranked_by_what_they_lost_and_by_leaving_them_out(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Exactly: the mean of all others is made anew, in the order of the round."""
    out = tmp_path / "run"
    found = examined(out, *words, "partition.alpha=0.1", wanted=Wanted(local=True))
    states, directory = local_states(out), RunDirectory.open(out)
    simulation = Simulation(directory.settings()[0])
    with state_of(directory, simulation, directory.settings()[1], 2, quiet) as state:
        sent = state.sent()
    assert found.blame is not None
    assert [each.lost for each in found.blame.suspects] == sorted(each.lost for each in found.blame.suspects)[::-1]
    assert {each.client for each in found.blame.suspects} == states.keys()
    for each in found.blame.suspects:
        mean = STATISTICS[directory.settings()[0].batchnorm]()
        for client, (theirs, examples) in states.items():
            if client != each.client:
                mean.add(theirs, examples)
        own = simulation.dataset.train.labels[simulation.shards.parts[each.client]].unique().tolist()
        assert each.classes == len(own)
        assert each.examples == states[each.client][1]
        assert each.without == pytest.approx(rank_of(out, mean.value), rel=1e-4)
        assert each.sent == pytest.approx(rank_of(out, sent), rel=1e-4)
        assert each.own_sent == pytest.approx(rank_of(out, sent, own), rel=1e-4)
        assert each.own_local == pytest.approx(rank_of(out, states[each.client][0], own), rel=1e-4)
    assert [each.client for each in found.diagnoses[1:]] == sorted(states)


def test_one_client_alone_cannot_be_left_out(tmp_path: Path) -> None:
    found = examined(tmp_path / "run", "clients=1", "partition=homogeneous", wanted=Wanted(local=True))
    assert found.blame is not None
    assert found.blame.suspects[0].without is None


def test_clients_whose_updates_were_missing_are_no_part_of_the_average(tmp_path: Path) -> None:
    """Neither averaged nor blamed; to ask for the way from such a one to the average is refused."""
    list(run(*small("rounds=1"), tmp_path / "run"))
    directory = RunDirectory.open(tmp_path / "run")
    lines = [replace(record, missing={2: "no answer"}).to_dict() for record in directory.rounds()]
    (tmp_path / "run" / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = examine(directory, Wanted(local=True, averaging=True), "a", quiet)
    assert found.averaging is not None
    assert found.blame is not None
    assert list(found.averaging.local_effective_ranks) == [0, 1, 3]
    assert {each.client for each in found.blame.suspects} == {0, 1, 3}
    with pytest.raises(UserError, match="client 2 is not in the average of round 1: no answer"):
        examine(directory, Wanted(local=True, clients=[2], averaging=True), "a", quiet)


def test_the_average_of_kept_models_is_the_servers(tmp_path: Path) -> None:
    """To the last bit, with its statistics pooled."""
    *_, last = run(*small("rounds=2", "batchnorm=pooled"), tmp_path / "run")
    directory = RunDirectory.open(tmp_path / "run")
    kept = KeptModels(tmp_path, STATISTICS["pooled"])
    simulation = Simulation(directory.settings()[0])
    with state_of(directory, simulation, directory.settings()[1], 2, quiet) as state:
        for update in state.train(sample_clients(simulation.federation, 2)):
            kept.keep(update)
    assert digest(kept.average()) == digest(last.state)
    ends = [kept.model(0), kept.average()]
    start, end = ({name: state[name] for name in state if "batches" not in name} for state in ends)
    assert [digest(between(start, end, share)) for share in (0.0, 1.0)] == [digest(start), digest(end)]
