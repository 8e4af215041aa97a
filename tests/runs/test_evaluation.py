from dataclasses import replace

import numpy as np
import pytest
import torch
from small import result, simulate, small

from feddecorr.collapse.measures import Measures, Principal, measure_spread
from feddecorr.collapse.neural_collapse import ClassMeasures, DecisionMeasures
from feddecorr.collapse.representation import capture_representations
from feddecorr.core.messages import Server
from feddecorr.errors import RunError
from feddecorr.runs.evaluation import Evaluator
from feddecorr.runs.pipeline import run


def evaluator(*words: str, parallel_jobs: int = 1) -> tuple[Evaluator, Server]:
    simulation = simulate(*words)
    return Evaluator(simulation.task, simulation.dataset.test, parallel_jobs), simulation.federation.start()


def changed(server: Server, *names: str) -> Server:
    """Return the server with other values in these weights."""
    return replace(server, weights={name: w * 1.5 if name in names else w for name, w in server.weights.items()})


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets a number longer whenever a spectrum is computed."""
    times: list[int] = []

    def count(principal: Principal, *, rankme: bool) -> Measures:
        times.append(len(times))
        return measure_spread(principal, rankme=rankme)

    monkeypatch.setattr("feddecorr.runs.evaluation.measure_spread", count)
    return times


def test_the_batch_size_of_evaluation_does_not_matter() -> None:
    one, other = (
        evaluate(state) for evaluate, state in (evaluator("evaluation.batch=1000"), evaluator("evaluation.batch=7"))
    )
    assert one.accuracy == other.accuracy
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    assert one.effective_rank == pytest.approx(other.effective_rank, rel=1e-5)


@pytest.mark.parametrize("words", [[], ["model=mobilenetv2"], ["training.precision=bf16"], ["training.threads=2"]])
@pytest.mark.parametrize("classes", [False, True])
def test_the_number_of_threads_changes_no_bit(words: list[str], *, classes: bool) -> None:
    """Each looks at batches by itself, and what they find is put together in the order of the batches."""
    found = []
    for parallel_jobs in (1, 2, 5):
        evaluate, state = evaluator(*words, "evaluation.batch=6", parallel_jobs=parallel_jobs)
        found.append(evaluate(state, classes=classes))
    assert found[0] == found[1] == found[2]


def test_the_spectrum_is_that_of_the_test_representations() -> None:
    """And accuracy and loss are those of the same forward pass, in which BatchNorm is no layer of its own."""
    simulation = simulate("evaluation.batch=11")
    model = simulation.task.build_model().eval()
    with torch.no_grad(), capture_representations(model) as seen:
        logits = model(simulation.dataset.normalize(simulation.dataset.test.pixels))
    expected = np.linalg.svd(np.cov(seen.z.double().numpy().T, bias=True), compute_uv=False)
    found = Evaluator(simulation.task, simulation.dataset.test)(simulation.federation.start())
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-4, atol=1e-7)
    labels = simulation.dataset.test.labels
    assert found.accuracy == float((logits.argmax(1) == labels).double().mean())
    assert found.loss == pytest.approx(float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-6)


def test_what_labels_tell_changes_nothing_else() -> None:
    """With classes and RankMe or without, the other measures have the same bits."""
    evaluate, state = evaluator("evaluation.batch=7")
    whole, plain = evaluate(state, classes=True).recorded(), evaluate(state).recorded()
    more = {*vars(ClassMeasures()), "rankme", "nc4_disagreement"} & whole.keys()
    assert more
    assert plain == {name: value for name, value in whole.items() if name not in more}


def test_classes_are_measured_in_the_last_round_or_always() -> None:
    """In whole runs; everything else in the record is the same."""
    last, always = (list(run(*small(f"evaluation.label_measures={when}"))) for when in ("last", "always"))
    for records, expected in ((last, [False, False, True]), (always, [True, True, True])):
        for name in ("nc1_variability", "mean_per_class_effective_rank", "nc4_disagreement", "rankme"):
            assert [getattr(record.model, name) is not None for record in records] == expected
    assert [record.singular_values for record in last] == [record.singular_values for record in always]
    assert [record.loss for record in last] == [record.loss for record in always]
    assert last[-1].model == always[-1].model


def test_representations_that_did_not_change_are_measured_once(measured: list[int]) -> None:
    """Those of logistic regression never do: the classifier takes the pixels."""
    words = ["model=mlp", "model.widths=[]", "evaluation.label_measures=last", "evaluation.every=1", "rounds=4"]
    records = list(run(*small(*words)))
    assert len(measured) == 1
    assert records[0].singular_values == records[2].singular_values == records[3].singular_values
    assert len({record.loss for record in records}) == 4


def test_representations_that_changed_are_measured_anew(measured: list[int]) -> None:
    """A change of the classifier changes none, one of any layer before it, or of BatchNorm's statistics, all."""
    evaluate, state = evaluator()
    first = evaluate(state)
    head = evaluate(changed(state, "classifier.weight", "classifier.bias"))
    assert len(measured) == 1
    assert head == replace(first, loss=head.loss, accuracy=head.accuracy)
    assert head.loss != first.loss
    deeper = changed(state, "features.0.weight")
    assert evaluate(deeper).singular_values != first.singular_values
    buffers = {name: buffer * 2 for name, buffer in state.buffers.items()}
    assert evaluate(replace(state, buffers=buffers)).singular_values != first.singular_values
    assert evaluate(state) == first
    assert len(measured) == 4


def test_a_classifier_that_acts_on_representations_counts_as_a_layer_before_them(measured: list[int]) -> None:
    """However strange the network: what representations follow from is found, not guessed by names."""
    evaluate, state = evaluator("model=outside:Looped")
    first = evaluate(state)
    assert evaluate(changed(state, "classifier.bias")).singular_values == first.singular_values
    assert len(measured) == 1
    assert evaluate(changed(state, "classifier.weight")).singular_values != first.singular_values
    assert len(measured) == 2


def test_a_model_next_to_itself_is_the_same() -> None:
    """CKA is one, and no direction is turned."""
    evaluate, _ = evaluator("evaluation.batch=7", parallel_jobs=2)
    model = simulate().task.build_model()
    first = evaluate.diagnose(model, name="first")
    found = evaluate.diagnose(model, name="second", compared_with=(model, first))
    assert found.linear_cka == pytest.approx(1)
    assert found.mean_principal_angle == pytest.approx(0, abs=1e-6)
    assert found.reference == "first"
    assert found.layer_singular_values == first.layer_singular_values is not None


def test_a_model_that_diverged_is_refused_from_any_thread() -> None:
    """The message says what to do."""
    evaluate, state = evaluator("evaluation.batch=6", parallel_jobs=3)
    wrong = {name: torch.full_like(w, torch.nan) for name, w in state.weights.items()}
    with pytest.raises(RunError, match=r"loss on the test images became nan; lower training\.lr"):
        evaluate(replace(state, weights=wrong))


def test_evaluating_leaves_training_unchanged() -> None:
    often = result(run(*small("evaluation.every=1")))
    seldom = result(run(*small("evaluation.every=3")))
    assert [bits for _, bits in often] == [bits for _, bits in seldom]


@pytest.mark.parametrize("engine", ["serial", "pool"])
def test_local_models_are_evaluated_by_wish_whoever_trains_them(engine: str) -> None:
    """Records are the same whichever engine ran the clients, and only rounds that are due hold local models."""
    words = ("evaluation.clients=true", "evaluation.every=2", "evaluation.batch=11", "rounds=3")
    records = list(run(*small(*words, f"engine={engine}")))
    assert [sorted(record.local_models) for record in records] == [[], [0, 1, 2, 3], [0, 1, 2, 3]]
    assert result(records) == result(run(*small(*words)))


def test_evaluating_local_models_leaves_training_unchanged() -> None:
    """Weights are the same with and without."""
    plain, watched = result(run(*small())), result(run(*small("evaluation.clients=true")))
    assert [bits for _, bits in plain] == [bits for _, bits in watched]


def test_a_single_client_is_its_own_mean() -> None:
    """With one client, its local model is the global one, in every measure."""
    (record,) = run(*small("clients=1", "partition=homogeneous", "rounds=1", "evaluation.clients=true"))
    assert record.model is not None
    assert record.local_models == {0: replace(record.model, client=0)}


def test_decisions_are_all_that_evaluations_add_to_the_spread() -> None:
    """Without classes, exactly accuracy and loss."""
    evaluate, state = evaluator()
    found = evaluate(state)
    assert [name for name in vars(DecisionMeasures()) if getattr(found, name) is not None] == ["accuracy", "loss"]
