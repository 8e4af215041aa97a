import subprocess
import sys

import outside
import pytest
import torch
from small import digest, result, small

import feddecorr
from feddecorr.runs.pipeline import run
from feddecorr.server.federation import Simulation


def imported_after(code: str) -> set[str]:
    script = f"import sys\nsys.path.insert(0, 'tests/helpers')\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not {"torch", "numpy", "pydantic", "plotly"} & imported_after("import feddecorr")


def test_training_does_not_load_the_compiler() -> None:
    """PyTorch's compiler takes as long to import as PyTorch itself; nor is anything needed that only draws."""
    loaded = imported_after("from small import small\nfrom feddecorr import run\nlist(run(*small('rounds=1')))")
    assert "torch" in loaded
    assert not {"torch._dynamo", "sympy", "plotly", "sklearn", "scipy"} & loaded


def test_the_same_experiment_gives_the_same_bits_and_another_seed_does_not() -> None:
    first, second, other = (list(run(*small(f"seed={seed}")))[-1] for seed in (0, 0, 1))
    assert digest(first.state) == digest(second.state)
    assert digest(first.state) != digest(other.state)


def test_a_record_carries_the_model() -> None:
    experiment, options = small("rounds=1")
    (record,) = feddecorr.run(experiment, options)
    model = Simulation(experiment).task.build_model()
    model.load_state_dict(record.state)
    assert record.terms.keys() == {"cross_entropy"}


def test_the_callers_settings_are_left_alone() -> None:
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    list(run(*small("rounds=1")))
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["evaluation.clients=true", "regularizers=feddecorr", "method=moon"],
        ["training.clients_per_batch=2"],
        ["training.clients_per_batch=auto", "regularizers=feddecorr"],
        ["training.precision=bf16", "engine=pool", "engine.workers=1"],
    ],
)
def test_a_run_builds_its_network_once(words: list[str]) -> None:
    """In its own process; each worker builds one, too."""
    before = outside.Counted.builds
    found = result(run(*small("model=outside:Counted", "model.widths=[8,16]", *words)))
    assert outside.Counted.builds == before + 1
    assert found == result(run(*small(*words)))


def test_it_learns() -> None:
    records = list(run(*small("rounds=8", "data.noise=1")))
    assert records[-1].accuracy is not None
    assert records[-1].accuracy > 0.8
