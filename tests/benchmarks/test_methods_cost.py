"""What methods cost is measured for every one of them."""

from benchmarks import methods_cost
from feddecorr.methods import METHODS

TINY = [
    "data=synthetic", "data.train=24", "data.test=10", "data.size=8", "clients=2", "partition=homogeneous",
    "partition.minimum=2", "model=convnet", "model.widths=[4,12]", "training.epochs=2", "training.batch=6",
]  # fmt: skip


def test_every_method_is_measured() -> None:
    """FedAvg also with FedDecorr, methods with references also on augmented images, as is FedAvg."""
    found = methods_cost.measure(list(METHODS.table), repeats=1, settings=TINY)
    augmented = {f"{name}{methods_cost.AUGMENTED}" for name in ("fedavg", *methods_cost.WITH_REFERENCES)}
    assert set(found["ratio to FedAvg"]) == {*METHODS.table, *augmented, f"fedavg{methods_cost.DECORRELATED}"}
    assert all(ratio > 0 for ratio in found["ratio to FedAvg"].values())
    assert set(methods_cost.LIMITS) <= set(found["ratio to FedAvg"])
