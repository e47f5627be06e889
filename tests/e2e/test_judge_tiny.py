"""`fvec judge` and `fvec verify` on a real server: the right reason for each, the checkout untouched."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from bot import cli
from layers.manifest import MANIFEST_PATH
from tests.e2e.proposals import FEATURES, RANKER, edit, git, slow_repository, state_of
from tests.render_fixture import evidence
from tests.undecided import skip_if_given_up

pytestmark = [
    pytest.mark.timeout(900),  # whole judgements, of more launches where the machine is noisy
    pytest.mark.triton,
    pytest.mark.alone,
    pytest.mark.usefixtures("short_runs"),
]
CONFIG = "models/tiny_features/config.pbtxt"
SCORE = 'tensor = pb_utils.Tensor("score", score.astype(np.float32))'


def patch_of(root: Path, *changes: tuple[str, str, str]) -> bytes:
    """Return the diff of edits, which are taken back."""
    for change in changes:
        edit(root, *change)
    data = subprocess.run(["git", "diff"], cwd=root, check=True, capture_output=True).stdout
    git(root, "checkout", "--quiet", "--", ".")
    return data


def judged(root: Path, patch: bytes, capsys, *options: str) -> tuple[int, dict]:
    """Judge `patch` by the command line; the checkout must be as it was."""
    before, file, out = state_of(root), root.parent / "their.diff", root.parent / "out"
    file.write_bytes(patch)
    argv = ["judge", str(root), "--patch", str(file), "--out", str(out), "--json", *options]
    code = cli.main(argv)
    told = capsys.readouterr()
    assert state_of(root) == before
    assert git(root, "worktree", "list").count("\n") == 0
    assert "Traceback" not in told.err
    report = json.loads(told.out)
    skip_if_given_up(code, report.get("detail"))
    if report["schema"] == "fvec.judge/1":
        assert json.loads((out / "judge.json").read_text()) == report
        assert (out / "judge.md").read_text().startswith(f"**{report['verdict']}**")
        assert report["patch_sha256"] == hashlib.sha256(patch).hexdigest()
    return code, report


def test_a_patch_that_edits_the_evaluator(tiny_repo, capsys):
    patch = patch_of(tiny_repo, ("traffic/record.py", "integers(1, 60)", "integers(1, 6)"))
    code, report = judged(tiny_repo, patch, capsys)
    assert (code, report["verdict"], report["reason"]) == (1, "rejected", "touches_protected_files")
    assert report["gates"] == [
        {
            "name": "paths",
            "result": "fail",
            "reason": "touches_protected_files",
            "detail": "traffic/record.py",
        }
    ]


def test_a_patch_that_touches_the_owners_files_even_where_git_would_refuse_it(tiny_repo, capsys):
    for name in (".github/workflows/x.yml", str(MANIFEST_PATH), ".git/hooks/post-checkout"):
        new = f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n"
        code, report = judged(tiny_repo, f"{new}@@ -0,0 +1 @@\n+x\n".encode(), capsys)
        assert (code, report["reason"], report["detail"]) == (1, "touches_protected_files", name)


def test_a_patch_that_changes_nothing(tiny_repo, capsys):
    code, report = judged(tiny_repo, b"", capsys)
    assert (code, report["verdict"], report["reason"]) == (1, "rejected", "no_op_edit")
    assert report["warnings"] == [
        "no class was given: judged as exact, since not only config.pbtxt changes"
    ]


def test_code_under_the_class_of_configurations(tiny_repo, capsys):
    patch = patch_of(tiny_repo, (FEATURES, "import numpy as np\n", "import numpy as np\n\n"))
    code, report = judged(tiny_repo, patch, capsys, "--class", "config")
    assert (code, report["reason"]) == (1, "config_change_is_a_code_patch")
    assert report["change_class"] == "config"


def test_a_patch_that_does_not_apply_is_invalid_input_with_its_hunk(tiny_repo, capsys):
    patch = patch_of(tiny_repo, (FEATURES, "import numpy as np\n", "import numpy as np\n\n"))
    code, report = judged(tiny_repo, patch.replace(b" import numpy", b" import nonsense"), capsys)
    assert (code, report["schema"]) == (3, "fvec.error/1")
    assert report["error"]["message"].startswith("their.diff:5: the patch does not apply: ")
    assert FEATURES in report["error"]["message"]


@pytest.mark.usefixtures("calibrated_once")
def test_a_planted_slow_down(tiny_repo, capsys):
    slow = f"sum(range(60_000))\n            {SCORE}"
    code, report = judged(tiny_repo, patch_of(tiny_repo, (RANKER, SCORE, slow)), capsys)
    assert (code, report["verdict"]) == (1, "rejected")
    assert report["reason"] in {"slower", "below_noise_floor", "boundary_out_of_reach"}
    assert report["gates"][-1]["name"] == "gain"
    assert report["looks"][-1]["estimate"] < 1
    assert report["files_changed"] == [RANKER]
    assert report["resolvable"]
    assert report["noise"]["work"]["pairs"] >= 4


@pytest.mark.usefixtures("calibrated_once")
def test_a_wrong_result_for_one_rare_row(tiny_repo, capsys):
    """One row in a thousand has 49 clicks or more; most requests have no such row."""
    rare = "log_clicks = np.log1p(np.maximum(clicks, 0)).astype(np.float32).reshape(-1, 1)"
    wrong = f"{rare}\n        log_clicks[clicks > 48] += 0.5"
    code, report = judged(tiny_repo, patch_of(tiny_repo, (FEATURES, rare, wrong)), capsys)
    assert (code, report["verdict"], report["reason"]) == (1, "rejected", "outputs_differ")
    probed, gate = report["equivalence"][0], report["gates"][-1]
    assert (gate["result"], gate["reason"]) == ("fail", "outputs_differ")
    if gate["name"] == "correctness":
        # Few of the recording's, more of requests whose numbers are beyond it.
        assert 0 < probed["differing"] < probed["elements"] / 5
    else:  # no probe happened to hold such a row: every timed answer is compared too
        assert (gate["name"], probed["differing"]) == ("timed correctness", 0)


@pytest.mark.usefixtures("calibrated_once")
def test_a_configuration_is_judged_as_one_without_being_told(tiny_repo, capsys):
    patch = patch_of(tiny_repo, (CONFIG, "# one is enough so far", "# one"))
    _, report = judged(tiny_repo, patch, capsys)
    assert report["change_class"] == "config"
    assert report["warnings"][0] == (
        "no class was given: judged as config, since only config.pbtxt files change"
    )
    assert report["verdict"] != "accepted"


FAST = (
    "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
    'return np.searchsorted(PERCENTILES, clicks, side="right")',
)


@pytest.mark.usefixtures("calibrated_once")
def test_a_gain_is_accepted_and_its_evidence_holds_again(tmp_path, capsys):
    root = slow_repository(tmp_path / "slow")
    patch = patch_of(root, (FEATURES, *FAST))
    code, report = judged(root, patch, capsys, "--class", "exact", "--seed", "3")
    assert (code, report.get("reason")) == (0, "gain_confirmed"), report
    assert report["end_to_end"]["throughput_ratio"] > 1.5
    assert report["reproduce"] == [
        "fvec", "judge", ".", "--patch", "their.diff", "--class", "exact", "--seed", "3",
    ]  # fmt: skip
    folder = recorded(tmp_path / "pull", report, patch)
    before = state_of(root)
    argv = ["verify", str(folder), "--stack", str(root), "--out", str(tmp_path / "again")]
    code = cli.main([*argv, "--json"])
    told = capsys.readouterr()
    assert state_of(root) == before
    found = json.loads(told.out)
    skip_if_given_up(code, found.get("detail"))
    assert found["reason"] in {"reproduced", "gain_differs"}, found
    assert code == {"reproduced": 0, "gain_differs": 1}[found["reason"]]
    assert json.loads((tmp_path / "again/verify.json").read_text()) == found
    assert (tmp_path / "again/verify.md").read_text().startswith(f"**{found['verdict']}**")


def recorded(folder: Path, report: dict, patch: bytes) -> Path:
    """Write a judgement as the evidence of a pull request would hold it."""
    fields = ("verdict", "reason", "gates", "equivalence", "looks", "pairs", "confirm")
    fields += ("end_to_end", "load_test", "local", "outputs_compared", "files_changed")
    whole = evidence().model_dump(mode="json", by_alias=True)
    whole["iteration"] |= {name: report[name] for name in fields}
    whole["iteration"] |= {
        "patch_sha256": hashlib.sha256(patch).hexdigest(),
        "base_commit": report["stack"]["commit"],
    }
    whole |= {name: report[name] for name in ("stack", "environment", "noise", "blocks")}
    folder.mkdir()
    (folder / "evidence.json").write_text(json.dumps(whole))
    (folder / "patch.diff").write_bytes(patch)
    return folder
