"""Which part of answering a request a sampled stack belongs to. Pure.

A model's process *receives* (looks inputs up, converts strings, decodes), *computes*, and
*assembles* (encodes, builds tensors and the response, serialises). The functions of the server's
own module say it by their names. Of the model's own files a line has the role of its statement,
where all that the statement calls is known: a statement that looks up and also predicts computes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePath

from layers.profile.collapsed import Frame

SERVER_MODULE = "triton_python_backend_utils.py"


class Phase(StrEnum):
    """A part of answering a request, as a model's process sees it."""

    RECEIVE = "receive"
    COMPUTE = "compute"
    ASSEMBLE = "assemble"
    OUTSIDE = "outside"  # the server's native code in the process, and its Python around `execute`


Roles = Mapping[int, Phase]  # of the lines (from 1) of one file; what is absent computes


_SERVER = {
    "get_input_tensor_by_name": Phase.RECEIVE,
    "deserialize_bytes_tensor": Phase.RECEIVE,
    "serialize_byte_tensor": Phase.ASSEMBLE,
}
_CALLED = {
    **dict.fromkeys(
        ("as_numpy", "inputs", "from_dlpack", "get_input_tensor_by_name"), Phase.RECEIVE
    ),
    **dict.fromkeys(("Tensor", "InferenceResponse", "TritonError", "to_dlpack"), Phase.ASSEMBLE),
}
_TEXT = {"decode": Phase.RECEIVE, "encode": Phase.ASSEMBLE}  # of bytes and str, not of a tokenizer
# What converts, reshapes or collects, and says nothing about where the result goes.
_NEUTRAL = frozenset(
    {
        *("append", "bool", "bytes", "dict", "enumerate", "extend", "float", "int", "isinstance"),
        *("items", "join", "len", "list", "map", "name", "range", "reversed", "str", "strip"),
        *("tuple", "zip", "array", "asarray", "ascontiguousarray", "astype", "copy"),
        *("expand_dims", "flatten", "ravel", "reshape", "squeeze", "tolist"),
    }
)


def phase_of(stack: Sequence[Frame], roles: Mapping[str, Roles]) -> Phase:
    """Return the phase of one stack, outermost frame first.

    `roles` are those of the model's own files by the names that the frames give them. The innermost
    frame that is the server's function or a line of the model's own decides.
    """
    for frame in reversed(stack):
        known = _SERVER.get(frame.function)
        if known is not None and PurePath(frame.file).name == SERVER_MODULE:
            return known
        if frame.file in roles:
            return roles[frame.file].get(frame.line, Phase.COMPUTE)
    return Phase.OUTSIDE


def roles_of(text: str) -> Roles:
    """Return the lines of a model's file that only receive or only assemble.

    A file that is no Python has none: all of it computes.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    own = {node.name for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)}
    found: dict[int, Phase] = {}
    for first, last, calls in _statements(tree):
        role = _role(calls, own)
        if role is not None:
            found |= dict.fromkeys(range(first, last + 1), role)
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _statements(tree: ast.Module) -> Iterator[tuple[int, int, list[ast.Call]]]:
    """Yield first and last line of each statement and the calls in it; of a block its head alone."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        parts = [
            value
            for field, value in ast.iter_fields(node)
            if field not in _BLOCKS and isinstance(value, (ast.AST, list))
        ]
        expressions = [part for value in parts for part in _nodes(value)]
        calls = [
            inner
            for expression in expressions
            for inner in ast.walk(expression)
            if isinstance(inner, ast.Call)
        ]
        inside = [e for e in expressions if isinstance(e, ast.expr)]
        last = max((e.end_lineno or e.lineno for e in inside), default=node.lineno)
        yield node.lineno, last, calls


def _nodes(value: object) -> Iterable[ast.AST]:
    items = value if isinstance(value, list) else [value]
    return (item for item in items if isinstance(item, ast.AST))


def _role(calls: Sequence[ast.Call], own: set[str]) -> Phase | None:
    """Return the one role of a statement's calls, None where one computes or two disagree."""
    roles: set[Phase] = set()
    for call in calls:
        name = _name(call)
        known = _CALLED.get(name)
        if known is not None:
            roles.add(known)
        elif name in _TEXT and _is_plain(call):
            roles.add(_TEXT[name])
        elif name not in _NEUTRAL and name not in own:  # what is its own has lines of its own
            return None
    return roles.pop() if len(roles) == 1 else None


def _name(call: ast.Call) -> str:
    called = call.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _is_plain(call: ast.Call) -> bool:
    """Return whether all arguments are constants: `decode("utf-8")`, not `decode(ids)`."""
    values = (*call.args, *(keyword.value for keyword in call.keywords))
    return all(isinstance(value, ast.Constant) for value in values)
