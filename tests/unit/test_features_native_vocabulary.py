from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from knowledge.store import builtin_directory, load_cards
from layers.base import ChangeClass, Hotspot, Hypothesis, LayerName, StackView
from layers.features.codemod import File
from layers.features.codemods.text import decode_loops
from layers.features.codemods.vocabulary.native_vocabulary import CODEMOD
from layers.features.files import read_files
from layers.features.layer import FeaturesLayer
from layers.features.sites import refusals, sites
from layers.manifest import Manifest

PATH = "models/prep/1/model.py"
PROGRAMS = Path(__file__).parent / "test_features_programs" / "native_vocabulary"
EXAMPLE = Path(__file__).parents[2] / "examples" / "ads-serving" / "models" / "features" / "1"

MODEL = '''\
"""Prepares features."""
import numpy as np
import triton_python_backend_utils as pb


def column(request, name):
    """Return an input."""
    tensor = pb.get_input_tensor_by_name(request, name)
    return tensor.as_numpy()[0]


def texts(request, name):
    return [value.decode("utf-8", errors="replace") for value in column(request, name)]


class TritonPythonModel:
    def initialize(self, args):
        self.ids = load(args)

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        words = texts(request, "words")  # USE
        return np.array(self.encode(words), dtype=np.int64)

    def encode(self, words):
        return [self.ids.get(word, 0) for word in words]
'''


def find(text, path=PATH):
    return CODEMOD.find(File(path, text))


def apply(text):
    return CODEMOD.apply(File(PATH, text))


def reasons(text, path=PATH):
    found = find(text, path)
    assert sites(found) == []
    assert CODEMOD.apply(File(path, text)) == text
    return [refusal.reason for refusal in refusals(found)]


def test_text_that_is_only_looked_up_is_never_made():
    assert apply(MODEL) == dedent('''\
        """Prepares features."""
        import numpy as np
        import triton_python_backend_utils as pb
        import fvec_vocabulary

        # String inputs are read when they are asked for, see fvec_vocabulary/__init__.py.
        fvec_vocabulary.install(pb)


        def column(request, name):
            """Return an input."""
            tensor = pb.get_input_tensor_by_name(request, name)
            return tensor.as_numpy()[0]


        def column_encoded(request, name):
            """Return an input."""
            tensor = pb.get_input_tensor_by_name(request, name)
            return fvec_vocabulary.encoded(tensor)[0]


        def texts(request, name):
            return fvec_vocabulary.texts(column_encoded(request, name), "utf-8", errors="replace")


        class TritonPythonModel:
            def initialize(self, args):
                self.ids = fvec_vocabulary.shared(load(args))

            def execute(self, requests):
                return [self.one(request) for request in requests]

            def one(self, request):
                words = texts(request, "words")  # USE
                return np.array(self.encode(words), dtype=np.int64)

            def encode(self, words):
                return fvec_vocabulary.found(words, self.ids, 0)
        ''')
    assert [(site.line, site.what) for site in sites(find(MODEL))] == [
        (13, "text of a string input"),
        (28, "look-ups of it"),
        (13, "string inputs of the request"),
    ]


def test_the_running_example_is_followed_through_its_dict_of_columns():
    text = (EXAMPLE / "model.py").read_text()
    found = CODEMOD.find(File("models/features/1/model.py", text))
    assert refusals(found) == []
    assert [site.what for site in sites(found)] == [
        "text of a string input",
        "look-ups of it",
        "string inputs of the request",
    ]
    after = CODEMOD.apply(File("models/features/1/model.py", text))
    assert "return fvec_vocabulary.found(values, vocabulary, 0)\n" in after
    assert "fvec_vocabulary.shared_each(load_vocabularies(" in after


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.txt")), ids=lambda path: path.name)
def test_a_rewritten_program_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


KEPT = "its text is used as more than something to read (line 25)"


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        ("return words", KEPT),
        ("words.append(1)", KEPT),
        ("print(words + [])", KEPT),
        ("print(words == [])", KEPT),
        ("print(words)", "its text is handed to something that is not followed (line 25)"),
        ("self.words = words", "its text is kept (line 25)"),
        ("words[0] = 1", "part of its text is taken or changed (line 25)"),
        ("print(words[1:])", "part of its text is taken or changed (line 25)"),
        ("print(*words)", "its text is unpacked (line 25)"),
        ("later = lambda: words[0]", "its text may be read after the request (line 25)"),
        ("any(w for w in words)", "its text may be read after the request (line 25)"),
        ("words = 1", "'words' is bound more than once (line 24)"),
        ("request['x'] = words", "its text is put into something other than an own dict (line 25)"),
        (
            "d = {'a': 1}; d['x'] = words",
            "its text is put into a dict that held something (line 25)",
        ),
        ("d = {}; d['x'] = words; print(d)", None),
        ("d = {}; d['x'] = words; self.d = d", "a dict of texts is used as a whole (line 25)"),
    ],
)
def test_text_that_goes_elsewhere_is_left_with_the_place(use, reason):
    text = MODEL.replace("# USE", f"# USE\n        {use}")
    reason = reason or "its text is handed to something that is not followed (line 25)"
    assert reasons(text) == [reason]


@pytest.mark.parametrize(
    "use",
    [
        "print(words[0], len(words), 'a' in words)",
        "counted = set(words); pairs = list(zip(words, range(3)))",
        "for n, w in enumerate(words): print(n, w)",
        "print([w.upper() for w in words])",
        "d = {}; d['x'] = words; print([w for w in d['x']])",
        "d = {n: texts(request, n) for n in 'ab'}; self.encode(d['a'])",
        "print(texts(request, 'other')[-1])",
    ],
)
def test_text_that_is_only_read_may_be_a_promise(use):
    text = MODEL.replace("# USE", f"# USE\n        {use}")
    assert refusals(find(text)) == []
    assert "return fvec_vocabulary.found(words, self.ids, 0)\n" in apply(text)


@pytest.mark.parametrize(
    ("loop", "after"),
    [
        (
            "[self.ids.get(w.decode(), -1) for w in tensor.as_numpy().reshape(-1)]",
            "fvec_vocabulary.found_decoded(fvec_vocabulary.encoded(tensor).reshape(-1), self.ids, -1)",
        ),
        (
            "[self.ids.get(w[0].decode('utf8', 'ignore')) for w in tensor.as_numpy()]",
            "fvec_vocabulary.found_decoded(fvec_vocabulary.firsts(fvec_vocabulary.encoded(tensor)), "
            "self.ids, encoding='utf8', errors='ignore')",
        ),
        (
            "[self.ids.get(w.decode(errors='replace'), 0) for w in column(request, 'x')]",
            "fvec_vocabulary.found_decoded(column_encoded(request, 'x'), self.ids, 0, "
            "errors='replace')",
        ),
    ],
)
def test_a_look_up_that_decodes_its_key_is_one_call(loop, after):
    text = MODEL.replace("# USE", "").replace('texts(request, "words")', loop)
    assert f"        words = {after}  \n" in apply(text)


NOT_OWN = "its text is not looked up in a dictionary that is certain to be the model's own"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.ids = load(args)", "self.ids = SHARED"),
        ("self.ids = load(args)", "self.ids = load(args)\n        self.ids['x'] = 1"),
        ("self.ids = load(args)", "self.ids = load(args)\n        register(self)"),
        ("self.ids = load(args)", "self.ids = load(args)\n        self.ids = {}"),
        ("self.ids = load(args)", "if args:\n            self.ids = load(args)"),
        ("class TritonPythonModel:", "class TritonPythonModel(Base):"),
        ("# USE", "\n        self.ids.clear()"),
        ("# USE", "\n        print(self.ids)"),
        ("# USE", "\n        print(self.__dict__)"),
        ("# USE", "\n        self.ids['x'].get(1)"),
        ("self.ids.get(word, 0)", "self.ids.get(word, self.next())"),
        ("self.ids.get(word, 0)", "self.ids[word]"),
    ],
)
def test_a_vocabulary_that_may_change_or_is_seen_elsewhere_stays(old, new):
    assert reasons(MODEL.replace(old, new)) == [NOT_OWN]


def test_only_the_model_file_of_a_version_is_rewritten():
    reason = "the file is not the model.py of a model's version"
    assert reasons(MODEL, "models/prep/1/helper.py") == [reason]
    assert reasons(MODEL, "models/prep/model.py") == [reason]
    text = MODEL.replace("import triton_python_backend_utils as pb\n", "from utils import pb\n")
    late = MODEL.replace("import triton_python_backend_utils as pb\n", "").replace(
        "\n\nclass Triton", "\n\nimport triton_python_backend_utils as pb\n\n\nclass Triton"
    )
    for without in (text, late):
        assert reasons(without) == [
            "triton_python_backend_utils is not imported as a module at the top of the file"
        ]


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (
            "read = pb.Tensor.as_numpy",
            "as_numpy is handed on as a value, so what it reads is not known",
        ),
        (
            "pb.InferenceRequest(model_name='m')",
            "the file calls other models, which inputs may be handed on to",
        ),
    ],
)
def test_a_file_that_may_hand_unread_inputs_on_is_left(use, reason):
    assert reasons(MODEL.replace("# USE", f"# USE\n        {use}")) == [reason]


def test_a_function_of_text_that_is_more_than_called_is_left():
    text = MODEL.replace("# USE", "# USE\n        request.use(texts)")
    assert reasons(text) == ["'texts' is more than a function that is called"]
    text = MODEL.replace("def texts", "@cache\ndef texts")
    assert reasons(text) == ["its text is returned by a method, or through a decorator"]


def test_lists_that_decode_something_else_are_none_of_its_business():
    for keys in (
        "names",
        "request.names()",
        "column(request, name)[1:]",
        "column(request, name).T",
    ):
        assert reasons(MODEL.replace("column(request, name)]", f"{keys}]")) == []
    assert reasons(MODEL.replace('"utf-8", errors="replace"', "CODEC")) == []


# through the layer


@pytest.fixture
def stack(tmp_path):
    path = tmp_path / PATH
    path.parent.mkdir(parents=True)
    path.write_text(MODEL)
    manifest = Manifest.model_validate(
        {
            "schema": "fvec.manifest/1",
            "stack": {"name": "s", "models": "models", "entry": "prep"},
            "traffic": {"requests": "r.bin", "arrivals": "a.csv"},
            "slo": {"p99_ms": 10},
        }
    )
    return StackView(tmp_path, "c", manifest, Path(sys.executable))


def hypothesis():
    return Hypothesis(
        LayerName.FEATURES,
        "native-vocabulary",
        "prep",
        "title",
        "why",
        0.5,
        0.8,
        0.9,
        ChangeClass.EXACT,
        "native_vocabulary",
    )


def test_the_package_goes_beside_the_model_and_is_not_rewritten_itself(stack):
    edit = FeaturesLayer().optimize(hypothesis(), stack)
    folder = "models/prep/1"
    shipped = {f"{folder}/fvec_vocabulary/{name}" for name in CODEMOD.package.files()}
    assert set(edit.files) == {PATH, *shipped}
    for name, content in edit.files.items():
        path = stack.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    assert [file.path for file in read_files(stack)["prep"]] == [PATH]
    assert FeaturesLayer().optimize(hypothesis(), stack) is None


def test_the_share_is_that_of_the_lines_and_of_the_servers_loop(stack):
    def spot(file, function, line, share, *, inclusive=False):
        return Hotspot("prep", file, function, line, share, inclusive)

    utils = "/backends/triton_python_backend_utils.py"
    spots = (
        spot(utils, "deserialize_bytes_tensor", 0, 0.4, inclusive=True),
        spot(PATH, "<listcomp>", 13, 0.1),
        spot(PATH, "<listcomp>", 28, 0.05),
        spot(PATH, "one", 24, 0.2),
    )
    cards = load_cards(builtin_directory()).for_layer("features")
    found = FeaturesLayer().diagnose(spots, stack, cards)
    (ours,) = [h for h in found if h.transform == "native_vocabulary"]
    assert round(ours.share, 6) == 0.55
    assert ours.sites == (f"{PATH}:13", f"{PATH}:28", f"{PATH}:13")


def test_what_decode_loops_put_in_place_of_a_comprehension_is_taken_too():
    text = (EXAMPLE / "model.py").read_text()
    decoded = decode_loops.CODEMOD.apply(File("models/features/1/model.py", text))
    assert "    return _decode_texts(get_column(request, name))\n" in decoded
    after = CODEMOD.apply(File("models/features/1/model.py", decoded))
    line = 'fvec_vocabulary.texts(get_column_encoded(request, name), "utf-8", errors="replace")'
    assert f"    return {line}\n" in after
    assert "return fvec_vocabulary.found(values, vocabulary, 0)\n" in after
