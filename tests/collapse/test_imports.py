import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import feddecorr.collapse

FILES = sorted(Path(feddecorr.collapse.__path__[0]).glob("*.py"))
ALLOWED = {"numpy", "torch", "feddecorr.collapse", "feddecorr.loss", "feddecorr.errors"}
ONLY_IN = {"diagnosis.py": {"rich"}, "updates.py": {"rich"}, "metric.py": {"torchmetrics"}}
"""What shows a diagnosis is imported by the methods that show it, and its types for the type checker; a metric is one
of torchmetrics where that is installed.
"""


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports anywhere, `from feddecorr import spectrum` as one of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            module = str(node.module)
            yield from ([f"{module}.{each.name}" for each in node.names] if module == "feddecorr" else [module])


def is_within(module: str, allowed: set[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_measures_depend_on_nothing_above_them(path: Path) -> None:
    """Neither on settings, data, networks and clients, nor on runs and reports."""
    allowed = ALLOWED | ONLY_IN.get(path.name, set()) | sys.stdlib_module_names
    assert not [module for module in imports(ast.parse(path.read_text())) if not is_within(module, allowed)]


def test_pictures_are_loaded_when_they_are_asked_for() -> None:
    """At the top of a file, nothing that shows is imported, but for the type checker."""
    for path in FILES:
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        found = [module for node in top for module in imports(node)]
        assert not [module for module in found if is_within(module, {"rich", "plotly", "feddecorr.report"})]
