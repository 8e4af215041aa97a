import subprocess
import sys

SCRIPT = """
import pkgutil, sys
from importlib import import_module
import feddecorr.report
for found in pkgutil.iter_modules(feddecorr.report.__path__):
    import_module(f"feddecorr.report.{found.name}")
print(*sys.modules)
"""


def test_pages_know_nothing_of_the_theory() -> None:
    """Studies hand over plain values; all modules of the report load none of the theory's."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "feddecorr.report.page" in loaded
    assert not {name for name in loaded if name.startswith("feddecorr.paper.theory")}
