"""Edits a Triton `config.pbtxt` so that every byte outside the changed fields survives. Pure.

    document = parse(text, path)
    document.get("instance_group[0].count")                            # None: not in the file
    document = document.set("instance_group[0].count", 2)              # a new Document
    document = document.set('parameters["threads"].string_value', "2")

A path names fields, joined by dots; `[0]` picks an item of a repeated field (the index after
the last one appends), `["key"]` an entry of a map. What is accepted is what protobuf's own
parser accepts of `inference.ModelConfig` as tritonclient ships it.
"""

from layers.triton.pbtxt.document import Document, decode, parse
from layers.triton.pbtxt.write import Value

__all__ = ["Document", "Value", "decode", "parse"]
