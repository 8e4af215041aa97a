import subprocess
import sys

import pytest
import torch

from feddecorr.core.threads import threads

HOLD_AND_FREE = """
import psutil, torch
from feddecorr.engines.allocator import keep_freed_memory, return_freed_memory

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
