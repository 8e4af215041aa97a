"""The package is built as the README's source tree says: modules import upwards only, and one name has one meaning."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pages import ROOT, Page

SOURCE = ROOT / "src" / "feddecorr"
FRONT_DOORS = {"feddecorr", "feddecorr.__main__", "feddecorr.lightning", "feddecorr.transformers"}
"""What users start from: they lead to every room, and no room imports them."""

LAZY_ROOMS = ("feddecorr.cli", "feddecorr.paper.commands")
"""Where imports within functions keep `--help` fast."""

PLATFORM_MODULES = {"fcntl", "msvcrt", "pwd", "resource"}
"""Modules of the standard library that some platforms lack."""
PARTS_OF_EXTRAS = {"multiprocessing.forkserver", "torch.utils.tensorboard"}
"""Modules of packages that are always there, which need a platform or an extra themselves."""

TORCH_ALONE = {"loss", "collapse"}
"""Rooms that need no package but PyTorch: every other one is optional there."""


@dataclass(frozen=True)
class Import:
    """A module that a line of another one imports; `lazy` if the line is within a function."""

    module: str
    line: int
    lazy: bool


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return the syntax trees of all modules of the package, by full names."""
    return {name_of(path): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports_of(tree: ast.Module, known: Iterable[str]) -> Iterator[Import]:
    """Yield all imports, wherever they stand: of a known module's name, the module; of a submodule, the submodule."""
    lazy = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names):
                parts = [f"{module}.{alias.name}" for alias in names]
                found = [part if part in known else module for part in parts]
            case ast.Call(
                func=ast.Name(id=("import_module" | "__import__")), args=[ast.Constant(value=str(module)), *_]
            ):
                found = [module]
            case _:
                continue
        yield from (Import(module, node.lineno, node in lazy) for module in dict.fromkeys(found))


@cache
def imports() -> Mapping[str, tuple[Import, ...]]:
    """Return what each module of the package imports."""
    return {name: tuple(imports_of(tree, modules())) for name, tree in modules().items()}


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected parts that hold a cycle, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for after in sorted(graph.get(node, ())):
            if after not in index:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], index[after])
        if low[node] == index[node]:
            at = stack.index(node)
            part = sorted(stack[at:])
            del stack[at:]
            if len(part) > 1 or node in graph.get(node, ()):
                found.append(part)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def source_tree() -> list[str]:
    """Return the rooms and files that the README lists, in its order."""
    blocks = Page.read(ROOT / "README.md").blocks
    (tree,) = [block.text for block in blocks if block.text.startswith("src/feddecorr/\n")]
    lines = tree.splitlines()[1:]
    names = [re.match(r"(\s+\w+(/|\.py)(?=\s|$))*", line) for line in lines]
    return [name for found in names if found for name in found[0].split()]


def room_of(module: str) -> str:
    """Return the first folder of a module, or the module, below the package: 'data', 'errors'."""
    return module.split(".")[1] if "." in module else ""


def listing(offenders: Iterable[str]) -> str:
    return "\n".join(sorted(offenders))


def test_the_readme_lists_all_rooms_and_nothing_else() -> None:
    there = {f"{path.name}/" for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    there |= {path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__")}
    assert sorted(source_tree()) == sorted(there)


def test_no_modules_import_each_other() -> None:
    """Neither directly nor in a circle, and imports in functions and for types alone count."""
    graph = {name: {each.module for each in found} & set(modules()) for name, found in imports().items()}
    found = [" <-> ".join(part) for part in cycles(graph)]
    assert not found, listing(found)


def test_a_room_imports_only_rooms_above_it() -> None:
    """In the order of the README's source tree. Single files stand above all rooms."""
    rooms = [name.removesuffix("/") for name in source_tree() if name.endswith("/")]
    order = {room: place for place, room in enumerate(rooms, start=1)}
    wrong = []
    for name, found in imports().items():
        if name in FRONT_DOORS:
            continue
        for each in found:
            if each.module not in modules():
                continue
            if each.module in FRONT_DOORS or order.get(room_of(each.module), 0) > order.get(room_of(name), 0):
                wrong.append(f"{name}:{each.line} imports {each.module}")
    assert not wrong, listing(wrong)


def definitions(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names of classes and type aliases; of aliases, also what they stand for."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield name, "a class"
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp(op=ast.BitOr()) as value):
                pass
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
            ):
                pass
            case _:
                continue
        if re.fullmatch(r"_?[A-Z]\w*[a-z]\w*", name):
            yield name, ast.unparse(value)


def test_a_name_of_a_class_or_type_has_one_meaning() -> None:
    """In the whole package, with or without a leading underscore; an alias may be written out again."""
    found = defaultdict(list)
    for module, tree in modules().items():
        for name, meaning in definitions(tree):
            found[name.removeprefix("_")].append((module, meaning))
    wrong = [
        f"{name}: {', '.join(f'{module} ({meaning})' for module, meaning in homes)}"
        for name, homes in found.items()
        if len(homes) > 1 and (len({meaning for _, meaning in homes}) > 1 or homes[0][1] == "a class")
    ]
    assert not wrong, listing(wrong)


def optional_packages() -> tuple[set[str], set[str]]:
    """Return what `pip install feddecorr[simulation]` adds to PyTorch, and what the other extras add to that."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {
        extra: {Requirement(word).name.replace("-", "_").lower() for word in words} - {"feddecorr"}
        for extra, words in extras.items()
        if extra not in ("all", "dev", "docs", "examples")
    }
    simulation = names.pop("simulation")
    return simulation, set().union(*names.values())


def needed_at_import(module: str, known: set[str]) -> set[str]:
    """Return the packages that importing a module of ours imports."""
    if module in known:
        return set()
    known.add(module)
    tops = set()
    for each in imports().get(module, ()):
        if not each.lazy:
            tops |= needed_at_import(each.module, known) if each.module in modules() else {each.module.split(".")[0]}
    return tops


def test_only_optional_packages_are_imported_lazily() -> None:
    """Or ours that need one at import; besides, commands import what is heavy when they run."""
    simulation, extras = optional_packages()
    imported_as = {"mlflow_skinny": "mlflow"}
    wrong = []
    for name, found in imports().items():
        if name in FRONT_DOORS or name.startswith(LAZY_ROOMS):
            continue
        optional = {imported_as.get(name, name) for name in extras} | PLATFORM_MODULES
        optional |= simulation if room_of(name) in TORCH_ALONE else set()
        already = needed_at_import(name, set())
        for each in found:
            if each.module in PARTS_OF_EXTRAS:
                continue
            top = each.module.split(".")[0]
            needs = needed_at_import(each.module, set()) - already if each.module in modules() else {top}
            if each.lazy and not needs & optional:
                wrong.append(f"{name}:{each.line} imports {each.module} within a function")
    assert not wrong, listing(wrong)


def homes(names: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Return in which modules each name occurs."""
    found = defaultdict(list)
    for module, there in names.items():
        for name in sorted(there):
            found[name].append(module)
    return dict(found)


def test_unpublished_functions_of_pytorch_are_called_in_one_file_only() -> None:
    used = {
        module: {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "torch"
        }
        for module, tree in modules().items()
    }
    found = homes(used)
    assert set(found) <= {"_fused_sgd_", "_fused_adamw_"}, found
    assert len({module for places in found.values() for module in places}) == 1, found


def test_a_module_that_some_platforms_lack_is_imported_in_one_file_only() -> None:
    found = homes({name: {each.module for each in found} & PLATFORM_MODULES for name, found in imports().items()})
    assert set(found) <= {"fcntl", "resource"}, found
    assert all(len(places) == 1 for places in found.values()), found


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c"]]),
        ({"a": {"a"}}, [["a"]]),
    ],
)
def test_cycles_are_found(graph: dict[str, set[str]], found: list[list[str]]) -> None:
    assert cycles(graph) == found


def test_imports_are_found_wherever_they_stand() -> None:
    code = """
from typing import TYPE_CHECKING
from p import a, value
if TYPE_CHECKING:
    import p.b
def f():
    from p.c import name
class C:
    def g(self):
        return import_module("p.d")
"""
    found = {each.module: each.lazy for each in imports_of(ast.parse(code), {"p", "p.a", "p.b", "p.c", "p.d"})}
    assert found == {"typing": False, "p.a": False, "p": False, "p.b": False, "p.c": True, "p.d": True}
