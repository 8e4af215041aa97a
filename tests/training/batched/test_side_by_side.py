from itertools import cycle

import pytest
import torch
from beside import Neighbours, gap
from plain import same

from feddecorr.errors import RunError
from feddecorr.methods import METHODS, Method
from feddecorr.objective.regularizers import REGULARIZERS
from feddecorr.server.federation import Federation

CONVNET = "data.size=8 model=convnet model.widths=[6,8] "
LENET = "data.size=28 model=lenet "
TRANSFORMER = "data.size=8 model=transformer model.width=16 model.heads=2 "

FROZEN = "model=beside_networks:frozen "
"""Not ReLU: features that hardly vary in a batch make objectives of correlations magnify rounding by themselves."""

ALL_AT_ONCE = [name for name, method in METHODS.table.items() if method.gradient is Method.gradient]

ROUNDED = [
    CONVNET + "batchnorm=pooled",
    CONVNET + "training.optimizer=adamw training.lr=0.001 data.augment=crop,flip data.channels=3",
    CONVNET + "batchnorm=local method=scaffold",
    CONVNET + "method=moon model.norm=group model.groups=2",
    TRANSFORMER,
    "model.widths=[16,12] method=feddyn",
    "model=outside:Half",
    "data.size=8 model=resnet32 model.width=0.5 model.norm=group training.steps=3 training.lr=0.001",
    FROZEN + "method=fedprox regularizers=feddecorr,decov",
]
"""What is trained in float32, too; below, only in float64."""

CASES = [
    *ROUNDED,
    CONVNET + "model.norm=group model.groups=2 training.memory_format=contiguous",
    CONVNET + "model.norm=group model.groups=2 model.weight_standardization=true",
    CONVNET + "partition=homogeneous training.max_grad_norm=0.5",
    CONVNET + "batchnorm=fixed fix_after=1 training.lr=0.001",
    CONVNET + "model.projection=6 model.head=normalized method=fedrcl",
    LENET,
    TRANSFORMER + "method=moon regularizers=feddecorr",
    "data.size=8 model=mobilenetv2 model.width=0.25 model.norm=group training.steps=2 training.lr=0.0001",
    "model.norm=batch batchnorm=pooled",
    "model.norm=layer",
    "model.head=etf",
    "model.head=layer_norm",
    "model=beside_networks:Counting",
    "model=beside_networks:Counting batchnorm=local method=fedprox",
    "model=outside:Tied",
    "data.channels=2 model=beside_networks:mapped",
    "model.widths=[]",
    "model.projection=6",
    "model=beside_networks:repeated data.size=6",
    "training.optimizer=adamw training.lr=0.001 data.augment=crop,flip data.channels=3",
    "training.max_grad_norm=0.5 training.momentum=0 training.weight_decay=0.1",
    "training.batch=1",
    "data.channels=3 partition=homogeneous",
    "method=outside:Noisy",
    "method=outside:Drawing",
    FROZEN + "regularizers=feddecorr regularizers.feddecorr.normalization=paper",
    *(
        FROZEN + f"method={method} regularizers={name}"
        for method, name in zip(ALL_AT_ONCE, cycle(REGULARIZERS.table), strict=False)
    ),
]


@pytest.mark.parametrize("words", ROUNDED)
def test_side_by_side_is_one_by_one_but_for_rounding(words: str) -> None:
    """Over eight steps in float32, whatever the sizes: weights, terms, what is sent in addition, what is remembered."""
    clients = Neighbours(*words.split())
    assert len(set(clients.simulation.shards.sizes)) > 1
    assert gap(clients.alone(range(4)), clients.together(range(4))) < 1e-5


@pytest.mark.parametrize("words", CASES)
def test_in_float64_there_is_hardly_any_rounding(words: str) -> None:
    """So nothing of one client reaches another, and nothing that fills a batch up is learned from."""
    clients = Neighbours(*words.split(), wide=True)
    everybody = clients.together(range(4))
    assert next(iter(everybody[0][0].weights.values())).dtype == torch.float64
    assert gap(clients.alone(range(4)), everybody) < 1e-12
    assert gap({0: everybody[0], 2: everybody[2]}, clients.together([0, 2])) < 1e-12


def test_every_regularizer_is_among_them() -> None:
    assert all(any(f"regularizers={name}" in words for words in CASES) for name in REGULARIZERS.table)


def test_terms_are_recorded_for_each_local_epoch() -> None:
    clients = Neighbours("evaluation.epochs=true", "regularizers=feddecorr", wide=True)
    alone, together = clients.alone(range(4)), clients.together(range(4))
    assert len({len(update.epochs["feddecorr"]) for update, _ in together.values()}) > 1
    for client, (update, _) in together.items():
        expected = alone[client][0].epochs
        assert update.epochs.keys() == expected.keys() == update.metrics.keys()
        for name, means in update.epochs.items():
            assert means == pytest.approx(expected[name], abs=1e-12)


def test_a_client_that_fails_leaves_and_the_others_do_not_notice() -> None:
    clients = Neighbours("method=outside:Failing")
    outcomes = clients.outcomes(range(4))
    assert isinstance(outcomes.pop(1), ZeroDivisionError)
    expected = clients.together([0, 2, 3])
    for client, outcome in outcomes.items():
        assert not isinstance(outcome, Exception)
        assert same(outcome[0].weights, expected[client][0].weights)


def test_a_client_that_diverges_does_so_by_itself() -> None:
    clients = Neighbours("method=outside:Exploding", wide=True)
    outcomes = clients.outcomes(range(4))
    with pytest.raises(RunError, match=r"the term '\w+' became (inf|nan) in local training"):
        raise_again(outcomes.pop(1))
    expected = clients.alone([0, 2, 3])
    assert gap({client: each for client, each in outcomes.items() if isinstance(each, tuple)}, expected) < 1e-12


def test_a_client_of_one_image_fails_by_itself_where_batchnorm_has_no_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does alone; a map of one place leaves a single value for each channel. A run refuses it at its start."""
    monkeypatch.setattr(Federation, "_refuse_single", lambda *_: None)
    words = "data.size=2 model=convnet model.widths=[4] clients=12 data.train=16 partition=homogeneous"
    clients = Neighbours(*words.split(), "partition.minimum=1", "training.steps=1", first=range(4))
    assert list(clients.simulation.shards.sizes[:5]) == [2, 2, 2, 2, 1]
    outcomes = clients.outcomes(range(5))
    for fails in (lambda: raise_again(outcomes.pop(4)), lambda: clients.alone([4])):
        with pytest.raises(ValueError, match=r"(?i)expected more than 1 value per channel"):
            fails()
    assert gap({k: each for k, each in outcomes.items() if isinstance(each, tuple)}, clients.alone(range(4))) < 1e-5


def raise_again(outcome: object) -> None:
    if isinstance(outcome, Exception):
        raise outcome


def test_a_term_that_looks_at_the_live_network_does_not_go_unnoticed() -> None:
    """It holds nobody's weights while several train."""
    outcomes = Neighbours("method=outside:Live").outcomes([0, 1])
    with pytest.raises(RunError, match="the term 'look' became nan"):
        raise_again(outcomes[0])
