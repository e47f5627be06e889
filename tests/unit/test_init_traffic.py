"""`fvec init`: what requests are filled with, and the script that makes them."""

import base64
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from layers.errors import InvalidInput
from layers.manifest import TrafficSection
from layers.scaffold import generator, plan, script
from layers.scaffold.entry import Certainty
from layers.scaffold.generator import Tables
from layers.traffic.recorded import Traffic
from layers.traffic.tensors import decode
from tests.init_repositories import ensemble, model, put, python_model

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "config_pbtxt"
SECTION = TrafficSection(requests="traffic/requests.bin", arrivals="traffic/arrivals.csv")


def config(inputs: str, *, batch: int = 0, more: str = "") -> str:
    return f'backend: "python" max_batch_size: {batch} {more} input [ {inputs} ]'


def tensor(name: str, datatype: str, dims: str, more: str = "") -> str:
    return f'{{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {more} }}'


def rows(made: plan.Plan) -> dict[str, tuple[str, str]]:
    """Return what each input is filled with, and why."""
    prefix = "traffic INPUTS "
    return {
        guess.key.removeprefix(prefix): (guess.value, guess.why)
        for guess in made.guesses
        if guess.key.startswith(prefix)
    }


def sizes(made: plan.Plan) -> dict[str, str]:
    prefix = "traffic SIZES "
    return {g.key.removeprefix(prefix): g.value for g in made.guesses if g.key.startswith(prefix)}


def planned(
    root: Path, inputs: str, *, code: str = "", batch: int = 0, more: str = ""
) -> plan.Plan:
    return plan.make(put(root, model("m", config(inputs, batch=batch, more=more), code=code)))


def run_script(made: plan.Plan) -> Traffic:
    """Write the files, run the script by itself as a build step does, and load what it wrote."""
    plan.write(made)
    subprocess.run([sys.executable, "-I", "traffic/synthetic.py"], cwd=made.root, check=True)
    return Traffic.load(made.root, SECTION)


def test_the_script_writes_traffic_that_the_engine_reads(tmp_path):
    made = plan.make(put(tmp_path, ensemble()))
    traffic = run_script(made)
    assert (len(traffic.requests), len(traffic.order)) == (400, 1100)
    assert set(traffic.order) == set(range(400))
    assert traffic.rate == pytest.approx(20, rel=0.15)
    traffic.check(made.entry.config)


def test_the_script_writes_the_same_bytes_every_time(tmp_path):
    made = plan.make(put(tmp_path, ensemble()))
    first = run_script(made).digest
    subprocess.run([sys.executable, "-I", "traffic/synthetic.py"], cwd=tmp_path, check=True)
    assert Traffic.load(tmp_path, SECTION).digest == first


def test_every_datatype_has_values(tmp_path):
    kinds = ["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
             "FP16", "FP32", "FP64", "BF16", "STRING"]  # fmt: skip
    made = planned(tmp_path, ",".join(tensor(f"x_{kind}", kind, "2, -1") for kind in kinds))
    first = decode(run_script(made).requests[0])
    assert len(first) == len(kinds)
    assert {values.shape[0] for values in first.values()} == {2}
    assert len({values.shape[1] for values in first.values()}) == 1
    assert all(values.size for values in first.values())


def test_names_say_what_values_mean(tmp_path):
    names = [
        ("attention_mask", "INT64"), ("token_type_ids", "INT64"), ("input_ids", "INT64"),
        ("created_ts", "INT64"), ("click_rate", "FP32"), ("price_usd", "FP32"),
        ("sample_rate", "INT32"), ("x", "FP32"),
    ]  # fmt: skip
    made = planned(tmp_path, ",".join(tensor(name, kind, "1") for name, kind in names))
    assert {name: value for name, (value, _) in rows(made).items()} == {
        "attention_mask": "INT64 [1] value(1)",
        "token_type_ids": "INT64 [1] value(0)",
        "input_ids": "INT64 [1] integers(1, 100)",
        "created_ts": "INT64 [1] times(60)",
        "click_rate": "FP32 [1] uniform(0.0, 1.0)",
        "price_usd": "FP32 [1] lognormal(1.0, 1.0)",
        "sample_rate": "INT32 [1] value(16000)",
        "x": "FP32 [1] normal(0.0, 1.0)",
    }


def test_dimensions_in_the_same_place_are_one_size(tmp_path):
    inputs = ",".join(tensor(name, "INT64", "-1") for name in ("input_ids", "attention_mask"))
    made = planned(tmp_path, inputs, batch=8)
    assert sizes(made) == {"batch": "1 to 8", "n": "8 to 128"}
    for request in run_script(made).requests[:20]:
        shapes = {values.shape for values in decode(request).values()}
        assert len(shapes) == 1


def test_families_of_names_have_sizes_of_their_own(tmp_path):
    names = ("cand_id", "cand_bid", "hist_id", "hist_time")
    made = planned(tmp_path, ",".join(tensor(name, "INT64", "-1") for name in names), batch=1)
    assert {name: value.split()[1] for name, (value, _) in rows(made).items()} == {
        "cand_id": "[n_cand]", "cand_bid": "[n_cand]", "hist_id": "[n_hist]",
        "hist_time": "[n_hist]",
    }  # fmt: skip


def test_a_length_is_that_of_the_input_that_it_is_named_after(tmp_path):
    inputs = ",".join([tensor("WAV", "FP32", "-1"), tensor("WAV_LENS", "INT32", "1")])
    made = planned(tmp_path, inputs, batch=4)
    assert rows(made)["WAV_LENS"] == ("INT32 [1] size(n)", "the length of WAV")
    for request in run_script(made).requests[:5]:
        tensors = decode(request)
        assert set(tensors["WAV_LENS"].ravel()) == {tensors["WAV"].shape[1]}


def test_batches_are_small_where_the_server_gathers_them(tmp_path):
    x = tensor("x", "FP32", "3")
    assert sizes(planned(tmp_path / "a", x, batch=64)) == {"batch": "1 to 32"}
    gathered = planned(tmp_path / "b", x, batch=64, more="dynamic_batching { }")
    assert sizes(gathered) == {"batch": "1 to 4"}
    ragged = tensor("x", "FP32", "-1", "allow_ragged_batch: true")
    assert sizes(planned(tmp_path / "c", ragged, batch=64))["batch"] == "1 to 1"


def test_large_rows_make_small_batches_and_few_requests(tmp_path):
    made = planned(tmp_path, tensor("image", "FP32", "3, 1024, 1024"), batch=32)
    assert sizes(made) == {"batch": "1 to 1"}
    assert "REQUESTS = 16 " in made.files["traffic/synthetic.py"]


def test_optional_inputs_are_sometimes_left_out(tmp_path):
    inputs = ",".join([tensor("a", "FP32", "1"), tensor("b", "FP32", "1", "optional: true")])
    made = planned(tmp_path, inputs)
    held = [sorted(decode(request)) for request in run_script(made).requests]
    assert sorted(map(tuple, {tuple(names) for names in held})) == [("a",), ("a", "b")]
    assert 0.4 < held.count(["a", "b"]) / len(held) < 0.6


def test_strings_come_from_the_vocabulary_file_of_that_name(tmp_path):
    files = {
        **python_model("m", given="user_country"),
        "models/m/1/vocab/country.txt": "de\nfr\n日本\n",
        "models/m/1/vocab/city.txt": "x\ny\n",
    }
    made = plan.make(put(tmp_path, files))
    path = "models/m/1/vocab/country.txt"
    assert rows(made)["user_country"] == (f"BYTES [1] lines({path})", f"values of {path}")
    assert f"inputs: [traffic/synthetic.py, {path}]" in made.files[".github/fvec.yml"]
    traffic = run_script(made)
    seen = {value for r in traffic.requests[:99] for value in decode(r)["user_country"].ravel()}
    assert seen == {b"de", b"fr", "日本".encode()}


@pytest.mark.parametrize(
    "code",
    [
        "COUNTRIES = {'de': 0, 'fr': 1}\n",
        "class M:\n    countries = frozenset(['de', 'fr'])\n",
        "class M:\n    def initialize(self, args):\n        self.country_to_id = {'de': 0, 'fr': 1}\n",
        "vocab: dict[str, int] = {'de': 0, 'fr': 1}\n",
    ],
)
def test_strings_come_from_a_vocabulary_in_the_code(tmp_path, code):
    made = planned(tmp_path, tensor("country", "STRING", "1"), code=code)
    assert rows(made)["country"][0] == "BYTES [1] one_of(['de', 'fr'])"


def test_strings_come_from_a_json_vocabulary(tmp_path):
    files = {**python_model("m", given="device"), "models/m/1/device.json": '{"ios": 0, "tv": 1}'}
    made = plan.make(put(tmp_path, files))
    assert rows(made)["device"] == (
        "BYTES [1] one_of(['ios', 'tv'])", "values of models/m/1/device.json",
    )  # fmt: skip


def test_names_of_tensors_are_no_vocabulary(tmp_path):
    code = "input_names = ['query', 'other']\n"
    made = planned(tmp_path, tensor("query", "STRING", "1"), code=code)
    assert rows(made)["query"] == ("BYTES [1] words(3, 24)", "English words")


def test_an_ensembles_input_is_known_by_the_name_behind_it_too(tmp_path):
    files = {**ensemble(), "models/encoder/1/raw.txt": "one\ntwo\n"}
    assert rows(plan.make(put(tmp_path, files)))["text"] == (
        "BYTES [1] lines(models/encoder/1/raw.txt)", "values of models/encoder/1/raw.txt",
    )  # fmt: skip


def test_code_that_parses_json_is_pointed_out(tmp_path):
    usual = "import json\ndef f(args):\n    json.loads(args['model_config'])\n"
    x = tensor("payload", "STRING", "1")
    told = "the code of m reads JSON: give its strings real values"
    assert told not in planned(tmp_path / "a", x, code=usual).correct_first
    assert told in planned(tmp_path / "b", x, code=f"{usual}    json.loads(b'')\n").correct_first


def test_images_that_come_as_files_are_real_ones(tmp_path):
    code = "import base64\nbase64.b64decode(x)\n"
    inputs = ",".join([tensor("raw", "UINT8", "-1"), tensor("image", "STRING", "1")])
    first = decode(run_script(planned(tmp_path, inputs, code=code)).requests[0])
    for data in (first["raw"].tobytes(), base64.b64decode(first["image"].item())):
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack_from(">II", data, 16)
        start = data.index(b"IDAT") + 4
        pixels = zlib.decompress(data[start : start + int.from_bytes(data[start - 8 : start - 4])])
        assert (width, height, len(pixels)) == (224, 224, 224 * (1 + 3 * 224))


def test_images_without_sizes_get_one(tmp_path):
    made = planned(tmp_path, tensor("image", "FP32", "-1, -1, -1"))
    assert rows(made)["image"][0] == "FP32 [3xheightxwidth] uniform(0.0, 1.0)"
    assert sizes(made) == {"height": "224 to 224", "width": "224 to 224"}


def test_hostile_names_stay_data(tmp_path):
    name = "'''\\n\\\"); import os; os._exit(9) #\u00fc"
    made = planned(tmp_path, tensor(name, "FP32", "1"))
    (held,) = decode(run_script(made).requests[0])
    assert held == "'''\n\"); import os; os._exit(9) #\u00fc"


def test_all_certainties_but_sure_are_marked_in_the_script(tmp_path):
    made = planned(tmp_path, tensor("x", "FP32", "1"))
    text = made.files["traffic/synthetic.py"]
    assert "'x': ('FP32', [1], ('normal', 0.0, 1.0)),  # guess: nothing says what it holds" in text
    assert [g.certainty for g in made.guesses if g.key == "traffic INPUTS x"] == [Certainty.GUESS]


def test_the_tables_are_all_that_differs_from_the_package(tmp_path):
    made = planned(tmp_path, tensor("x", "FP32", "1"))
    own = Path(generator.__file__).read_text()
    written = made.files["traffic/synthetic.py"]
    assert written.partition(script.BEGIN)[0] == own.partition(script.BEGIN)[0]
    assert written.partition(script.END)[2] == own.partition(script.END)[2]


def test_no_inputs_are_an_error_of_the_generator():
    with pytest.raises(ValueError, match="INPUTS is empty"):
        next(generator.requests(np.random.default_rng(0), Tables("m", {}), 1))


def test_a_value_that_does_not_fit_is_told_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(generator.NUMBERS, "normal", lambda rng, shape, mean, sd: np.zeros(7))
    with pytest.raises(InvalidInput, match="7 elements do not fill"):
        planned(tmp_path, tensor("x", "FP32", "1"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models"]


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"{CORPUS} is not here")
def test_real_configurations_are_planned_or_refused_with_a_reason(tmp_path):
    refused = []
    for number, path in enumerate(sorted(CORPUS.glob("*.pbtxt"))[::6]):
        root = put(tmp_path / str(number), {"models/m/1/model.py": ""})
        (root / "models/m/config.pbtxt").write_bytes(path.read_bytes())
        try:
            plan.make(root)
        except InvalidInput as error:
            refused.append(error.message)
    assert all("no model of models can be read: m: " in message for message in refused)
    assert len(refused) <= 3
