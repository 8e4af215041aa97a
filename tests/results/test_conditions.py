import math

import pytest

from feddecorr.errors import UserError
from feddecorr.results.conditions import Condition

SETTINGS = {
    "method": "moon",
    "partition.alpha": 0.1,
    "rounds": 20,
    "method.mu": None,
    "evaluation.clients": True,
    "training.lr": 0.01,
    "method.lr": None,
    "training.threads": 1,
    "evaluation.threads": 2,
    "regularizers.feddecorr": {},
    "regularizers": "feddecorr",
}


@pytest.mark.parametrize(
    "text",
    [
        "method = moon",
        "method == 'moon'",
        "method != fedavg and partition.alpha <= 0.1",
        "method = fedavg or rounds > 10",
        "not (method = fedavg)",
        "method in [fedavg, moon] and rounds not in (1, 2)",
        "0.05 < partition.alpha < 0.5",
        "partition.alpha < inf",
        "rounds > -1",
        "evaluation.clients = true",
        "method.mu != 5",
        "evaluation.clients",
        "alpha = 0.1 and lr < 0.1",
        "regularizers = feddecorr",
    ],
)
def test_what_holds_holds_and_its_contrary_does_not(text: str) -> None:
    assert Condition(text).holds(SETTINGS)
    assert not Condition(f"not ({text})").holds(SETTINGS)


@pytest.mark.parametrize(
    "text", ["method.mu > 0", "method.mu <= 0", "method.mu = 5", "mu > 0", "rounds = 3", "method.mu"]
)
def test_a_setting_that_is_not_there_is_neither_equal_nor_less_nor_greater(text: str) -> None:
    assert not Condition(text).holds(SETTINGS)


def test_infinity_is_a_word_in_records() -> None:
    assert Condition("partition.alpha = inf").holds({"partition.alpha": "inf"})
    assert Condition("partition.alpha = inf").holds({"partition.alpha": "Infinity"})
    assert Condition("partition.alpha > 3").holds({"partition.alpha": math.inf})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("method =", "is no condition"),
        ("partition.alhpa < 1", "no combination here has a setting 'partition.alhpa'"),
        ("method = moon or partition.alhpa < 1", "no combination here has a setting 'partition.alhpa'"),
        ("method", "'method' is neither true nor false"),
        ("acc", "'acc' is neither true nor false"),
        ("not rounds", "'rounds' is neither true nor false"),
        ("threads = 1", "'threads' could be training.threads or evaluation.threads: say which"),
        ("rounds < many", "20 and 'many' cannot be compared so"),
        ("__import__('os')", "is not understood"),
        ("rounds is 20", "cannot be compared so"),
        ("[n for n in rounds]", "is not understood"),
    ],
)
def test_a_mistake_is_named(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says.replace("(", r"\(")):
        Condition(text).holds(SETTINGS)
