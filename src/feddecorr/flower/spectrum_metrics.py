"""Collapse metrics for your own Flower app: a record for its ClientApp, and an aggregation for its ServerApp."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from torch import nn

from feddecorr.core.checks import printable
from feddecorr.core.evidence import Evidence
from feddecorr.errors import UserError

BYTES = "feddecorr.evidence"
MEASURES = ("samples", "accuracy", "effective_rank", "participation_ratio")
"""The metrics of the merged evidence, in addition to the means of the clients' own metrics."""


def evidence_record(model: nn.Module, loader: Iterable[Any], layer: str | None = None) -> ConfigRecord:
    """Return the evidence on a client's samples, as one more record of its reply; see `Evidence.of`."""
    return ConfigRecord({BYTES: Evidence.of(model, loader, layer).to_bytes()})


def average_with_spectrum(replies: list[RecordDict], weight: str) -> MetricRecord:
    """Return Flower's own means of the clients' metrics, and the metrics of their merged evidence.

    It is an `evaluate_metrics_aggr_fn` for Flower's strategies. A client without valid evidence is left out of the
    merged metrics only; `global_clients` counts those included.
    """
    metrics = FedAvg().evaluate_metrics_aggr_fn(replies, weight)
    found = _agreeing([evidence for reply in replies if (evidence := _read(reply)) is not None])
    metrics["global_clients"] = len(found)
    if len(found) < len(replies):
        logging.getLogger("flwr").warning(
            "feddecorr: %d of %d clients sent no valid evidence", len(replies) - len(found), len(replies)
        )
    if found:
        diagnosis = reduce(add, found).diagnosis()
        merged = {f"global_{name}": getattr(diagnosis, name) for name in MEASURES}
        metrics.update({name: value for name, value in merged.items() if value is not None})
    return metrics


def _read(reply: RecordDict) -> Evidence | None:
    """Return the evidence of a reply; None if there is no valid one."""
    for record in reply.config_records.values():
        content = record.get(BYTES)
        try:
            if isinstance(content, bytes):
                return Evidence.from_bytes(content)
        except UserError as error:
            logging.getLogger("flwr").warning("feddecorr: evidence was refused: %s", printable(str(error)))
    return None


def _agreeing(found: Sequence[Evidence]) -> list[Evidence]:
    """Return those of the most common feature width, since the network is unknown here; one sample has no spread."""
    widths = Counter(len(evidence.moments.mean) for evidence in found)
    agreed = [evidence for evidence in found if len(evidence.moments.mean) == widths.most_common(1)[0][0]]
    return agreed if sum(evidence.moments.count for evidence in agreed) > 1 else []
