from pathlib import Path

import pytest

from feddecorr.sweeps import available_memory
from feddecorr.sweeps.available_memory import ASSUMED, MemoryWatch, peak_memory

GIGABYTE = 1 << 30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a machine with 8 GB to be had, and a folder for a control group's files."""
    (tmp_path / "meminfo").write_text("MemTotal:  16777216 kB\nMemFree:  1024 kB\nMemAvailable:  8388608 kB\n")
    return tmp_path


def test_the_machine_says_what_can_be_had(machine: Path) -> None:
    assert available_memory.available_memory(machine / "meminfo", machine) == 8 * GIGABYTE


def test_a_containers_limit_counts_if_it_leaves_less(machine: Path) -> None:
    """What its cache of files holds can be dropped, and counts as free."""
    (machine / "memory.max").write_text(f"{4 * GIGABYTE}\n")
    (machine / "memory.current").write_text(f"{3 * GIGABYTE}\n")
    (machine / "memory.stat").write_text(f"anon 5\ninactive_file {GIGABYTE}\nactive_file 7\n")
    assert available_memory.available_memory(machine / "meminfo", machine) == 2 * GIGABYTE
    (machine / "memory.max").write_text("max\n")
    assert available_memory.available_memory(machine / "meminfo", machine) == 8 * GIGABYTE


def test_where_the_system_says_nothing_memory_is_not_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_memory.available_memory(tmp_path / "nothing", tmp_path) is None
    assert peak_memory(tmp_path / "nothing") == 0
    monkeypatch.setattr(available_memory, "available_memory", lambda: None)
    assert not MemoryWatch().is_short([0, 0])


def test_a_run_begins_if_all_others_can_still_grow_to_the_largest_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available_memory, "available_memory", lambda: 4 * GIGABYTE)
    watch = MemoryWatch()
    assert not watch.is_short([0, 0])  # 1 GB is assumed for each
    watch.learn(2 * GIGABYTE)
    assert not watch.is_short([GIGABYTE])  # 1 to grow, 2 to begin
    assert watch.is_short([GIGABYTE // 4, GIGABYTE // 2])
    assert not watch.is_short([GIGABYTE // 4, GIGABYTE // 2], kept=2 * GIGABYTE - ASSUMED // 4)
    assert not watch.is_short([])  # alone, it must be tried


def test_a_process_knows_its_peak() -> None:
    assert peak_memory() > 1 << 20
