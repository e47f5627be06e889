"""What a command leaves on disk is read by others: no secret of this machine is in it."""

import json

import pytest

from bot import results
from bot.render import judgement
from layers.evidence import RunReport
from tests import canaries
from tests.render_fixture import run_report
from tests.unit.test_judge_rendering import accepted

TOKEN = canaries.tokens()["hugging face"]
OWN = "value-that-only-the-environment-names"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("SERVING_SECRET", OWN)


def test_page_and_data_of_a_run_hold_no_secret(tmp_path):
    report = run_report()
    log = f"the server said:\nexport HF_TOKEN={TOKEN}\n{canaries.pem()}\nand {OWN}"
    first = report.iterations[0].model_copy(update={"detail": log, "explanation": log})
    told = report.model_copy(update={"iterations": [first, *report.iterations[1:]]})
    files = results.write(tmp_path, told)
    for file in files.values():
        text = file.read_text()
        assert TOKEN not in text
        assert OWN not in text
        assert canaries.body(40) not in text
        assert "REDACTED" in text
    read = RunReport.model_validate_json(files["run"].read_bytes())
    assert read.iterations[1:] == report.iterations[1:]
    assert read.iterations[0].detail == (
        "the server said:\nexport HF_TOKEN=REDACTED\nREDACTED\nand REDACTED"
    )


def test_body_and_data_of_a_judgement_hold_no_secret(tmp_path):
    report = accepted().model_copy(update={"detail": f"it printed {TOKEN} and {OWN}"})
    files = results.write_judgement(tmp_path, "judge", report, judgement.body(report))
    assert "it printed REDACTED and REDACTED" in files["report"].read_text()
    data = json.loads(files["data"].read_text())
    assert data["detail"] == "it printed REDACTED and REDACTED"


def test_what_holds_no_secret_is_written_as_it_is(tmp_path):
    report = run_report()
    files = results.write(tmp_path, report)
    assert RunReport.model_validate_json(files["run"].read_bytes()) == report
