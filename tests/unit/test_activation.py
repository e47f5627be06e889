"""Signs of activation: what both arms showed, held against what the author of a change named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layers.base import Activation, Candidate, Contract, Hotspot, Profile, Sign
from layers.evidence import Gate, GateResult, Iteration, Verdict
from layers.story import MOST_TEXT, ContractRecord
from layers.trial.activation import MOST_TOLD, Shown, gate, signs, undecided, unnamed
from layers.trial.grounds import Ground, contradictions
from layers.trial.trial import Trial, TrialEnded, hypothesis_record, sign_record
from tests.render_fixture import evidence
from tests.unit.test_trial import candidate

FILE = "models/m/1/model.py"
FAST = Activation(Sign.RUNS, "m", f"{FILE}:fast")
SLOW = Activation(Sign.GONE, "m", f"{FILE}:slow")
TABLE = Activation(Sign.LOADED, "m", "models/m/1/table.bin")
DELAY = Activation(Sign.SERVED, "m", "dynamic_batching.max_queue_delay_microseconds", "100")


def contract(*named: Activation, **changes: object) -> Contract:
    values = {
        "claim": "Each row walks the whole table.",
        "expected": (1.1, 1.4),
        "activation": named,
        "falsifier": "The CPU per request stays.",
    }
    return Contract(**(values | changes))


def claimed(made: Contract | None, proposer: str = "command") -> Candidate:
    """Return a candidate that an agent wrote."""
    tried = candidate()
    return replace(tried, hypothesis=replace(tried.hypothesis, proposer=proposer, contract=made))


def spot(function: str, share: float, *, file: str = FILE, process: str = "m", line: int = 0):
    return Hotspot(process, file, function, line, share, inclusive=True)


def profile(*spots: Hotspot, cpu_s: float = 10.0, requests: int = 1000, process: str = "m"):
    return Profile("made up", Path("raw"), cpu_s, requests, {process: 0.9}, {}, spots)


def shown(*spots: Hotspot, **values: object) -> Shown:
    return Shown(profile(*spots, **values))


def looked(one: Activation, baseline: Shown, new: Shown, *changed: str) -> tuple[bool | None, str]:
    (found,) = signs(contract(one), baseline, new, frozenset(changed))
    assert (found.sign, found.model, found.subject, found.value) == (
        one.sign,
        one.model,
        one.subject,
        one.value,
    )
    return found.seen, found.detail


# --- runs -------------------------------------------------------------------------------------


def test_a_function_runs_that_did_not_before():
    found = looked(FAST, shown(spot("slow", 0.4)), shown(spot("fast", 0.1)))
    assert found == (True, "on 10.00% of the CPU, in the baseline on no stack")


def test_a_function_that_never_runs_is_not_seen_and_what_runs_is_told():
    rare = [spot(name, share) for name, share in (("a", 0.1), ("b", 0.3), ("c", 0.2), ("d", 0.01))]
    others = [
        spot("dumps", 0.9, file="/usr/lib/json.py"),
        spot("e", 0.9, process="other"),
        spot("b", 0.29, line=7),
        spot("load", 0.9, file="<frozen importlib>"),
    ]
    assert looked(FAST, shown(), shown(*rare, *others)) == (
        False,
        f"on no stack of its process; seen in m: {FILE}:b (30.0%), {FILE}:c (20.0%), "
        f"{FILE}:a (10.0%)",
    )
    assert looked(FAST, shown(), shown()) == (
        False,
        "on no stack of its process; of the stack's own functions none was seen in m",
    )


def test_a_function_that_ran_before_is_a_sign_only_where_the_change_rewrites_it():
    both = shown(spot("fast", 0.2)), shown(spot("fast", 0.1))
    assert looked(FAST, *both) == (
        False,
        "on 10.00% of the CPU, but it ran before (20.00%) and the change leaves it as it is",
    )
    assert looked(FAST, *both, FAST.subject) == (
        True,
        "on 10.00% of the CPU, rewritten by the change; 20.00% in the baseline",
    )
    assert looked(FAST, *both, "models/m/1/model.py:other")[0] is False


@pytest.mark.parametrize(
    ("found", "seen"),
    [
        (spot("Model.fast", 0.1), True),  # as profilers name it that know the class
        (spot("Model.run.<locals>.fast", 0.1), True),
        (spot("fast", 0.0001, line=12), True),  # too rare for a row of the whole function
        (spot("faster", 0.1), False),
        (spot("fast", 0.1, file="models/m/2/model.py"), False),
        (spot("fast", 0.1, file="other/models/m/1/model.py"), False),
        (spot("fast", 0.1, process="other"), False),
    ],
)
def test_a_function_is_known_by_its_name_its_file_and_its_process(found, seen):
    assert looked(FAST, shown(), shown(found))[0] is seen


def test_a_file_outside_the_repository_is_known_by_the_end_of_its_path():
    one = Activation(Sign.RUNS, "m", "numpy/lib/search.py:find")
    packages = "/env/lib/python3.11/site-packages"
    own = shown(spot("find", 0.1, file=f"{packages}/numpy/lib/search.py"))
    other = shown(spot("find", 0.1, file=f"{packages}/mynumpy/lib/search.py"))
    assert [looked(one, shown(), arm)[0] for arm in (own, other)] == [True, False]


# --- gone -------------------------------------------------------------------------------------


def test_a_function_that_no_stack_holds_any_more_is_gone():
    found = looked(SLOW, shown(spot("slow", 0.3)), shown(spot("fast", 0.1)))
    assert found == (True, "0 ms of CPU per request, 3 ms in the baseline")


def test_gone_is_counted_per_request_and_not_by_a_share_of_what_shrinks():
    """Four times less work in it, and yet more than half of the time that is left."""
    baseline = shown(spot("slow", 0.8), cpu_s=10.0)
    candidate = shown(spot("slow", 0.5), cpu_s=4.0)
    assert looked(SLOW, baseline, candidate) == (
        True,
        "2 ms of CPU per request, 8 ms in the baseline",
    )
    more_requests = shown(spot("slow", 0.8), cpu_s=10.0, requests=4000)
    assert looked(SLOW, baseline, more_requests)[0] is True


@pytest.mark.parametrize(("share", "seen"), [(0.1, True), (0.1001, False), (0.2, False)])
def test_a_function_must_take_at_most_half(share, seen):
    assert looked(SLOW, shown(spot("slow", 0.2)), shown(spot("slow", share)))[0] is seen


def test_a_share_that_only_shrinks_because_others_grow_is_not_gone():
    baseline = shown(spot("slow", 0.4), cpu_s=10.0)
    candidate = shown(spot("slow", 0.1), cpu_s=40.0)
    assert looked(SLOW, baseline, candidate)[0] is False


@pytest.mark.parametrize("spots", [(), (spot("slow", 0.0049),)])
def test_what_takes_next_to_nothing_in_the_baseline_cannot_be_seen_to_go(spots):
    seen, detail = looked(SLOW, shown(*spots, spot("busy", 0.6)), shown())
    assert seen is False
    assert detail.startswith(f"on {sum(s.share for s in spots):.2%} of the baseline's CPU; 0.5% ")
    assert f"seen in m: {FILE}:busy (60.0%)" in detail
    assert looked(SLOW, shown(spot("slow", 0.005)), shown())[0] is True


def test_nothing_is_gone_from_a_process_that_hides():
    """A model's code can rename its process; what is then not on its stacks proves nothing."""
    found = looked(SLOW, shown(spot("slow", 0.3)), shown(process="renamed"))
    assert found == (False, "the candidate has no process of that model to look into")


def test_a_profile_of_a_candidate_that_answered_nothing_divides_by_nothing():
    assert looked(SLOW, shown(spot("slow", 0.3)), shown(spot("slow", 0.3), requests=0))[0] is False


# --- loaded -----------------------------------------------------------------------------------


def mapping(*files: str) -> Shown:
    return Shown(profile(), mapped={"m": frozenset(files)})


def test_a_file_is_mapped_that_was_not_before():
    found = looked(TABLE, mapping("models/m/1/model.py"), mapping(TABLE.subject))
    assert found == (True, "mapped by its process, in the baseline not")
    assert looked(TABLE, Shown(profile()), mapping(TABLE.subject))[0] is True


def test_a_file_that_was_mapped_before_is_a_sign_only_with_other_content():
    both = mapping(TABLE.subject), mapping(TABLE.subject)
    assert looked(TABLE, *both) == (
        False,
        "mapped by its process, but the same file is in the baseline",
    )
    assert looked(TABLE, *both, TABLE.subject) == (
        True,
        "mapped by its process, with other content than in the baseline",
    )


def test_a_file_that_is_not_mapped_is_not_seen_and_what_is_mapped_is_told():
    assert looked(TABLE, mapping(), mapping("d", "c", "b", "a")) == (
        False,
        "not mapped by its process; of the repository's files are: a, b, c",
    )
    others = Shown(profile(), mapped={"other": frozenset({TABLE.subject})})
    assert looked(TABLE, mapping(), others)[1].endswith("of the repository's files are: none")


# --- served -----------------------------------------------------------------------------------


def serving(value: str | None, model: str = "m") -> Shown:
    served = {} if value is None else {(model, DELAY.subject): value}
    return Shown(profile(), served=served)


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (None, "100", True),
        ("0", "100", True),
        ("0", "100.0", True),  # the same number
        ("100", "100", False),  # it was so before
        ("0", "200", False),
        ("0", None, False),
    ],
)
def test_the_server_must_report_the_value_and_have_reported_another_one(before, after, seen):
    found = looked(DELAY, serving(before), serving(after))
    told = ["nothing for it" if value is None else repr(value) for value in (after, before)]
    assert found == (seen, f"the server reports {told[0]}, in the baseline {told[1]}")


def test_a_value_of_another_model_is_no_sign():
    assert looked(DELAY, serving("0"), serving("100", model="other"))[0] is False


@pytest.mark.parametrize(
    ("wanted", "value", "seen"),
    [("True", "true", True), ("KIND_CPU", "kind_cpu ", True), ("yes", "true", False)],
)
def test_values_are_compared_as_words_in_any_case(wanted, value, seen):
    assert looked(replace(DELAY, value=wanted), serving("0"), serving(value))[0] is seen


# --- the gate ---------------------------------------------------------------------------------


def test_the_gate_passes_where_all_signs_were_seen():
    found = signs(
        contract(FAST, SLOW), shown(spot("slow", 0.3)), shown(spot("fast", 0.1)), frozenset()
    )
    assert gate(found) == Gate(
        name="activation",
        result=GateResult.PASS,
        reason="activation_seen",
        detail=f"runs {FILE}:fast of m (on 10.00% of the CPU, in the baseline on no stack); "
        f"gone {FILE}:slow of m (0 ms of CPU per request, 3 ms in the baseline)",
    )


def test_the_gate_fails_where_one_is_missing_and_says_which_and_what_was_seen():
    found = signs(contract(FAST, DELAY), shown(), shown(spot("fast", 0.1)), frozenset())
    missing = gate(found)
    assert (missing.result, missing.reason) == (GateResult.FAIL, "activation_missing")
    assert missing.detail == (
        f"not seen: served {DELAY.subject} = 100 of m (the server reports nothing for it, in the "
        f"baseline nothing for it). Seen: runs {FILE}:fast of m "
        "(on 10.00% of the CPU, in the baseline on no stack)"
    )


def test_the_gate_fails_where_nobody_looked():
    assert gate([sign_record(FAST)]).result is GateResult.FAIL
    assert gate([]).detail == "not seen: no sign is named"


def test_what_is_told_of_a_sign_is_bounded():
    names = [spot("f" * 300 + str(i), 0.1) for i in range(3)]
    (found,) = signs(contract(FAST), shown(), shown(*names), frozenset())
    assert len(found.detail) == MOST_TOLD


def test_a_candidate_that_could_not_be_looked_into_is_undecided():
    found = undecided("py-spy failed")
    assert (found.result, found.reason, found.detail) == (
        GateResult.INCONCLUSIVE,
        "activation_undecided",
        "py-spy failed",
    )


def test_an_agent_has_to_name_a_sign_and_the_cookbook_has_cards():
    assert unnamed(candidate().hypothesis) is None
    assert unnamed(claimed(contract(FAST)).hypothesis) is None
    for made, proposer in ((contract(), "command"), (contract(), "cookbook"), (None, "anthropic")):
        found = unnamed(claimed(made, proposer).hypothesis)
        assert found is not None
        assert (found.result, found.reason) == (GateResult.FAIL, "activation_missing")


# --- the record -------------------------------------------------------------------------------


def test_a_hypothesis_is_recorded_with_its_contract_and_signs_that_nobody_looked_for():
    record = hypothesis_record(claimed(contract(FAST, DELAY, skill="rank-by-search")).hypothesis)
    assert record.proposer == "command"
    assert record.contract == ContractRecord(
        claim="Each row walks the whole table.",
        expected=(1.1, 1.4),
        activation=[sign_record(FAST), sign_record(DELAY)],
        falsifier="The CPU per request stays.",
        skill="rank-by-search",
    )
    assert [sign.seen for sign in record.contract.activation] == [None, None]
    long = hypothesis_record(claimed(contract(FAST, claim="x" * 9000)).hypothesis)
    assert long.contract is not None
    assert len(long.contract.claim) == MOST_TEXT


def test_a_trial_records_the_signs_as_they_were_seen():
    trial = Trial(1, claimed(contract(FAST)))
    end = TrialEnded(Verdict.REJECTED, "slower")
    before = trial.iteration(end, 0.0)
    assert before.hypothesis.contract is not None
    assert before.hypothesis.contract.activation == [sign_record(FAST)]
    assert before.profile is None
    trial.signs = signs(contract(FAST), shown(), shown(spot("fast", 0.1)), frozenset())
    after = trial.iteration(end, 0.0)
    assert after.hypothesis.contract is not None
    assert [sign.seen for sign in after.hypothesis.contract.activation] == [True]
    assert Trial(1, candidate()).iteration(end, 0.0).hypothesis.contract is None


# --- an accepted verdict from elsewhere -------------------------------------------------------


def said(iteration: Iteration) -> list[str]:
    whole = evidence()
    class_, slo_p99_ms = iteration.hypothesis.change_class, whole.stack.slo_p99_ms
    return list(
        contradictions(iteration, Ground(class_, whole.noise.work, whole.blocks, slo_p99_ms))
    )


def accepted(made: Contract | None, *, seen: bool | None, gated: bool) -> Iteration:
    """Return an accepted iteration as an agent's, with what it says of its signs."""
    whole = evidence().iteration
    tried = claimed(made).hypothesis
    found = [sign_record(one, seen=seen) for one in made.activation] if made else None
    record = hypothesis_record(tried, signs=found)
    hypothesis = whole.hypothesis.model_copy(
        update={"proposer": record.proposer, "contract": record.contract}
    )
    planned = Gate(name="plan", result=GateResult.PASS, reason="within_its_plan")
    passed = Gate(name="activation", result=GateResult.PASS, reason="activation_seen")
    gates = [*whole.gates, planned, *([passed] if gated else [])]
    return whole.model_copy(update={"hypothesis": hypothesis, "gates": gates})


def test_an_accepted_change_of_an_agent_has_signs_that_were_seen():
    assert said(evidence().iteration) == []
    assert said(accepted(contract(FAST), seen=True, gated=True)) == []
    assert said(accepted(contract(FAST), seen=True, gated=False)) == [
        "it is accepted, and the gate activation is not there"
    ]
    unseen = f"it is accepted, and its sign runs {FAST.subject!r} was not seen"
    assert said(accepted(contract(FAST), seen=None, gated=True)) == [unseen]
    unnamed_sign = "it is accepted, and names no sign by which its new path could be seen"
    for made in (None, contract()):
        assert said(accepted(made, seen=None, gated=True)) == [unnamed_sign]


def test_an_accepted_change_of_an_agent_was_held_to_its_plan():
    whole = accepted(contract(FAST), seen=True, gated=True)
    gates = [gate for gate in whole.gates if gate.name != "plan"]
    assert said(whole.model_copy(update={"gates": gates})) == [
        "it is accepted, and the gate plan is not there"
    ]
