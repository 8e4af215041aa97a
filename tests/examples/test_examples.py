import importlib.util
import re
import runpy
from pathlib import Path
from types import ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, Metadata, RecordDict

from feddecorr import DyingFeatures

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["plain_pytorch", "lightning_module", "hugging_face_trainer"])
def test_a_model_that_learns_keeps_more_dimensions_with_feddecorr(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a plain loop, in Lightning and in Hugging Face's Trainer, within a few epochs; and no feature dies.

    The scripts run in this process, which has imported the trainers already.
    """
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with catch_warnings(action="ignore"):
        simplefilter("error", DyingFeatures)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    lines = re.findall(r"beta (\S+): accuracy (\S+)%, effective rank (\S+) of", capsys.readouterr().out)
    found = {float(beta): (float(accuracy), float(rank)) for beta, accuracy, rank in lines}
    (plain, narrow), (accuracy, wide) = found[0], found[0.1]
    assert min(plain, accuracy) > 70
    assert wide > 1.1 * narrow


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module of the Flower example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("flower_client", EXAMPLES / "flower_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train_on_node(client: ModuleType, state: dict[str, Any], beta: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let Flower's ClientApp answer one training message; return the new state and the metrics."""
    torch.manual_seed(0)
    metadata = Metadata(
        run_id=1, message_id="1", src_node_id=1, dst_node_id=2, reply_to_message_id="", group_id="",
        created_at=0.0, ttl=100.0, message_type="train",
    )  # fmt: skip
    context = Context(
        run_id=1, node_id=2, node_config={"partition-id": 1, "num-partitions": 4}, state=RecordDict(),
        run_config={"beta": beta},
    )  # fmt: skip
    content = RecordDict({"arrays": ArrayRecord(state)})
    message = Message(content=content, metadata=metadata)  # type: ignore[call-overload]  # as Flower itself makes them
    reply = client.app(message, context)
    return reply.content["arrays"].to_torch_state_dict(), dict(reply.content["metrics"])


def test_a_flower_client_trains_with_feddecorr(client: ModuleType) -> None:
    """Its loss falls from round to round, and beta changes where it goes."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    state = client.build().state_dict()
    losses = []
    for _ in range(4):
        state, metrics = train_on_node(client, state, beta=0.1)
        losses.append(metrics["loss"])
    assert metrics["num-examples"] == 359
    assert losses[-1] < 0.5 * losses[0]
    other, _ = train_on_node(client, client.build().state_dict(), beta=0.0)
    assert other.keys() == state.keys()
    assert any(not torch.equal(other[name], state[name]) for name in state)
