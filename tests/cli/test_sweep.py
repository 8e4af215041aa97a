import re
from pathlib import Path

import pytest
from command_line import CommandLine
from small import SETTINGS

TOML = """
clients = 4
rounds = 2
data = {name = "synthetic", train = 120, test = 40, classes = 4, channels = 1, size = 8}
model = {name = "convnet", widths = [8, 16]}
partition = {name = "dirichlet", minimum = 5}
training = {epochs = 1, batch = 16}

[sweep]
over = {"partition.alpha" = [0.3, 5.0], method = ["fedavg", "fedprox"]}
where = ["not (method = fedprox and partition.alpha = 5)"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(TOML)
    return Path("mine.toml")


def test_a_sweep_ends_in_a_table_of_its_combinations(feddecorr: CommandLine, file: Path) -> None:
    outcome = feddecorr("sweep", file, "--seeds", 2)
    assert outcome.code == 0
    rows = [re.split("  +", line) for line in outcome.out.splitlines()[2:5]]
    arms = [["FedAvg", "0.3", "2"], ["FedProx (μ = 0.001)", "0.3", "2"], ["FedAvg", "5.0", "2"]]
    assert [row[:3] for row in rows] == arms
    assert {path.name for path in Path("sweeps/mine").iterdir()} == {
        "runs",
        "mine",
        "mine.md",
        "mine.html",
        "plan.json",
    }
    assert len(list(Path("sweeps/mine/runs").iterdir())) == 6
    assert "by this command: `feddecorr sweep mine.toml --seeds=2`" in Path("sweeps/mine/mine.md").read_text()
    again = feddecorr("sweep", file, "--seeds", 2)
    assert again.out == outcome.out


def test_a_plan_of_the_users_is_not_replaced(feddecorr: CommandLine, file: Path) -> None:
    Path("plan.json").write_text('{"mine": 1}\n')
    refused = feddecorr("sweep", file, "--out", ".")
    assert refused.code == 2
    assert "plan.json is no plan of runs" in refused.err
    assert Path("plan.json").read_text() == '{"mine": 1}\n'


def test_the_command_line_adds_to_the_file_and_wins(feddecorr: CommandLine, file: Path) -> None:
    words = ["--over", "method=moon", "--over", "clients=2,3", "--where", "partition.alpha < 1 or clients = 3"]
    document = feddecorr("sweep", file, "rounds=1", *words, "--dry-run", "--json").document
    assert [run["name"] for run in document["runs"]] == [
        "MOON (μ = 1.0), α = 0.3, clients = 2, seed 0",
        "MOON (μ = 1.0), α = 0.3, clients = 3, seed 0",
        "MOON (μ = 1.0), α = 5.0, clients = 3, seed 0",
    ]
    assert {run["rounds"] for run in document["runs"]} == {1}
    assert not Path("sweeps").exists()


def test_a_sweep_needs_no_file(feddecorr: CommandLine, file: Path) -> None:
    words = [f"data.{key}={value}" for key, value in SETTINGS["data"].items() if key != "name"]
    outcome = feddecorr("sweep", "data=synthetic", *words, "rounds=1", "model=mlp", "--over", "clients=2", "--json")
    assert outcome.code == 0
    assert outcome.document["studies"][0]["tables"][0]["rows"][0][0] == "2"
    assert Path("sweeps/sweep/sweep.md").is_file()
    assert file.is_file()


def test_mistakes_are_named_before_any_run(feddecorr: CommandLine, file: Path) -> None:
    for words, says in {
        ("--over", "methd=a"): "did you mean 'method'?",
        ("--where", "method <"): "is no condition",
        ("rouns=3",): "did you mean 'rounds'?",
        ("sweep.wher=3",): "did you mean 'where'?",
    }.items():
        refused = feddecorr("sweep", file, *words)
        assert refused.code == 2
        assert says in refused.err
    assert not Path("sweeps").exists()
