"""States in shared memory, and the error if there is too little: one sentence with what is short and what helps."""

import errno
import os
import re
import shutil
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from small import simulate, write_settings

from feddecorr.core.client_memory import Memories
from feddecorr.core.messages import Broadcast
from feddecorr.core.paths import InnerPath
from feddecorr.core.states import State
from feddecorr.engines import shared_memory
from feddecorr.engines.pool import Pool
from feddecorr.engines.shared_memory import SharedStates, StateLayout
from feddecorr.errors import RunError


def refuse(number: int) -> object:
    """Return what fails as PyTorch does."""

    def fail(_: torch.Tensor) -> None:
        said = f"unable to allocate shared memory(shm) for file </torch_1>: {os.strerror(number)} ({number})"
        raise RuntimeError(said)

    return fail


@pytest.mark.parametrize("size", [4_000_000, 64_000_000])
def test_too_little_shared_memory_is_counted(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse(errno.ENOSPC))
    monkeypatch.setattr(shared_memory, "SHARED_MEMORY", Path.cwd())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (size, size - 1_500_000, 1_500_000))
    with pytest.raises(RunError, match="docker run") as caught:
        SharedStates(StateLayout.of({"weights": {"w": torch.zeros(25_000_000)}}))
    assert f"needs 100.0 MB more of shared memory: {Path.cwd()} has 1.5 of {size / 1e6:.1f} MB left" in str(
        caught.value
    )
    (wanted,) = re.findall(r"docker run --shm-size=(\d+)m", str(caught.value))
    assert int(wanted) * 1e6 > size - 1.5e6 + 4 * 100e6 > int(wanted) / 2 * 1e6
    assert "engine=serial" in str(caught.value)


def test_other_shortages_say_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse(errno.EMFILE))
    simulation = simulate()
    with pytest.raises(RunError, match=r"ulimit -n"):
        Pool().open(simulation.task, simulation.shards, Memories(Path())).__enter__()


class Full(Memories):
    """On a disk without room."""

    def save(self, client: int, now: int, memory: State) -> None:  # noqa: ARG002 - as it is called
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"/full/{client}")


def test_a_worker_s_full_disk_is_no_lack_of_memory(tmp_path: Path) -> None:
    """It ends the run, as in this process, whatever is to be done about clients that are missing."""
    simulation = simulate("missing=continue")
    said = r"/full/\d: No space left on device \(make room on that disk\)"
    opened = Pool(workers=2).open(simulation.task, simulation.shards, Full(InnerPath(tmp_path)))
    with opened as run_clients, pytest.raises(RunError, match=said):
        list(run_clients(Broadcast.of(1, simulation.federation.start()), [0, 1, 2, 3]))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("files", [8, 16, 20, 24])
def test_few_open_files_end_a_run_without_a_traceback(files: int, tmp_path: Path) -> None:
    settings = write_settings(tmp_path / "small.json")
    words = f"{settings} rounds=1 engine=pool engine.workers=2 --out {tmp_path / 'run'}"
    command = f"ulimit -n {files}; exec {sys.executable} -P -m feddecorr run {words}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)  # noqa: S607 - from the path
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or re.search(r"error: .*ulimit -n", done.stderr.splitlines()[-1])


def test_states_come_back_as_they_went_in() -> None:
    """Whatever their types, shapes and memory formats."""
    sections = {
        "weights": {"a": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), "b": torch.randn(7)[::2]},
        "buffers": {"count": torch.tensor(3), "flags": torch.tensor([True, False]), "none": torch.empty(0)},
        "extra": {},
    }
    shared = SharedStates(StateLayout.of(sections))
    shared.fill(sections)
    back = shared.states
    assert back.keys() == sections.keys()
    for section, state in sections.items():
        assert back[section].keys() == state.keys()
        for name, tensor in state.items():
            assert torch.equal(back[section][name], tensor)
            assert back[section][name].dtype == tensor.dtype
    assert back["weights"]["a"].is_contiguous(memory_format=torch.channels_last)


def test_tensors_never_overlap() -> None:
    state = {str(size): torch.full((size,), float(size)) for size in range(1, 40)}
    views = SharedStates(StateLayout.of({"all": state})).states["all"]
    for name, view in views.items():
        view.fill_(float(name))
    assert all(torch.equal(views[name], tensor) for name, tensor in state.items())


def test_what_lies_in_its_place_is_not_copied() -> None:
    """And whatever does not is written."""
    state = {"a": torch.randn(3, 4), "b": torch.randn(5)}
    shared = SharedStates(StateLayout.of({"all": state}))
    shared.fill({"all": state})
    before = shared.flat._version
    shared.fill(shared.states)
    assert shared.flat._version == before
    there = shared.states["all"]
    shared.fill({"all": {"a": there["a"], "b": state["b"] + 1}})
    assert torch.equal(there["a"], state["a"])
    assert torch.equal(there["b"], state["b"] + 1)


def test_shared_states_arrive_as_the_same_memory() -> None:
    state = {"a": torch.zeros(3)}
    shared = SharedStates(StateLayout.of({"all": state}))
    arrived = ForkingPickler.loads(ForkingPickler.dumps(shared))
    shared.states["all"]["a"].fill_(1.0)
    assert torch.equal(arrived.states["all"]["a"], torch.ones(3))


def test_only_tensors_of_the_same_names_types_shapes_and_formats_fit() -> None:
    """Then their layout would be the same; gaps between their numbers do not matter."""
    image = torch.randn(2, 3, 4, 5)
    shared = SharedStates(StateLayout.of({"all": {"a": image, "b": torch.randn(4)}}))
    assert shared.fits({"all": {"b": torch.randn(8)[::2], "a": image + 1}})
    others = {
        "name": {"a": image, "c": torch.randn(4)},
        "type": {"a": image, "b": torch.randn(4).double()},
        "shape": {"a": image, "b": torch.randn(5)},
        "format": {"a": image.to(memory_format=torch.channels_last), "b": torch.randn(4)},
        "more": {"a": image, "b": torch.randn(4), "c": torch.randn(4)},
    }
    assert not [what for what, state in others.items() if shared.fits({"all": state})]
