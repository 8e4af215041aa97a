"""Collapse metrics for your own Flower app: a record for its ClientApp, and an aggregation for its ServerApp."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from operator import add
from typing import Any, Self

from flwr.app import ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.serverapp.strategy import FedAvg
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from feddecorr.collapse.representation import Representations, capture_representations
from feddecorr.collapse.statistics import Moments
from feddecorr.core.checks import printable
from feddecorr.core.evidence import Evidence
from feddecorr.errors import UserError

BYTES = "feddecorr.evidence"
MEASURES = ("samples", "accuracy", "effective_rank", "participation_ratio")
"""The metrics of the merged evidence, in addition to the means of the clients' own metrics."""


def evidence_record(model: nn.Module, loader: Iterable[Any], layer: str | None = None) -> ConfigRecord:
    """Return the evidence on a client's samples, as one more record of its reply; see `Evidence.of`."""
    return ConfigRecord({BYTES: Evidence.of(model, loader, layer).to_bytes()})


def evidence_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Add the evidence to the reply to an evaluation: `ClientApp(mods=[evidence_mod])`, and no other line.

    It watches the network that the app evaluates, in its own forward passes: no sample goes through it twice. Labels
    are not seen, so the merged metrics have no accuracy of their own.
    """
    if message.metadata.message_type.partition(".")[0] != MessageType.EVALUATE:
        return call_next(message, context)
    with _Watch() as watch:
        reply = call_next(message, context)
    if watch.found and reply.has_content():
        reply.content["feddecorr.evidence"] = ConfigRecord({BYTES: watch.evidence().to_bytes()})
    return reply


class _Watch:
    """Sees the representations of every network that is evaluated in this process while it is open."""

    def __init__(self) -> None:
        self.found: dict[nn.Module, Evidence] = {}
        self._depth = 0
        self._seen: Representations | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._hooks = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for hook in self._hooks:
            hook.remove()

    def evidence(self) -> Evidence:
        """Return that of the one network that was evaluated."""
        if len(self.found) > 1:
            raise UserError(
                f"{len(self.found)} networks were evaluated: in place of evidence_mod, choose one by "
                "content['evidence'] = evidence_record(model, loader)"
            )
        return next(iter(self.found.values()))

    def _begin(self, module: nn.Module, _inputs: object) -> None:
        if self._depth == 0 and not module.training:
            with suppress(UserError):  # of a loss, for example, which has no classifier
                self._seen = self._open.enter_context(capture_representations(module))
        self._depth += 1

    def _end(self, module: nn.Module, _inputs: object, _output: object) -> None:
        self._depth -= 1
        if self._depth > 0 or self._seen is None:
            return
        seen, self._seen = self._seen, None
        self._open.close()
        with suppress(UserError):  # of a pass in which the classifier was not called
            one = Evidence(Moments.of(seen.z.detach()))
            self.found[module] = self.found[module] + one if module in self.found else one


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
