"""What the commands of the theory found, as `docs/theory` keeps it."""

from __future__ import annotations

from typing import Any

from benchmarks.quotes.records import record, table


def _result(name: str) -> Any:
    return record(f"docs/theory/{name}/result.json")


def by_layers() -> str:
    """Return how exact the theorem, the lemma and what they assume are, of the larger of two flows, by layers."""
    rows = []
    for layers in range(1, 6):
        flows = record(f"docs/theory/layers/{layers}.json")["flows"].values()
        errors = [max(flow["errors"][of] for flow in flows) for of in ("theorem", "theorem_by_differences", "lemma2")]
        drifts = [max(flow[of] for flow in flows) for of in ("drift_of_constants", "imbalance_of_layers")]
        rows.append([str(layers), *(f"{number:.1e}" if number else "0" for number in (*errors, *drifts))])
    head = ("L", "theorem, chain rule", "theorem, differences", "Lemma 2", "drift of M", "drift of balance")
    return table(head, rows)


def as_printed(name: str) -> str:
    """Return how far the theorem is off with G as the paper prints it."""
    found = {flow: each["total_error_as_printed"] for flow, each in _result(name)["flows"].items()}
    ends = " and ".join(f"{100 * each['end']:.0f} % ({flow})" for flow, each in found.items())
    return f"by {100 * found['balanced']['start']:.0f} % of all growth at the start and by {ends} at the end"


def ranks(name: str) -> str:
    """Return the ranks by the number of frequent classes."""
    rows = []
    for step in _result(name)["steps"]:
        found = [f"{step['effective_rank'][of]:.2f}" for of in ("gradient", "product", "covariance")]
        rows.append([str(step["frequent"]), *found, str(step["grown"]), f"{step['mean_loss']:.4f}"])
    return table(("frequent classes", "G at the start", "Π at the end", "Σ at the end", "grown", "loss"), rows)


def random_start(name: str) -> str:
    """Return how alignment and the theorem's error go from a start that is not aligned."""
    rows = []
    for flow, found in _result(name)["flows"].items():
        aligned, growing, error = found["alignment"], found["alignment_of_growth"], found["total_error"]
        rows.append(
            [
                flow,
                f"{aligned['start']:.2f} to {aligned['end']:.2f}",
                f"{growing['start']:.2f} to {growing['end']:.5f}",
                f"{error['start']:.2f} to {error['end']:.4f}",
                f"{found['errors']['theorem']:.1f}",
                f"{found['errors']['lemma2']:.1e}",
            ]
        )
    head = ("flow", "alignment of all pairs", "weighted by growth", "theorem's error, in total", "of the worst k")
    return table((*head, "Lemma 2's error"), rows)


def alignment(name: str) -> str:
    """Return alignment in training, by epoch."""
    rows = [
        [
            str(found["epoch"]),
            f"{found['score']:.3f}",
            f"{found['score_of_learned']:.3f}",
            f"{found['imbalance_of_layers']:.2f}",
            f"{found['test_loss']:.4f}",
            f"{found['test_accuracy']:.3f}",
        ]
        for found in _result(name)["epochs"]
    ]
    return table(("epoch", "alignment", "of the first 9", "layers' imbalance", "test loss", "test accuracy"), rows)


def decorrelated(name: str) -> str:
    """Return what FedDecorr does to the flow."""
    rows = []
    for flow, found in _result(name)["flows"].items():
        smallest, rank = found["smallest_singular_value"], found["effective_rank"]
        rows.append(
            [
                f"{flow} the term",
                f"{smallest['start']:.3f} to {smallest['end']:.3f}",
                f"{rank['product']:.2f}",
                f"{rank['covariance']:.2f}",
                f"{found['mean_loss']:.4f}",
                f"{found['lemma2_error']:.1e}",
            ]
        )
    return table(("flow", "smallest σ_k", "rank of Π", "rank of Σ", "loss", "Lemma 2's error"), rows)
