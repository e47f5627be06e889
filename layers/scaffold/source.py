"""What the Python files of a model say: calls, imports, vocabularies, completed configurations.

Files are parsed, never run, and may hold anything.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_NODES = 200_000
MIN_VOCABULARY = 2
_TENSOR_KEYS = {"name", "data_type", "dims"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output that `auto_complete_config` adds; `datatype` as TYPE_FP32."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    optional: bool = False


@dataclass(slots=True)
class Source:
    """What was found in all files of one model."""

    calls: set[str] = field(default_factory=set)  # models named in a request to the server
    strings: set[str] = field(default_factory=set)  # all constants, where a call computes the name
    imports: set[str] = field(default_factory=set)  # top-level names of packages
    functions: set[str] = field(default_factory=set)  # dotted names that are called
    vocabularies: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by variable
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    max_batch_size: int = 0
    reads_json: bool = False  # of anything but the model's own configuration

    def read(self, text: str) -> str | None:
        """Add one file; return why it cannot be analysed, None where it can."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the author's escapes and comparisons
                tree = ast.parse(text)
        except SyntaxError as error:
            return f"line {error.lineno or 1}: not valid Python"
        except (ValueError, RecursionError, MemoryError):
            return "nested too deeply, or not text"
        nodes = list(ast.walk(tree))
        if len(nodes) > MAX_NODES:
            return "too long to analyse"
        constants = dict(_assigned(nodes))
        computed = False
        for node in nodes:
            self._import(node)
            if isinstance(node, ast.Call):
                computed |= self._call(node, constants)
            if isinstance(node, ast.FunctionDef) and node.name == "auto_complete_config":
                self._complete(node)
        if computed:
            values = (node.value for node in nodes if isinstance(node, ast.Constant))
            self.strings |= {value for value in values if isinstance(value, str)}
        for name, value in constants.items():
            words = _words(value)
            if len(words) >= MIN_VOCABULARY and not _TENSOR_KEYS.intersection(words):
                self.vocabularies.setdefault(name, words)
        return None

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            self.imports |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            self.imports.add(node.module.partition(".")[0])

    def _call(self, node: ast.Call, constants: Mapping[str, ast.expr]) -> bool:
        """Take note of a call and of the model that it names; return whether that is computed."""
        function = _dotted(node.func)
        self.functions.add(function)
        if function in ("json.loads", "orjson.loads", "ujson.loads") and node.args:
            self.reads_json |= not _is_configuration(node.args[0])
        named = [
            _string(word.value, constants) for word in node.keywords if word.arg == "model_name"
        ]
        self.calls |= {name for name in named if name is not None}
        return None in named

    def _complete(self, function: ast.FunctionDef) -> None:
        """Read the tensors that a model completes its configuration with."""
        inner = list(ast.walk(function))
        values = dict(_assigned(inner))
        looped = dict(_looped(inner))
        for node in inner:
            if not isinstance(node, ast.Call) or len(node.args) != 1:
                continue
            verb = _dotted(node.func).rpartition(".")[2]
            argument = looped.get(node, node.args[0])
            if isinstance(argument, ast.Name):
                argument = values.get(argument.id, argument)
            if verb in ("add_input", "add_output"):
                place = self.inputs if verb == "add_input" else self.outputs
                place += _tensors(argument)
            elif verb == "set_max_batch_size" and isinstance(argument, ast.Constant):
                size = argument.value
                self.max_batch_size = size if isinstance(size, int) and 0 < size < 2**31 else 0


def _looped(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yield the calls on the variable of a loop, with what the loop goes through."""
    for loop in nodes:
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
            continue
        for node in ast.walk(loop):
            if isinstance(node, ast.Call) and len(node.args) == 1:
                argument = node.args[0]
                if isinstance(argument, ast.Name) and argument.id == loop.target.id:
                    yield node, loop.iter


def _assigned(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names and attributes that values are assigned to."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, value
            elif isinstance(target, ast.Attribute):
                yield target.attr, value


def _dotted(node: ast.expr) -> str:
    """Return `a.b.c` for names and attributes, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _is_configuration(node: ast.expr) -> bool:
    """Return whether an expression is `args["model_config"]`, or a name like it."""
    key = node.slice if isinstance(node, ast.Subscript) else node
    said = key.value if isinstance(key, ast.Constant) else _dotted(key).rpartition(".")[2]
    return isinstance(said, str) and "config" in said


def _string(node: ast.expr, constants: Mapping[str, ast.expr]) -> str | None:
    """Return a string constant, or that of the name or attribute that holds one."""
    if isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        node = constants.get(name, node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _words(node: ast.expr) -> tuple[str, ...]:
    """Return the distinct strings of a literal dictionary's keys, list, tuple or set."""
    items: Sequence[ast.expr | None] = ()
    if isinstance(node, ast.Call) and len(node.args) == 1:  # frozenset([...]), np.array([...])
        node = node.args[0]
    if isinstance(node, ast.Dict):
        items = node.keys
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        items = node.elts
    words = [
        item.value
        for item in items
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    return tuple(dict.fromkeys(words)) if len(words) == len(items) else ()


def _tensors(node: ast.expr) -> list[Tensor]:
    """Return the tensors that a literal dictionary, or a list of them, describes."""
    nodes = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    found = []
    for item in nodes:
        try:
            value = ast.literal_eval(item)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(value, dict) and value.keys() >= _TENSOR_KEYS and _well_formed(value):
            optional = value.get("optional") is True
            found.append(Tensor(value["name"], value["data_type"], tuple(value["dims"]), optional))
    return found


def _well_formed(value: Mapping[str, object]) -> bool:
    dims = value["dims"]
    return (
        isinstance(value["name"], str)
        and value["name"].isprintable()
        and isinstance(value["data_type"], str)
        and isinstance(dims, list | tuple)
        and all(isinstance(size, int) and -1 <= size < 2**63 for size in dims)
    )
