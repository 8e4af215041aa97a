import subprocess
import sys

LAST = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0))  # what is registered first comes last
sys.argv = ["feddecorr", "list", "engine"]
from feddecorr.__main__ import main
main()
"""


def test_a_command_ends_without_looking_for_garbage() -> None:
    """Nothing else is left out: what is to be done in the end is done."""
    done = subprocess.run([sys.executable, "-c", LAST], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"
