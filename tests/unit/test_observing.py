"""What a trial sees of two running arms from outside: files, configurations, sources, profiles."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from layers.base import Activation, Contract, Profile, Sign, StackView
from layers.errors import Missing, ToolFailed
from layers.events import Silent
from layers.evidence import ProfileRecord, Verdict
from layers.measure.launch import DoesNotServe, Launch
from layers.trial.observing import (
    MOST_LOOKS,
    MOST_VALUE,
    Looked,
    Profiling,
    changed_subjects,
    doubles,
    mapped_files,
    observe,
    reported,
    station,
)
from layers.trial.trial import Trial, TrialEnded
from layers.triton.client import Refused
from tests.unit.test_activation import FILE, claimed, contract, profile, spot
from tests.unit.test_trial import MANIFEST, candidate

CONFIG = """\
name: "m"
backend: "python"
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 100 preferred_batch_size: [ 4, 8 ] }
instance_group [ { kind: KIND_CPU count: 2 } ]
parameters { key: "a.b" value { string_value: "7" } }
"""


def config(text: str = CONFIG) -> ModelConfig:
    return text_format.Parse(text, ModelConfig())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("max_batch_size", "8"),
        ("dynamic_batching.max_queue_delay_microseconds", "100"),
        ("dynamic_batching.preferred_batch_size", "4, 8"),
        ("dynamic_batching.preferred_batch_size[1]", "8"),
        ("dynamic_batching.preserve_ordering", "false"),
        ("instance_group[0].kind", "KIND_CPU"),
        ("instance_group.count", "2"),
        ("parameters.a.b.string_value", "7"),
        ("sequence_batching", None),
        ("sequence_batching.max_sequence_idle_microseconds", None),
        ("parameters.a.string_value", None),
        ("instance_group[3].count", None),
        ("dynamic_batching.preferred_batch_size.first", None),
        ("name.more", None),
        ("input", None),
        ("input.name", None),
        ("no_such_field", None),
    ],
)
def test_what_a_configuration_says_at_a_path(path, value):
    assert reported(config(), path) == value


def test_a_section_that_is_there_and_empty_is_told_from_one_that_is_not():
    assert reported(config('name: "m"'), "dynamic_batching") is None
    assert reported(config("dynamic_batching { }"), "dynamic_batching") == ""
    assert reported(config(), "instance_group") == "count: 2 kind: KIND_CPU"


def test_a_value_is_bounded():
    long = reported(config(f'name: "{"x" * 5000}"'), "name")
    assert long == "x" * MOST_VALUE


# --- mapped files -----------------------------------------------------------------------------


def test_files_below_a_folder_that_a_process_maps(tmp_path):
    root = tmp_path.resolve()
    (root / "models").mkdir()
    file = root / "models/a table.bin"
    file.write_bytes(b"x" * 100)
    (root / "models/other.bin").write_bytes(b"x")
    with (
        file.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        assert mapped[:1] == b"x"
        assert mapped_files(os.getpid(), root) == {"models/a table.bin"}
        assert mapped_files(os.getpid(), root / "models") == {"a table.bin"}
        assert mapped_files(os.getpid(), root / "mod") == frozenset()
    assert mapped_files(os.getpid(), root) == frozenset()


def test_a_process_that_is_gone_maps_nothing(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "pass"]) as ended:
        pass
    assert mapped_files(ended.pid, tmp_path) == frozenset()


# --- what a change rewrites -------------------------------------------------------------------

SOURCE = """\
class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        return slow(request)
"""


def rewritten(tmp_path: Path, old: str | None, new: str | None, subject: str) -> bool:
    roots = [tmp_path / arm for arm in ("baseline", "candidate")]
    for root, text in zip(roots, (old, new), strict=True):
        root.mkdir()
        if text is not None:
            (root / "model.py").write_text(text)
    one = Activation(Sign.RUNS, "m", f"model.py:{subject}")
    found = changed_subjects(contract(one), *roots)
    assert found <= {one.subject}
    return bool(found)


@pytest.mark.parametrize(
    ("new", "function", "changed"),
    [
        (SOURCE, "answer", False),
        (SOURCE.replace("slow", "fast"), "answer", True),
        (SOURCE.replace("slow", "fast"), "TritonPythonModel.answer", True),
        (SOURCE.replace("slow", "fast"), "execute", False),
        (SOURCE.replace("return slow", "# why\n        return  slow"), "answer", False),
        (SOURCE.replace("request)", "one)"), "answer", False),  # another name of a variable
        (SOURCE.replace("(self, request)", "(self, request: object) -> object"), "answer", False),
        (SOURCE + "\ndef fast(r):\n    return r\n", "fast", True),
        (SOURCE + "\ndef fast(r):\n    return r\n", "answer", False),
        (SOURCE + "def (", "answer", True),  # no Python any more
        (SOURCE + "X = 1\n", "<lambda>", True),  # not told apart: any change of the file counts
        (None, "answer", True),
    ],
)
def test_a_function_counts_as_changed_where_its_own_syntax_is(tmp_path, new, function, changed):
    assert rewritten(tmp_path, SOURCE, new, function) is changed


@pytest.mark.parametrize(("old", "new", "changed"), [(None, SOURCE, True), (None, None, False)])
def test_a_new_file_is_changed_and_one_that_is_nowhere_is_not(tmp_path, old, new, changed):
    assert rewritten(tmp_path, old, new, "answer") is changed


def test_a_link_is_not_followed(tmp_path):
    for name, text in (("baseline", SOURCE), ("candidate", SOURCE.replace("slow", "fast"))):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / name / "model.py").symlink_to(tmp_path / f"{name}.py")
    one = contract(Activation(Sign.RUNS, "m", "model.py:answer"))
    assert changed_subjects(one, tmp_path / "baseline", tmp_path / "candidate") == frozenset()


def test_a_file_to_be_mapped_is_changed_where_its_bytes_are(tmp_path):
    for name, content in (("baseline", b"1"), ("candidate", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.bin").write_bytes(b"0")
        (tmp_path / name / "other.bin").write_bytes(content)
    (tmp_path / "candidate/new.bin").write_bytes(b"0")
    named = [
        Activation(Sign.LOADED, "m", f"{name}.bin") for name in ("same", "other", "new", "absent")
    ]
    found = changed_subjects(contract(*named), tmp_path / "baseline", tmp_path / "candidate")
    assert found == {"other.bin", "new.bin", "absent.bin"}


# --- what is only renamed -----------------------------------------------------------------------

RENAMED = SOURCE.replace("answer", "reply")


def twins(tmp_path: Path, one: Activation, sources: dict[str, dict[str, str]], *spots) -> set[str]:
    """Return what does the same as a sign's function in the other arm; both run the spots."""
    arms = []
    for arm in ("baseline", "candidate"):
        for name, text in sources[arm].items():
            path = tmp_path / arm / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        arms.append(Looked(tmp_path / arm, profile(*spots)))
    return set(doubles(contract(one), *arms).get(one, ()))


ANSWER, REPLY = spot("answer", 0.5, file="model.py"), spot("reply", 0.5, file="model.py")


@pytest.mark.parametrize(
    ("sign", "subject", "found"),
    [
        (Sign.RUNS, "model.py:reply", {"model.py:answer"}),
        (Sign.RUNS, "model.py:execute", set()),  # it calls another name: other code
        (Sign.GONE, "model.py:answer", {"model.py:reply"}),
        (Sign.GONE, "model.py:none", set()),
        (Sign.GONE, "numpy/core.py:dot", set()),
        (Sign.LOADED, "model.py", set()),
    ],
)
def test_a_function_is_found_again_under_another_name(tmp_path, sign, subject, found):
    sources = {"baseline": {"model.py": SOURCE}, "candidate": {"model.py": RENAMED}}
    assert twins(tmp_path, Activation(sign, "m", subject), sources, ANSWER, REPLY) == found


def test_a_function_is_found_again_in_another_file_of_its_process(tmp_path):
    sources = {
        "baseline": {"model.py": SOURCE},
        "candidate": {"model.py": "", "lib/new.py": RENAMED, "other.py": RENAMED},
    }
    one = Activation(Sign.GONE, "m", "model.py:answer")
    moved = spot("reply", 0.5, file="lib/new.py")
    elsewhere = spot("reply", 0.5, file="other.py", process="other")
    assert twins(tmp_path, one, sources, moved, elsewhere) == {"lib/new.py:reply"}


def test_what_is_rewritten_or_left_as_it_is_has_no_double(tmp_path):
    fast = SOURCE.replace("slow", "fast")
    sources = {"baseline": {"model.py": SOURCE}, "candidate": {"model.py": fast}}
    for sign in (Sign.RUNS, Sign.GONE):
        for function in ("answer", "execute"):
            one = Activation(sign, "m", f"model.py:{function}")
            assert twins(tmp_path, one, sources, ANSWER) == set()


def test_no_file_outside_the_checkout_is_looked_through(tmp_path):
    (tmp_path / "beside.py").write_text(RENAMED)
    sources = {"baseline": {"model.py": SOURCE}, "candidate": {"model.py": ""}}
    one = Activation(Sign.GONE, "m", "model.py:answer")
    for name in ("../beside.py", str(tmp_path / "beside.py"), "<string>", "a\0b.py", "none.py"):
        assert twins(tmp_path, one, sources, spot("reply", 0.5, file=name)) == set()


def test_a_renamed_function_ends_the_trial(tmp_path):
    sources = {"baseline": SOURCE, "candidate": RENAMED}
    for arm, text in sources.items():
        (tmp_path / arm / FILE).parent.mkdir(parents=True)
        (tmp_path / arm / FILE).write_text(text)

    def profiled(_served: Running, name: str) -> Profile:
        return profile(spot("reply" if name.endswith("candidate") else "answer", 0.5))

    named = [
        Activation(Sign.RUNS, "m", f"{FILE}:reply"),
        Activation(Sign.GONE, "m", f"{FILE}:answer"),
    ]
    for one in named:
        trial = looked_for(tmp_path, contract(one), profiled)
        assert trial.warnings == ["rejected: activation_missing"]
        assert "the same code as" in trial.gates[0].detail


# --- both arms --------------------------------------------------------------------------------

RUNS = Activation(Sign.RUNS, "m", f"{FILE}:fast")
SERVED = Activation(Sign.SERVED, "m", "max_batch_size", "8")


@dataclass
class Running:
    """A deployment as a trial asks it; it may have died."""

    text: str = CONFIG
    dead: bool = False
    asked: list[str] = field(default_factory=list)

    def pids(self) -> dict[str, int]:
        return {"m": os.getpid()}

    def alive(self) -> None:
        if self.dead:
            raise ToolFailed("the process of m (pid 1) has died")

    def config(self, model: str) -> ModelConfig:
        self.asked.append(model)
        if model != "m" or self.dead:
            raise Refused(f"configuration of {model}", "UNAVAILABLE", "no such model")
        return config(self.text)


def test_only_what_the_signs_ask_for_is_looked_at(tmp_path):
    view, served = StackView(tmp_path, "c", MANIFEST, Path("python")), Running()
    found = observe(served, view, profile(), contract(RUNS))
    assert (dict(found.mapped), dict(found.served), served.asked) == ({}, {}, [])
    elsewhere = Activation(Sign.SERVED, "other", "max_batch_size", "8")
    loaded = [Activation(Sign.LOADED, model, "x") for model in ("m", "other")]
    found = observe(served, view, profile(), contract(SERVED, elsewhere, *loaded))
    assert dict(found.served) == {("m", "max_batch_size"): "8"}
    assert dict(found.mapped) == {"m": frozenset()}


def test_a_server_that_died_is_not_taken_for_one_without_the_model(tmp_path):
    view = StackView(tmp_path, "c", MANIFEST, Path("python"))
    with pytest.raises(ToolFailed, match="has died"):
        observe(Running(dead=True), view, profile(), contract(SERVED))


def record(found: Profile) -> ProfileRecord:
    return ProfileRecord(
        tool=found.tool,
        raw="raw",
        cpu_s=found.cpu_s,
        requests=found.requests,
        by_process={},
        by_layer={},
        hotspots=[],
    )


def looked_for(
    tmp_path: Path,
    made: Contract | None,
    profiled: Callable[[Running, str], Profile],
    *,
    candidate_arm: Running | None = None,
) -> Trial:
    """Have the signs of a contract looked for on two arms; return the trial, unless it ended."""
    arms = {"baseline": Running('name: "m"'), "candidate": candidate_arm or Running()}
    launch = Launch(SimpleNamespace(events=Silent()), 1, None, None, "candidate-1")
    launch._arms = dict(arms)
    views = {arm: StackView(tmp_path / arm, "c", MANIFEST, Path("python")) for arm in arms}
    trial = Trial(1, claimed(made) if made else candidate())
    profiling = Profiling(lambda served, _view, name: profiled(served, name), record)
    with kept(trial):
        station(trial, launch, views, profiling)
    return trial


@contextmanager
def kept(trial: Trial) -> Iterator[None]:
    """Keep how the trial ended in its warnings, if it did."""
    ends = []
    try:
        yield
    except TrialEnded as end:
        ends.append(end)
    assert all(end.verdict in (Verdict.REJECTED, Verdict.INCONCLUSIVE) for end in ends)
    trial.warnings += [f"{end.verdict}: {end.reason}" for end in ends]


def test_both_arms_are_profiled_in_turn_under_names_of_their_own(tmp_path):
    names = []

    def profiled(_served: Running, name: str) -> Profile:
        names.append(name)
        return profile(spot("fast", 0.1)) if name.endswith("candidate") else profile(cpu_s=20.0)

    trial = looked_for(tmp_path, contract(RUNS, SERVED), profiled)
    assert names == ["candidate-1-baseline", "candidate-1-candidate"]
    assert [(one.name, one.reason) for one in trial.gates] == [("activation", "activation_seen")]
    assert trial.warnings == []
    assert trial.profile is not None
    assert trial.profile.cpu_s == 10.0  # the candidate's
    assert [sign.seen for sign in trial.signs or []] == [True, True]


def rarely(*looks: Profile) -> tuple[list[str], Callable[[Running, str], Profile]]:
    """Return the names that are profiled, filled as they are, and what does: a candidate's look in turn."""
    names: list[str] = []

    def profiled(_served: Running, name: str) -> Profile:
        names.append(name)
        if name.endswith("baseline"):
            return profile(spot("slow", 0.4), cpu_s=20.0)
        return looks[sum(each.endswith("candidate") for each in names) - 1]

    return names, profiled


def test_both_arms_are_profiled_again_while_a_function_is_on_no_stack(tmp_path):
    names, profiled = rarely(profile(spot("other", 0.2)), profile(spot("fast", 0.001)))
    trial = looked_for(tmp_path, contract(RUNS), profiled)
    assert names == [
        *("candidate-1-baseline", "candidate-1-candidate"),
        *("candidate-1-look-2-baseline", "candidate-1-look-2-candidate"),
    ]
    assert [(one.name, one.reason) for one in trial.gates] == [("activation", "activation_seen")]


def test_functions_of_two_looks_count_together(tmp_path):
    first = Activation(Sign.RUNS, "m", f"{FILE}:first")
    _, profiled = rarely(profile(spot("first", 0.001)), profile(spot("fast", 0.001)))
    trial = looked_for(tmp_path, contract(first, RUNS), profiled)
    assert [sign.seen for sign in trial.signs or []] == [True, True]


def test_what_the_baseline_shows_in_a_later_look_counts_as_well(tmp_path):
    def profiled(_served: Running, name: str) -> Profile:
        return profile(spot("fast", 0.001)) if "look-2" in name else profile()

    trial = looked_for(tmp_path, contract(RUNS), profiled)
    assert trial.warnings == ["rejected: activation_missing"]
    assert "it ran before" in (trial.signs or [])[0].detail


def test_what_is_on_no_stack_of_three_profiles_is_not_seen(tmp_path):
    names, profiled = rarely(*[profile(spot("other", 0.2))] * MOST_LOOKS)
    trial = looked_for(tmp_path, contract(RUNS), profiled)
    assert len(names) == 2 * MOST_LOOKS
    assert trial.warnings == ["rejected: activation_missing"]


def test_a_baseline_that_cannot_be_profiled_again_is_our_failure(tmp_path):
    def profiled(_served: Running, name: str) -> Profile:
        if name.endswith("look-2-baseline"):
            raise ToolFailed("py-spy failed")
        return profile()

    with pytest.raises(ToolFailed):
        looked_for(tmp_path, contract(RUNS), profiled)


def test_a_sign_that_is_not_seen_ends_the_trial_with_what_was_seen_kept(tmp_path):
    trial = looked_for(tmp_path, contract(RUNS, SERVED), lambda _served, _name: profile())
    assert trial.warnings == ["rejected: activation_missing"]
    assert [sign.seen for sign in trial.signs or []] == [False, True]
    assert trial.profile is not None


def test_without_a_contract_nothing_is_profiled(tmp_path):
    def profiled(_served: Running, _name: str) -> Profile:
        raise AssertionError("profiled")

    assert looked_for(tmp_path, None, profiled).gates == []


def failing(arm: str, error: Exception) -> Callable[[Running, str], Profile]:
    def profiled(_served: Running, name: str) -> Profile:
        if name.endswith(arm):
            raise error
        return profile()

    return profiled


@pytest.mark.parametrize("error", [ToolFailed("py-spy failed\nlong log"), Missing("may not read")])
def test_a_candidate_that_cannot_be_profiled_is_undecided(tmp_path, error):
    trial = looked_for(tmp_path, contract(RUNS), failing("candidate", error))
    assert trial.warnings == ["inconclusive: activation_undecided"]
    assert trial.gates[0].detail.endswith(str(error).partition("\n")[0])
    assert (trial.signs, trial.profile) == (None, None)


@pytest.mark.parametrize(
    "profiled",
    [
        failing("candidate", ToolFailed("a backend process ended")),
        lambda _served, _name: profile(),  # it died after the last sample
    ],
)
def test_a_candidate_that_dies_while_it_is_profiled_does_not_serve(tmp_path, profiled):
    with pytest.raises(DoesNotServe, match="has died") as caught:
        looked_for(tmp_path, contract(RUNS), profiled, candidate_arm=Running(dead=True))
    assert caught.value.reason == "died_under_load"


@pytest.mark.parametrize("error", [ToolFailed("py-spy failed"), Missing("no py-spy")])
def test_a_baseline_that_cannot_be_profiled_is_our_failure(tmp_path, error):
    with pytest.raises(type(error)):
        looked_for(tmp_path, contract(RUNS), failing("baseline", error))


def test_a_contract_is_not_passed_over_where_nothing_profiles(tmp_path):
    launch = Launch(SimpleNamespace(events=Silent()), 1, None, None, "candidate-1")
    with pytest.raises(ToolFailed, match="nothing profiles here"):
        station(Trial(1, claimed(contract(RUNS))), launch, {}, None)
