"""A Flower app of somebody else's: evidence that is missing or junk costs the evidence, not the training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from torch import nn

from feddecorr import diagnose
from feddecorr.core.evidence import Evidence
from feddecorr.flower.spectrum_metrics import BYTES, average_with_spectrum, evidence_record

MODEL = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
OTHER = nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3))


def part(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what one client holds."""
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(20, 6, generator=stream), torch.randint(3, (20,), generator=stream)


def reply(evidence: ConfigRecord | None) -> RecordDict:
    """Return what a client answers."""
    records: dict[str, Any] = {"metrics": MetricRecord({"eval_acc": 0.5, "num-examples": 20})}
    return RecordDict(records if evidence is None else {**records, "evidence": evidence})


JUNK: dict[str, ConfigRecord | None] = {
    "none": None,
    "no bytes": ConfigRecord({BYTES: "text"}),
    "other bytes": ConfigRecord({BYTES: b"anything"}),
    "another width": evidence_record(OTHER, [part(9)]),
    "too large": ConfigRecord(
        {BYTES: Evidence.from_state(Evidence.of(MODEL, [part(9)]).to_state()).to_bytes().replace(b"mean", b"mane")}
    ),
}


@pytest.mark.parametrize("name", JUNK)
def test_evidence_that_is_missing_or_junk_is_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The measures are those of the others, and the log says how many are left out."""
    replies = [reply(evidence_record(MODEL, [part(0)])), reply(JUNK[name]), reply(evidence_record(MODEL, [part(1)]))]
    with caplog.at_level("WARNING", logger="flwr"):
        found = average_with_spectrum(replies, "num-examples")
    whole = diagnose(MODEL, [part(0), part(1)])
    assert found["global_samples"] == 40
    assert found["global_clients"] == 2
    assert found["global_accuracy"] == whole.accuracy
    assert found["global_effective_rank"] == pytest.approx(whole.effective_rank, rel=1e-4)
    assert found["eval_acc"] == 0.5
    assert "1 of 3 clients" in caplog.text


def test_no_evidence_at_all_leaves_flowers_own_metrics() -> None:
    found = average_with_spectrum([reply(None), reply(None)], "num-examples")
    assert found["eval_acc"] == 0.5
    assert found["global_clients"] == 0
    assert "global_effective_rank" not in found


def test_evidence_without_labels_or_with_one_sample_has_no_accuracy_or_no_spread() -> None:
    unlabelled = average_with_spectrum([reply(evidence_record(MODEL, [part(0)[0]]))], "num-examples")
    assert "global_accuracy" not in unlabelled
    assert unlabelled["global_samples"] == 20
    one = average_with_spectrum([reply(evidence_record(MODEL, [part(0)[0][:1]]))], "num-examples")
    assert one["global_clients"] == 0
