import sys

import pytest
from command_line import CommandLine
from stand_in import NAME

QUICK = "data.size=8 data.train=64 data.test=20 clients=2 model.widths=[8,16] evaluation.measures=stand_in:Registers"


@pytest.mark.parametrize("device", ["cpu", NAME])
def test_the_laws_hold_on_a_device(feddecorr: CommandLine, device: str) -> None:
    found = feddecorr("selftest", "--device", device, "--json", *QUICK.split()).document
    assert [law["holds"] for law in found["laws"]] == [True, True, True, True, None, None]
    assert found["environment"]["kind"] == device


def test_a_law_that_does_not_hold_is_a_failure(feddecorr: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["feddecorr.cli.selftest"], "ROUNDING", -1.0)
    answer = feddecorr("selftest", *QUICK.split())
    assert answer.code == 1
    assert "three steps have the processor's numbers" in answer.err
