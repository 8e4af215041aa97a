"""Collapse measured by a Flower app of one's own: what its ClientApp sends, and what its ServerApp makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from torch import nn

from feddecorr.collapse.shared_evidence import Evidence
from feddecorr.errors import RunError

BYTES = "feddecorr.evidence"
MEASURES = ("samples", "accuracy", "effective_rank", "participation_ratio")
"""What is told of the merged evidence, beside the means of what clients measured themselves."""


def evidence_record(model: nn.Module, loader: Iterable[Any], layer: str | None = None) -> ConfigRecord:
    """Return the evidence on a client's samples, as one more record of its answer; see `Evidence.of`."""
    return ConfigRecord({BYTES: Evidence.of(model, loader, layer).to_bytes()})


def average_with_spectrum(replies: list[RecordDict], weight: str) -> MetricRecord:
    """Return Flower's own means of the clients' metrics, and the measures of their merged evidence.

    It is an `evaluate_metrics_aggr_fn` of Flower's strategies.
    """
    metrics = FedAvg().evaluate_metrics_aggr_fn(replies, weight)
    records = [record.get(BYTES) for reply in replies for record in reply.config_records.values()]
    sent = [content for content in records if isinstance(content, bytes)]
    if len(sent) != len(replies):
        raise RunError(f"{len(sent)} of {len(replies)} clients sent evidence: each answer needs an evidence_record")
    diagnosis = reduce(add, map(Evidence.from_bytes, sent)).diagnosis()
    for name in MEASURES:
        metrics[f"global_{name}"] = getattr(diagnosis, name)
    return metrics
