import json
import tomllib
from pathlib import Path

import pytest
from command_line import CommandLine

from feddecorr.settings.flat import parse_settings, to_settings


def test_an_app_is_a_file_with_our_components_and_the_experiment(feddecorr: CommandLine, tmp_path: Path) -> None:
    """And nothing that a SuperLink would try to install."""
    words = ["data=nodes", "clients=3", "method=scaffold", "regularizers=feddecorr", "engine.wait=7", "rounds=4"]
    made = feddecorr("flower", "app", tmp_path / "app", *words, "--out", tmp_path / "run", "--json")
    assert (made.code, made.document["run"]) == (0, str(tmp_path / "run"))
    assert [file.name for file in (tmp_path / "app").iterdir()] == ["pyproject.toml"]
    document = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert document["project"]["dependencies"] == []
    app = document["tool"]["flwr"]["app"]
    assert set(app["components"].values()) == {"feddecorr.deployment.server_app:app", "feddecorr.flower.client_app:app"}
    experiment, options = parse_settings(json.loads(app["config"]["experiment"]))
    assert to_settings(experiment, options) == made.document["experiment"]
    assert (experiment.clients, options.engine.to_dict()["wait"], app["config"]["rounds"]) == (3, 7.0, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["app", "app", "engine=pool"], "engine=pool: an app runs on Flower"),
        (["app", "app", "method=fedavgg"], "did you mean 'fedavg'"),
        (["run", "app"], "app is not a Flower app"),
        (
            ["proxy", "127.0.0.1:1", "--ca", "no.crt", "--certfile", "no.crt", "--keyfile", "x"],
            "there is no file no.crt",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    feddecorr: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = feddecorr("flower", *words)
    assert refused.code == 2
    assert message in refused.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["pyproject.toml", "train.py", ".env"])
def test_a_folder_of_the_users_is_no_app(feddecorr: CommandLine, tmp_path: Path, name: str) -> None:
    """Its pyproject.toml is kept, and its files are not sent to the nodes."""
    (tmp_path / name).write_text('[project]\nname = "thesis"\n')
    refused = feddecorr("flower", "app", tmp_path, "clients=2")
    assert refused.code == 2
    assert f"{tmp_path} holds '{name}'" in refused.err
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(name, '[project]\nname = "thesis"\n')]


def test_an_app_replaces_an_earlier_one(feddecorr: CommandLine, tmp_path: Path) -> None:
    for clients in (2, 3):
        assert feddecorr("flower", "app", tmp_path / "app", f"clients={clients}").code == 0
    document = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert json.loads(document["tool"]["flwr"]["app"]["config"]["experiment"])["clients"] == 3
