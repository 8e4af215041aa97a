from dataclasses import replace

import numpy as np
import pytest
import torch
from small import result, small

from feddecorr.federation import Simulation
from feddecorr.representation import capture_representations
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.pipeline import run


def test_the_batch_size_of_evaluation_does_not_matter() -> None:
    whole = Simulation(small("evaluation.batch=1000"))
    parts = Simulation(small("evaluation.batch=7"))
    one, other = (Evaluator(each.task, each.dataset.test)(each.federation.start()) for each in (whole, parts))
    assert one.accuracy == other.accuracy
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.effective_rank == pytest.approx(other.effective_rank, rel=1e-5)


def test_the_spectrum_is_that_of_the_test_representations() -> None:
    """And accuracy and loss are those of the same forward pass."""
    simulation = Simulation(small())
    model = simulation.task.build_model().eval()
    with torch.no_grad(), capture_representations(model) as seen:
        logits = model(simulation.dataset.normalize(simulation.dataset.test.pixels))
    expected = np.linalg.svd(np.cov(seen.z.double().numpy().T, bias=True), compute_uv=False)
    found = Evaluator(simulation.task, simulation.dataset.test)(simulation.federation.start())
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-4, atol=1e-7)
    labels = simulation.dataset.test.labels
    assert found.accuracy == float((logits.argmax(1) == labels).double().mean())
    assert found.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-6)


def test_evaluating_leaves_training_unchanged() -> None:
    often = result(run(small("evaluation.every=1")))
    seldom = result(run(small("evaluation.every=3")))
    assert [bits for _, bits in often] == [bits for _, bits in seldom]


def test_the_last_round_is_always_evaluated() -> None:
    records = list(run(small("evaluation.every=2", "rounds=3")))
    assert [record.accuracy is not None for record in records] == [False, True, True]


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_local_models_are_evaluated_by_wish_whoever_trains_them(engine: str) -> None:
    """Records are the same whichever engine ran the clients, and only rounds that are due hold local models."""
    words = ("evaluation.clients=true", "evaluation.every=2", "rounds=3")
    records = list(run(small(*words, f"engine={engine}")))
    assert [sorted(record.local_models) for record in records] == [[], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert result(records) == result(run(small(*words)))


def test_evaluating_local_models_leaves_training_unchanged() -> None:
    """Weights are the same with and without."""
    plain, watched = result(run(small())), result(run(small("evaluation.clients=true")))
    assert [bits for _, bits in plain] == [bits for _, bits in watched]


def test_a_single_client_is_its_own_mean() -> None:
    """With one client, its local model is the global one, in every measure."""
    (record,) = run(small("clients=1", "partition=homogeneous", "rounds=1", "evaluation.clients=true"))
    assert record.model is not None
    assert record.local_models == {0: replace(record.model, client=0)}
