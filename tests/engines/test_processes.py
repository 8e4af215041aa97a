import gc
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from feddecorr.core.randomness import threads
from feddecorr.engines.processes import context

HOLD_AND_FREE = """
import psutil, torch
from feddecorr.engines.processes import keep_freed_memory, return_freed_memory

def resident():
    return psutil.Process().memory_info().rss / 2**20

keep_freed_memory()
before = resident()
held, later = torch.ones(2**25), torch.ones(2**10)  # 128 MB, and something on top of it
del held
print(resident() - before)
return_freed_memory()
print(resident() - before)
"""


def test_workers_can_start_before_pytorch_is_imported() -> None:
    """Their imports and those of the command that starts them go on at the same time."""
    code = "import sys, feddecorr.engines.processes; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_threads_are_set_for_a_while() -> None:
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the allocator of glibc")
def test_freed_memory_is_kept_until_it_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", HOLD_AND_FREE], capture_output=True, text=True, check=True)
    kept, left = map(float, done.stdout.split())
    assert kept > 120
    assert left < 20


def count_frozen(connection: object) -> None:
    """Send the number of objects that garbage collection ignores."""
    connection.send(gc.get_freeze_count())  # type: ignore[attr-defined]  # an end of a pipe


def test_garbage_collection_ignores_what_workers_share() -> None:
    """A collection writes to every object, and so would copy what the fork server has imported."""
    mine, theirs = context().Pipe()
    process = context().Process(target=count_frozen, args=(theirs,))
    process.start()
    assert mine.recv() > 10_000
    process.join()


UNGUARDED = """
import feddecorr

class Mine(feddecorr.Method):
    "A method of a script."

def train():
    data = {"name": "synthetic", "train": 60, "test": 20, "classes": 2, "channels": 1, "size": 4}
    experiment = feddecorr.Experiment(data=data, clients=2, partition={"minimum": 5}, model="mlp", method=Mine())
    options = feddecorr.RunOptions(rounds=1, engine={"name": "pool", "workers": 1})
    print(*(record.round for record in feddecorr.run(experiment, options)))

"""


@pytest.mark.parametrize(
    ("end", "way", "said"),
    [
        ("train()", "file", "put what it does under `if __name__ == '__main__':`"),
        ("if __name__ == '__main__':\n    train()", "file", "1"),
        ("train()", "prompt", "Mine: defined in a notebook or at the prompt"),
    ],
)
def test_a_script_s_own_kinds_are_found_by_workers_or_it_is_told_what_to_change(
    tmp_path: Path, end: str, way: str, said: str
) -> None:
    """In one sentence, and with nothing from the workers: they import the script, and must not start runs."""
    (tmp_path / "script.py").write_text(UNGUARDED + end)
    words = ["script.py"] if way == "file" else ["-c", UNGUARDED + end]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said in (done.stdout if said == "1" else done.stderr.splitlines()[-1])
    assert done.stderr.count("Traceback") == (said != "1")
