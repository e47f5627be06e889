"""Codemod `native_vocabulary`: string inputs looked up straight from the bytes of the request.

Matches `[s.decode(...) for s in <a string input>]` whose text the file only reads
(`text_flow.py`), and `[d.get(t, default) for t in <such text>]` where `d` is a vocabulary of the
model's own (`own_vocabulary.py`). The package in `layers/features/native` goes beside the model: it
leaves an input unread until something asks for it, and looks it up natively where nothing does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

import libcst as cst

from layers.base import Hotspot
from layers.features.codemod import Codemod, File, Package, Rewrite, share_of_lines
from layers.features.codemods.vocabulary import vocabulary_shapes as shapes
from layers.features.codemods.vocabulary.decoded_inputs import Decoded, call, decoded_input
from layers.features.codemods.vocabulary.encoded_inputs import with_copies
from layers.features.codemods.vocabulary.own_vocabulary import own_vocabulary
from layers.features.codemods.vocabulary.steady import is_steady
from layers.features.codemods.vocabulary.text_flow import TextFlow, UnfollowedError
from layers.features.codemods.vocabulary.vocabulary_shapes import LookUp
from layers.features.editing import Change, Edits, add_imports
from layers.features.sites import Found, Refusal, Site
from layers.features.source import Source
from layers.profile.profiler import CONVERSION

PACKAGE = "fvec_vocabulary"
_SERVER = "triton_python_backend_utils"
_MODULE = "model.py"
_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
_RECEIVED = "string inputs of the request"
_NOT_OWN = "its text is not looked up in a dictionary that is certain to be the model's own"
_INSTALL = "# String inputs are read when they are asked for, see {package}/__init__.py."


@dataclass(eq=False)
class _Text:
    """One text of an input, and the look-ups that go over it."""

    decoded: Decoded
    found: list[cst.ListComp] = field(default_factory=list)


def analyse(source: Source, file: File) -> Rewrite:
    """Return the look-ups that can be native, and the texts that are left."""
    analysis = _Analysis(source, file)
    found: list[Found] = [*analysis.sites(), *analysis.refusals]
    return Rewrite(found, partial(_edit, source, analysis) if analysis.texts else None)


class _Analysis:
    """Which texts of inputs need no list, and which look-ups go over them."""

    def __init__(self, source: Source, file: File) -> None:
        self.source = source
        self.refusals: list[Refusal] = []
        self.texts: list[_Text] = []
        self.vocabularies: dict[cst.BaseExpression, bool] = {}  # what makes them: nested or not
        self._path = file.path
        self.utilities = _utilities(source)
        for node in source.nodes:
            decoded = decoded_input(source, node)
            if decoded is None:
                continue
            try:
                self.texts.append(self._followed(decoded))
            except UnfollowedError as reason:
                self.refusals.append(Refusal(str(reason), source.line(node)))
        self._keep_if_looked_up()

    def sites(self) -> list[Site]:
        """Return the texts, the look-ups over them and the server's own reading of strings."""
        nodes: list[tuple[cst.BaseExpression, str]] = [
            (text.decoded.made, "text of a string input") for text in self.texts
        ]
        nodes += [(node, "look-ups of it") for text in self.texts for node in text.found]
        unique = dict.fromkeys(nodes)
        found = [
            Site(self._path, self.source.line(node), list(self.source.lines(node)), what)
            for node, what in unique
        ]
        return [*found, Site(self._path, found[0].line, (), _RECEIVED)] if found else []

    def _followed(self, decoded: Decoded) -> _Text:
        """Find what looks the text up; raises UnfollowedError when it may not stay unmade."""
        self._check_file()
        if "#" in self.source.module.code_for_node(decoded.made):
            raise UnfollowedError("a comment stands inside the loop")
        if decoded.fused is not None:
            if not self._is_own(decoded.fused):
                raise UnfollowedError(_NOT_OWN)
            return _Text(decoded)
        flow = TextFlow(self.source)
        for use in self._results(decoded.made):
            flow.follow(use)
        loops = [self.source.parent(loop) for loop in flow.loops]
        found = [n for n in loops if isinstance(n, cst.ListComp) and self._looks_up(n)]
        return _Text(decoded, found)

    def _check_file(self) -> None:
        """Raise UnfollowedError where the file as a whole does not fit."""
        if self._as_numpy_is_a_value():
            raise UnfollowedError("as_numpy is handed on as a value, so what it reads is not known")
        if "InferenceRequest" in self.source.identifiers:
            raise UnfollowedError("the file calls other models, which inputs may be handed on to")
        if self.utilities is None:
            raise UnfollowedError(f"{_SERVER} is not imported as a module at the top of the file")
        path = PurePosixPath(self._path)
        if not path.parent.name.isdecimal() or path.name != _MODULE:
            raise UnfollowedError(f"the file is not the {_MODULE} of a model's version")

    def _as_numpy_is_a_value(self) -> bool:
        """Return whether the method is used other than by calling it."""
        uses = [node for node in self.source.all(cst.Attribute) if node.attr.value == "as_numpy"]
        calls = [self.source.parent(use) for use in uses]
        return any(
            not isinstance(call, cst.Call) or call.func is not use
            for use, call in zip(uses, calls, strict=True)
        )

    def _results(self, node: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
        """Return the expressions that hold the text: the list itself, or calls that return it."""
        returned = self.source.parent(node)
        function = self.source.function_of(node)
        if not isinstance(returned, cst.Return) or function is None:
            return [node]
        if function.decorators or self.source.class_of(function) or function.asynchronous:
            raise UnfollowedError("its text is returned by a method, or through a decorator")
        calls: list[cst.BaseExpression] = []
        for name in self.source.all(cst.Name):
            bound = self.source.assignments(name) or [] if name.value == function.name.value else []
            if not any(item.node is function for item in bound) or name is function.name:
                continue
            call = self.source.parent(name)
            if len(bound) != 1 or not isinstance(call, cst.Call) or call.func is not name:
                raise UnfollowedError(f"{name.value!r} is more than a function that is called")
            calls.append(call)
        return calls

    def _looks_up(self, node: cst.ListComp) -> bool:
        """Return whether a loop over texts looks each up in a vocabulary of the model's own."""
        key = shapes.plain_loop(node)
        found = shapes.look_up(node.elt, key) if key else None
        if found is None or found.kind != "get" or "#" in self.source.module.code_for_node(node):
            return False
        return self._is_own(found)

    def _is_own(self, found: LookUp) -> bool:
        """Return whether a look-up is in a vocabulary of the model's own, the same for all keys."""
        if not all(is_steady(self.source, part) for part in found.parts):
            return False
        own = own_vocabulary(self.source, found.vocabulary)
        if own is not None:
            self.vocabularies[own.made] = own.nested
        return own is not None

    def _keep_if_looked_up(self) -> None:
        """Leave all as it is where no text is looked up natively."""
        if any(text.found or text.decoded.fused for text in self.texts):
            return
        self.refusals += [
            Refusal(_NOT_OWN, self.source.line(text.decoded.made)) for text in self.texts
        ]
        self.texts = []


def _utilities(source: Source) -> str | None:
    """Return what the module calls the server's utilities, imported before its first definition."""
    for statement in source.module.body:
        if isinstance(statement, _DEFINITIONS):
            return None
        lines = statement.body if isinstance(statement, cst.SimpleStatementLine) else ()
        for line in lines:
            for alias in line.names if isinstance(line, cst.Import) else ():
                if alias.evaluated_name == _SERVER:
                    return alias.evaluated_alias or _SERVER
    return None


def _edit(source: Source, analysis: _Analysis) -> cst.Module:
    edits = Edits()
    inputs = [text.decoded.strings for text in analysis.texts]
    accessors = [item.accessor.name.value for item in inputs if item.accessor]
    copies = {name: source.unused(f"{name}_encoded") for name in accessors}
    for text in analysis.texts:
        text.decoded.strings.change(edits, PACKAGE, copies)
        edits.change(text.decoded.made, text.decoded.change(PACKAGE))
    for node in dict.fromkeys(node for text in analysis.texts for node in text.found):
        edits.change(node, _found)
    for made, nested in analysis.vocabularies.items():
        edits.change(made, _shared("shared_each" if nested else "shared"))
    module = with_copies(source.module.visit(edits), PACKAGE, copies)
    if PACKAGE in source.identifiers:
        return module
    return _installed(add_imports(module, f"import {PACKAGE}\n"), str(analysis.utilities))


def _installed(module: cst.Module, utilities: str) -> cst.Module:
    """Insert the call of `install` before the first definition: after all imports and hooks."""
    places = (n for n, s in enumerate(module.body) if isinstance(s, _DEFINITIONS))
    at = next(places, len(module.body))
    comment = cst.EmptyLine(comment=cst.Comment(_INSTALL.format(package=PACKAGE)))
    statement = cst.parse_statement(f"{PACKAGE}.install({utilities})\n").with_changes(
        leading_lines=[cst.EmptyLine(indent=False), comment]
    )
    return module.with_changes(body=[*module.body[:at], statement, *module.body[at:]])


def _found(node: cst.CSTNode) -> cst.CSTNode:
    comprehension = cst.ensure_type(node, cst.ListComp)
    key = shapes.plain_loop(comprehension)
    found = shapes.look_up(comprehension.elt, key) if key else None
    if found is None:
        raise TypeError("not a look-up")
    return call(
        PACKAGE, "found", *(cst.Arg(part) for part in (comprehension.for_in.iter, *found.parts))
    )


def _shared(name: str) -> Change:
    def change(node: cst.CSTNode) -> cst.CSTNode:
        if not isinstance(node, cst.BaseExpression):
            raise TypeError("not an expression")
        return call(PACKAGE, name, cst.Arg(node))

    return change


def _share(spots: Sequence[Hotspot], matched: Sequence[Site]) -> float:
    """Return the share of the lines and of the server's loop over strings, of this process."""
    received = max(
        (s.share for s in spots if s.function == CONVERSION and s.inclusive), default=0.0
    )
    return min(1.0, share_of_lines(spots, matched) + received)


CODEMOD = Codemod(
    name="native_vocabulary",
    words=(".decode(",),
    analyse=analyse,
    share=_share,
    package=Package(PACKAGE, Path(__file__).parents[2] / "native"),
    explanation=f"""\
Each string of a request became a bytes object, then a str, then a key of a dictionary, one by one
in Python. The package {PACKAGE}, which this adds beside the model, looks them up straight from the
bytes of the request where nothing else reads them, and reads an input as ever where something does.
The vocabulary lies in memory once for all instances of the model.

Outputs do not change: a key's UTF-8 is compared byte by byte, bytes that are no UTF-8 are decoded as
before and then looked up, and a vocabulary that others could change, or that is not str to int,
stays a dict. Every length and offset is checked against the end.

Add to the image build, after the models are copied, with the interpreter that runs the models (it
needs a C compiler and Python's headers, no package):

    RUN python <the model's version folder>/{PACKAGE}/fvec_native/build.py

Without it the model works as before and says so once in the server's log.""",
)
