"""The workflow that serving repositories call: whose actions run in its jobs."""

import re
from pathlib import Path

WORKFLOW = Path(__file__).parents[2] / ".github/workflows/serving.yml"
OWN = re.compile(r"- name: Check out fvec\n(?:.*\n)*?          path: fvec\n")


def test_without_a_name_of_this_repository_no_job_takes_the_caller_s_actions():
    text = WORKFLOW.read_text(encoding="utf-8")
    checkouts = OWN.findall(text)
    assert len(checkouts) == text.count("uses: ./fvec/actions/setup") > 0
    for checkout in checkouts:
        # actions/checkout takes the caller's repository for "", and refuses a name without owner.
        assert "repository: ${{ job.workflow_repository || 'unknown' }}\n" in checkout
