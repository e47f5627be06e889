"""The functions that the rewrite `vocabulary_lookups` adds to a model's file, as text.

Each checks at run time what its fast path needs and does otherwise what stood in the file before,
so what an object is need not be known when the file is rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

# Below this many keys the loop that stood there is as fast; measured from 8 to 2,000.
FEW = 32
MANY = 64  # the same for an array that is filled

_IMPORTS = {  # module, and what is imported from it
    "INTEGERS": ("array", "array"),
    "REPEAT": ("itertools", "repeat"),
    "ITEMGETTER": ("operator", "itemgetter"),
    "NUMPY": ("numpy", ""),
}
_PLAIN = '''
def PLAIN(keys):
    """Return keys that find what those of `keys` find, for C to walk; None where unsure."""
    if type(keys) is NUMPY.ndarray:
        return keys.tolist() if keys.ndim == 1 and keys.dtype.kind in "OUSiu" else None
    return keys if type(keys) in (list, tuple) else None
'''
_BODIES = {
    "item": '''
def LOOK_UP(keys, vocabulary):
    """Return [vocabulary[key] for key in keys], in one call."""
    if type(keys) is NUMPY.ndarray:
        plain = PLAIN(keys) if type(vocabulary) in (dict, list, tuple) else None
        many = plain is not None and len(plain) > 1
    else:
        plain, many = keys, type(vocabulary) is dict and type(keys) is list and len(keys) >= FEW
    if many:
        try:
            return list(ITEMGETTER(*plain)(vocabulary))
        except (LookupError, TypeError):
            pass  # raised below, for the key as it is in `keys`
    return [vocabulary[key] for key in keys]
''',
    "either": '''
def LOOK_UP_OR(keys, vocabulary, default):
    """Return [vocabulary[key] if key in vocabulary else default for key in keys]."""
    plain = PLAIN(keys) if type(vocabulary) is dict else None
    if plain is not None and (plain is not keys or len(plain) >= FEW):
        return list(map(vocabulary.get, plain, REPEAT(default)))
    return [vocabulary[key] if key in vocabulary else default for key in keys]
''',
    "get": '''
def GET_EACH(keys, vocabulary, *default):
    """Return [vocabulary.get(key, *default) for key in keys]."""
    plain = PLAIN(keys) if type(vocabulary) is dict else None
    if plain is not None:
        return list(map(vocabulary.get, plain, REPEAT(*default or (None,))))
    return [vocabulary.get(key, *default) for key in keys]
''',
    "except": '''
def FOUND_OR(keys, vocabulary, default):
    """Return what is found for each key, `default` where that raises KeyError, one by one."""
    plain = PLAIN(keys) if type(vocabulary) is dict else None
    if plain is not None:
        return map(vocabulary.get, plain, REPEAT(default))
    return SLOWLY(keys, vocabulary, default)


def SLOWLY(keys, vocabulary, default):
    for key in keys:
        try:
            found = vocabulary[key]
        except KeyError:
            found = default
        yield found
''',
    "fill": '''
def FILL(out, keys, vocabulary, default):
    """Assign vocabulary.get(key, default) to the elements of `out`, one for each key."""
    if type(keys) is list and len(keys) >= MANY and type(vocabulary) is dict:
        if type(out) is NUMPY.ndarray and out.ndim == 1 and out.dtype == "int64":
            try:
                ids = INTEGERS("q", list(map(vocabulary.get, keys, REPEAT(default))))
            except (TypeError, OverflowError):
                ids = ()  # raised below where it was, after the elements before it
            if 0 < len(ids) <= len(out):
                out[: len(ids)] = ids
                return
    for n, key in enumerate(keys):
        out[n] = vocabulary.get(key, default)
''',
    "vectorize": '''
def VECTORIZED(keys, vocabulary, *default):
    """Return NUMPY.vectorize(lambda key: vocabulary.get(key, *default))(keys)."""
    plain = PLAIN(keys) if type(vocabulary) is dict else None
    if type(keys) in (list, tuple) and set(map(type, keys)) not in ({str}, {bytes}, {int}):
        plain = None  # lists of lists, or what NumPy makes one type of
    # NumPy takes the type from the first key as its array holds it
    first = vocabulary.get(NUMPY.asarray(keys).flat[0], *default) if plain else ()
    if not isinstance(first, tuple):  # a tuple would be several arrays
        values = list(map(vocabulary.get, plain, *map(REPEAT, default)))
        try:
            objects = NUMPY.fromiter(values, dtype=object, count=len(values))
        except ValueError:
            pass  # NumPy before 1.23
        else:
            return NUMPY.asanyarray(objects, dtype=NUMPY.asarray(first).dtype.char)
    return NUMPY.vectorize(lambda key: vocabulary.get(key, *default))(keys)
''',
}
FUNCTIONS = {"item": "LOOK_UP", "either": "LOOK_UP_OR", "get": "GET_EACH", "except": "FOUND_OR"}
FUNCTIONS |= {"fill": "FILL", "vectorize": "VECTORIZED"}


_OWN = frozenset(
    ast.get_docstring(node) or ""
    for code in _BODIES.values()
    for node in ast.parse(code).body
    if isinstance(node, ast.FunctionDef)
)


def is_helper(docstring: str | None) -> bool:
    """Return whether a function's docstring says that it is one of these."""
    return bool(docstring) and docstring in _OWN


def helper_code(kinds: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the functions for the kinds of look-ups that a file has.

    `names` gives what each word in capitals is called in that file.
    """
    bodies = "\n\n".join(_BODIES[kind].strip("\n") + "\n" for kind in sorted(set(kinds)))
    if "PLAIN(" in bodies:
        bodies = _PLAIN.strip("\n") + "\n\n\n" + bodies
    return _named(bodies, names)


def import_code(helpers: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the imports of the helper functions for these kinds, one a line.

    A word that `names` gives an empty name needs none.
    """
    plain = helper_code(helpers, {})
    return "".join(_import(word, names[word]) for word in _IMPORTS if word in plain and names[word])


def _import(word: str, name: str) -> str:
    module, what = _IMPORTS[word]
    line = f"from {module} import {what}" if what else f"import {module}"
    return f"{line}\n" if name == (what or module) else f"{line} as {name}\n"


def _named(code: str, names: Mapping[str, str]) -> str:
    for word in sorted(names, key=len, reverse=True):
        code = code.replace(word, names[word])
    return code.replace("FEW", str(FEW)).replace("MANY", str(MANY))
