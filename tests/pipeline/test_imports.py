"""The modules of customops/ import each other in one direction only, imports inside functions included."""

import ast
import graphlib

import pytest


def imported(path, modules, ops):
    """Which of `modules` a module imports. An import of a name made up at run time is one of any op's module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("customops.") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "customops"):
            module = (node.module or "").removeprefix("customops").lstrip(".")
            found |= {module} if module else {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("import_module", "__import__"):
            argument = node.args[0]
            if isinstance(argument, ast.Constant):
                found.add(argument.value.removeprefix("customops."))
            elif ast.unparse(argument).startswith("f'customops."):
                found |= ops
    return {"__init__" if name == "customops" else name for name in found} & modules


@pytest.fixture
def graph(root):
    paths = {path.stem: path for path in (root / "customops").glob("*.py")}
    ops = {name for name in paths if (root / f"csrc/cpu/{name}.cpp").exists()}
    return {name: imported(path, paths.keys(), ops) for name, path in paths.items()}


def test_imports_go_in_one_direction(graph):
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_the_test_sees_imports(graph):
    """Of each kind: on top, inside a function, of a name made up at run time."""
    assert {"_state", "_recipes", "add2", "upfirdn2d"} <= graph["_loader"]
    assert {"_driver", "_recipes"} <= graph["_cuda"]
    assert graph["_state"] == graph["_driver"] == set()
