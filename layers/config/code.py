"""What a Python model's source says about batching and threads. Pure; nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Libraries whose kernels start one thread per core unless told otherwise.
_THREADED = frozenset({"torch", "onnxruntime", "tensorflow", "openvino", "sklearn", "xgboost"})
_THREAD_KEY = re.compile(r"thread", re.IGNORECASE)
_SETTERS = frozenset({"set_num_threads", "set_intra_op_parallelism_threads"})
_SETTING = "intra_op_num_threads"


@dataclass(frozen=True, slots=True)
class ModelCode:
    """Facts of a model's source, each found by its pattern and absent otherwise."""

    loops_over_requests: bool  # execute() handles every request that it is given
    threads: int | None  # intra-op threads per instance; None: as many as its library likes
    thread_parameter: str | None  # the config parameter that the source reads them from


def analyse(sources: Mapping[str, str], main: str) -> ModelCode | None:
    """Read the modules of one model; `main` is the key of the one with `TritonPythonModel`.

    Returns None where a module is not valid Python, as nothing is known about it then.
    """
    try:
        trees = {name: ast.parse(text) for name, text in sources.items()}
        nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    counts = list(_thread_counts(nodes))
    fixed = {count for count in counts if count is not None}
    threads = 1 if not counts and not _imports_threaded(nodes) else None
    if len(fixed) == 1 and None not in counts:
        threads = fixed.pop()
    key = _thread_key(nodes) if None in counts else None
    return ModelCode(_loops(trees[main]) if main in trees else False, threads, key)


def _thread_counts(nodes: list[ast.AST]) -> Iterator[int | None]:
    """Yield each number of threads that the source sets, None where it is computed."""
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and _name(node.func) in _SETTERS:
            yield _integer(node.args[0])
        elif isinstance(node, ast.Assign) and any(_name(t) == _SETTING for t in node.targets):
            yield _integer(node.value)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _integer(node: ast.AST) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int) and value > 0 else None


def _imports_threaded(nodes: list[ast.AST]) -> bool:
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return any(name.split(".")[0] in _THREADED for name in names)


def _thread_key(nodes: list[ast.AST]) -> str | None:
    """Return the one key that is looked up in something called parameters and names threads."""
    keys = set()
    for node in nodes:
        if isinstance(node, ast.Subscript):
            base, key = node.value, node.slice
        elif isinstance(node, ast.Call) and node.args and _is_get(node.func):
            base, key = node.func, node.args[0]
        else:
            continue
        text = key.value if isinstance(key, ast.Constant) else None
        if isinstance(text, str) and _THREAD_KEY.search(text) and "inter" not in text.lower():
            keys |= {text} if "param" in ast.unparse(base).lower() else set()
    return keys.pop() if len(keys) == 1 else None


def _is_get(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "get"


def _loops(tree: ast.Module) -> bool:
    """Return whether TritonPythonModel.execute iterates over its requests."""
    for model in tree.body:
        if not (isinstance(model, ast.ClassDef) and model.name == "TritonPythonModel"):
            continue
        for method in model.body:
            if (
                isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                and method.name == "execute"
                and len(method.args.args) > 1
            ):
                requests = method.args.args[1].arg
                return any(_iterates(node, requests) for node in ast.walk(method))
    return False


def _iterates(node: ast.AST, requests: str) -> bool:
    if not isinstance(node, ast.For | ast.comprehension):
        return False
    iterated = node.iter
    if isinstance(iterated, ast.Call) and _name(iterated.func) in {"enumerate", "zip"}:
        return any(_name(argument) == requests for argument in iterated.args)
    return _name(iterated) == requests
