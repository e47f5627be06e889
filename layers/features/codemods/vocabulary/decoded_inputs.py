"""Where a file decodes a string input, and the calls of our package that take its place."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from layers.features.codemods.vocabulary import vocabulary_shapes as shapes
from layers.features.codemods.vocabulary.encoded_inputs import Encoded, encoded_input
from layers.features.codemods.vocabulary.vocabulary_shapes import LookUp
from layers.features.editing import Change
from layers.features.source import Source

_ARGUMENTS = {(), ("",), ("", ""), ("errors",), ("", "errors"), ("encoding", "errors")}
_NAMES = ("encoding", "errors")
# How the helper of the codemod `decode_loops` begins; its last statement is the loop that it was.
_OF_DECODE_LOOPS = "Return the texts of `values`, in one call where it"


@dataclass(frozen=True, eq=False)
class Decoded:
    """One place that makes the text of an input: `[s.decode(...) for s in input]`.

    `made` is that comprehension, or the call of the helper that `decode_loops` put in its place.
    `fused` is the look-up that the comprehension makes of each text, instead of keeping it.
    """

    made: cst.ListComp | cst.Call
    strings: Encoded
    decode: cst.Call
    fused: LookUp | None = None

    def change(self, package: str) -> Change:
        """Return the change of `made`; the input is taken as it was edited."""

        def change(node: cst.CSTNode) -> cst.CSTNode:
            strings = cst.Arg(_input_of(node))
            if not isinstance(_decoded_value(self.decode), cst.Name):  # row[0].decode(...)
                strings = cst.Arg(call(package, "firsts", strings))
            if self.fused is None:
                return call(package, "texts", strings, *self.decode.args)
            parts = [cst.Arg(part) for part in self.fused.parts]
            named = map(_named, self.decode.args, _NAMES)
            return call(package, "found_decoded", strings, *parts, *named)

        return change


def call(package: str, name: str, *args: cst.Arg) -> cst.Call:
    """Return the call `package.name(args)`."""
    return cst.Call(cst.Attribute(cst.Name(package), cst.Name(name)), args)


def decoded_input(source: Source, node: cst.CSTNode) -> Decoded | None:
    """Return what `node` decodes; None where it decodes no input or does something else."""
    if isinstance(node, cst.ListComp):
        key = shapes.plain_loop(node)
        strings = encoded_input(source, node.for_in.iter) if key else None
        return _comprehension(node, key, strings) if key and strings else None
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
        return None
    decode = _helper(source, node.func)
    single = len(node.args) == 1 and not node.args[0].keyword and not node.args[0].star
    strings = encoded_input(source, node.args[0].value) if decode is not None and single else None
    return Decoded(node, strings, decode) if decode is not None and strings else None


def _comprehension(node: cst.ListComp, key: str, strings: Encoded) -> Decoded | None:
    decode = _decode_of(node.elt, key)
    if decode is not None:
        return Decoded(node, strings, decode)
    looked_up = shapes.look_up_of(node.elt, key)
    decode = _decode_of(looked_up[0], key) if looked_up else None
    return Decoded(node, strings, decode, looked_up[1]) if looked_up and decode else None


def _decode_of(node: cst.BaseExpression, key: str) -> cst.Call | None:
    """Return the call `key.decode(...)` or `key[0].decode(...)` with literal arguments."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    names = tuple(a.keyword.value if a.keyword else a.star for a in node.args)
    literal = all(isinstance(a.value, cst.SimpleString) for a in node.args)
    if node.func.attr.value != "decode" or not literal or names not in _ARGUMENTS:
        return None
    value = node.func.value
    return node if shapes.is_name(value, key) or shapes.is_first(value, key) else None


def _helper(source: Source, name: cst.Name) -> cst.Call | None:
    """Return the decode call of a helper that `decode_loops` added."""
    bound = source.assignments(name) or []
    function = bound[0].node if len(bound) == 1 else None
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return None
    docstring = function.get_docstring() or ""
    last = function.body.body[-1]
    returned = last.body[0] if isinstance(last, cst.SimpleStatementLine) else None
    loop = returned.value if isinstance(returned, cst.Return) else None
    if isinstance(loop, cst.BinaryOperation):  # after the texts before the first odd one
        loop = loop.right
    if not docstring.startswith(_OF_DECODE_LOOPS) or not isinstance(loop, cst.ListComp):
        return None
    key = shapes.plain_loop(loop)
    over_values = any(shapes.is_name(loop.for_in.iter, name) for name in ("values", "rest"))
    return _decode_of(loop.elt, key) if key and over_values else None


def _decoded_value(decode: cst.Call) -> cst.BaseExpression:
    return cst.ensure_type(decode.func, cst.Attribute).value


def _input_of(node: cst.CSTNode) -> cst.BaseExpression:
    if isinstance(node, cst.ListComp):
        return node.for_in.iter
    return cst.ensure_type(node, cst.Call).args[0].value


def _named(argument: cst.Arg, name: str) -> cst.Arg:
    """Return an argument of decode by its keyword."""
    tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(argument.value, keyword=argument.keyword or cst.Name(name), equal=tight)
