"""What no source file may do, wherever it stands."""

import ast
from pathlib import Path

import pytest

import feddecorr

ROOT = Path(feddecorr.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_unpublished_functions_of_pytorch_are_called_in_one_file_only(path: Path) -> None:
    """And modules that some platforms lack are imported only where run directories are locked, or a reader limited."""
    tree = ast.parse(path.read_text())
    private = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
        if isinstance(node.value, ast.Name) and node.value.id == "torch"
    }
    assert private == ({"_fused_sgd_", "_fused_adamw_"} if path.name == "optimizers.py" else set())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    allowed = {"core/paths.py": {"fcntl"}, "formats/arrow_process.py": {"resource"}}
    assert names & {"fcntl", "pwd", "resource", "msvcrt"} == allowed.get("/".join(path.parts[-2:]), set())
