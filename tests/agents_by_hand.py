"""Agents on the running example, from plan to verdict, with a model whose replies were written by hand.

    python -P tests/agents_by_hand.py --out .fvec/story

All is real but the model: the service is the tests' own on loopback, and says what stands below in this
file, which two stretches of reading the example's code and its profile led to. What it proposes is
checked, audited, measured and judged as from any other. Two changes, each with a first draft that
must not pass: one forgets a caller (the public checks find it), one keeps texts of requests for
ever (the accuracy judge finds it). `report.html` in --out tells the story.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bot import cli
from bot.render import agents, as_markdown
from layers.evidence import RunReport
from tests.messages_server import Asked, MessagesServer, Say

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "ads-serving"
MODEL = "models/features/1/model.py"
MOST_WORDS = 1200  # of one step
KEY = "sk-by-hand-0123456789abcdefghij"
SETTINGS = """\
schema: fvec.agents/1
anthropic:
  model: {{name: by-hand, prices: {{input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}}}
  base_url: {url}
budget: {{usd: 5, rounds: 2}}
"""
Call = tuple[str, dict[str, Any]]


def _replace(old: str, new: str) -> Call:
    return "replace_in_file", {"path": MODEL, "old": old, "new": new}


def _runs(function: str) -> dict[str, str]:
    return {"sign": "runs", "model": "features", "subject": f"{MODEL}:{function}"}


ONE_PASS = {
    "issue": "inputs-in-one-pass",
    "title": "Look all inputs of a request up in one pass in features",
    "layer": "features",
    "model": "features",
    "change_class": "exact",
    "claim": "get_column and get_optional ask the server's Python for each of some 150 inputs by "
    "name, and each look-up walks the list of all inputs from its start: the work grows with the "
    "square of their number. One pass that makes a table by name does the same work once.",
    "expected": [1.2, 2.5],
    "activation": [
        _runs("by_name"),
        {
            "sign": "gone",
            "model": "features",
            "subject": "triton_python_backend_utils.py:get_input_tensor_by_name",
        },
    ],
    "falsifier": "by_name runs, get_input_tensor_by_name is gone from the profile, and the stack "
    "completes no more requests per second than before.",
}
DISTINCT = {
    "issue": "decode-distinct-strings",
    "title": "Decode each distinct string of an input once in features",
    "layer": "features",
    "model": "features",
    "change_class": "exact",
    "claim": "get_strings decodes every value of a column, and most columns of the candidates repeat "
    "a few values (formats, categories, languages): hundreds of calls of bytes.decode a column, of "
    "which a dozen differ. Decoding the distinct ones and looking the rest up does less.",
    "expected": [1.01, 1.15],
    "activation": [_runs("decoded")],
    "falsifier": "decoded runs, and the share of get_strings in the profile does not fall by a third.",
}
INDEX = (
    "def get_column(request, name):\n"
    '    """Returns the input `name` without the batch dimension (always one ad request)."""\n'
    "    tensor = pb_utils.get_input_tensor_by_name(request, name)\n"
    "    return tensor.as_numpy()[0]\n",
    "def by_name(request):\n"
    '    """Returns the inputs of a request by name; the first one where a name comes twice."""\n'
    "    return {tensor.name(): tensor for tensor in reversed(request.inputs())}\n"
    "\n\n"
    "def get_column(inputs, name):\n"
    '    """Returns the input `name` without the batch dimension (always one ad request)."""\n'
    "    return inputs[name].as_numpy()[0]\n",
)
OPTIONAL = (
    "    if pb_utils.get_input_tensor_by_name(request, name) is None:\n"
    "        return default\n"
    "    return get_column(request, name)\n"
)
STRINGS = (
    "def get_strings(request, name):\n"
    '    """Returns a string input as a list of str; some device names are cut inside a character."""\n'
    '    return [value.decode("utf-8", errors="replace") for value in get_column(request, name)]\n'
)
HEAD = (
    "def get_strings(request, name):\n"
    '    """Returns a string input as a list of str; some device names are cut inside a character."""\n'
    "    return decoded(get_column(request, name).tolist())\n"
)
KEPT = (
    "TEXTS = {}\n\n\n"
    "def decoded(values):\n"
    '    """Returns texts, each distinct value decoded once."""\n'
    "    for value in set(values).difference(TEXTS):\n"
    '        TEXTS[value] = value.decode("utf-8", errors="replace")\n'
    "    return [TEXTS[value] for value in values]\n\n\n"
)
ONCE = (
    "def decoded(values):\n"
    '    """Returns texts, each distinct value of one column decoded once."""\n'
    '    texts = {value: value.decode("utf-8", errors="replace") for value in set(values)}\n'
    "    return [texts[value] for value in values]\n\n\n"
)
READ: Call = ("read_file", {"path": MODEL, "lines": 400})
CHECKS: Call = ("run_public_checks", {})


def _planned(plan: dict[str, Any], why: str, notes: str) -> list[Say]:
    return [
        Say(why, [READ]),
        Say("The mechanism is clear.", [("plan", {"plan": plan, "notes": notes})]),
    ]


def _submitted(summary: str, explanation: str) -> Say:
    handed = {"carried_out": True, "summary": summary, "explanation": explanation}
    return Say("Done.", [("submit", handed)])


def replies() -> dict[str, Iterator[Say]]:
    """Return what the model says, by the tool that ends the conversation, in order."""
    first = "Look all inputs of a request up in one pass in features"
    second = "Decode each distinct string of an input once in features"
    request = "            user_tensors, context = self.user_features(request)\n"
    return {
        "plan": iter(
            [
                *_planned(
                    ONE_PASS,
                    "A third of the time is get_input_tensor_by_name. I read its callers.",
                    "features: look-ups first; strings next, then the loops of cross_features.",
                ),
                *_planned(
                    DISTINCT,
                    "The evaluator points at get_strings now. I read it again.",
                    "features: look-ups are done; strings in work; then cross_features.",
                ),
                Say("No more.", [("plan", {"stop": "The recording ends here.", "notes": ""})]),
            ]
        ),
        "submit": iter(
            [
                Say("I read the helpers and their callers first.", [READ]),
                Say(
                    "The helper takes the table now.",
                    [
                        _replace(*INDEX),
                        _replace(request, f"            request = by_name(request)\n{request}"),
                    ],
                ),
                _submitted(first, "Same tensors, by a table instead of a walk."),
                Say("get_optional asks the server still: I forgot it.", [READ]),
                Say(
                    "It takes the table, too, and gives the default where an input is not sent.",
                    [
                        _replace(
                            OPTIONAL,
                            "    return get_column(request, name) if name in request else default\n",
                        ),
                        CHECKS,
                    ],
                ),
                _submitted(
                    first,
                    "by_name makes one table a request; a name that comes twice keeps its first "
                    "tensor, as the server's look-up does. Optional inputs fall back to the same "
                    "default. Nothing else changes, so every output is the same bit for bit.",
                ),
                Say("I read get_strings and who calls it.", [READ]),
                Say("A table of texts saves most calls.", [_replace(STRINGS, KEPT + HEAD), CHECKS]),
                _submitted(second, "Each value is decoded once, ever."),
                Say("The table must not outlive the column.", [READ]),
                Say("I make it anew for each column.", [_replace(KEPT, ONCE), CHECKS]),
                _submitted(
                    second,
                    "Equal bytes give equal texts, with the same treatment of what is no UTF-8; the "
                    "table is made for each column and dropped with it. Order and length stay.",
                ),
            ]
        ),
        "audit": iter(
            [
                _audited(),
                _audited(
                    {
                        "file": MODEL,
                        "line": 0,
                        "kind": "result_reuse",
                        "why": "TEXTS outlives the request and grows with every new string that a "
                        "client sends: memory without a bound, and one request's values are kept "
                        "for another.",
                    }
                ),
                _audited(),
            ]
        ),
        "advise": iter(
            [
                _advised(
                    "triton_python_backend_utils.py:get_input_tensor_by_name",
                    "The walk over all inputs is gone from the profile of the candidate; by_name "
                    "costs a small part of it. What is left is conversion and decoding of strings.",
                    "get_strings decodes each value of each column; most columns repeat a few values",
                ),
                _advised(
                    f"{MODEL}:decoded",
                    "Decoding is done once for each distinct value; the look-ups that replace the "
                    "rest cost most of what was saved on columns whose values all differ.",
                    "cross_features walks the candidates in Python six times",
                ),
            ]
        ),
    }


def _audited(*findings: dict[str, Any]) -> Say:
    verdict = "reject" if findings else "nothing_found"
    return Say("I read the diff.", [("audit", {"verdict": verdict, "findings": list(findings)})])


def _advised(where: str, mechanism: str, hint: str) -> Say:
    advice = {"where": where, "mechanism": mechanism, "hints": [hint], "notes": ""}
    return Say("I compared the profiles.", [("advise", advice)])


def main() -> int:
    """Run; return the exit code of `fvec run`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--candidates", type=int, default=2, choices=(1, 2))
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    stack = _checkout(args.out / "ads-serving", args.candidates)
    said = replies()

    def script(asked: Asked) -> Say:
        return next(said[asked.answer_tool])

    with MessagesServer(script) as server:
        settings = args.out / "agents.yml"
        settings.write_text(SETTINGS.format(url=server.url))
        os.environ["ANTHROPIC_API_KEY"] = KEY
        argv = ["run", str(stack), "--out", str(args.out), "--proposer", "anthropic"]
        code = cli.main([*argv, "--agents", str(settings), "--budget", "60"])
    if code == 0:
        report = RunReport.model_validate_json((args.out / "run.json").read_bytes())
        (args.out / "story.md").write_text(told(report), encoding="utf-8")
    return code


def told(report: RunReport) -> str:
    """Return the stories of a run as they stand in its report, as markdown."""
    parts = []
    for iteration in report.iterations:
        written = agents.of_iteration(iteration)
        if written is not None:
            parts += [
                f"## {iteration.n}. {iteration.hypothesis.title}: {iteration.verdict}",
                as_markdown.facts(written.facts),
                as_markdown.table(written.signs),
                as_markdown.story(written.chapters, MOST_WORDS),
            ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _checkout(root: Path, candidates: int) -> Path:
    """Return the example as a repository of its own, with so many candidates allowed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "."], cwd=EXAMPLE, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.split("\0")[:-1]:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((EXAMPLE / name).read_bytes())
    manifest = root / ".github" / "fvec.yml"
    manifest.write_text(f"{manifest.read_text()}budget: {{candidates: {candidates}}}\n")
    person = ["-c", "user.name=ads-serving", "-c", "user.email=ads-serving@example.invalid"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "Serve ads"]):
        subprocess.run(["git", *person, *words], cwd=root, check=True)
    return root


if __name__ == "__main__":
    sys.exit(main())
