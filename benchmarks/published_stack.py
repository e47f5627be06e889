"""The example at the shape of the published case: 875 inputs a request, 2,000 candidates.

    python benchmarks/published_stack.py PATCH [--launches 2] [--pairs 2]

PATCH is a git diff of accepted changes of the example, such as `git diff main fvec/...` in the
repository that `make demo` leaves. Every list of inputs in the example's schema is made longer by
the same factor, with the ranker as wide as it then has to be. What is compared is the server's CPU
per request and the rate at saturation (a fixed number in flight); a request takes about a second
before the changes, so that no percentile can be had in reasonable time.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks.record_noise import EXAMPLE, ROOT, commit_all, copy_example
from bot.progress import Lines
from bot.publishing.local import open_local
from layers.errors import FvecError, ToolFailed
from layers.evidence import Block, Pair
from layers.gates.correctness import reproducible_outputs
from layers.measure.intervals import Estimate, ratio_ci
from layers.measure.launch import Launch, MeasuredPair
from layers.repository.git import git
from layers.session import RunOptions, Session, open_session
from layers.trial import equivalence

WORK = ROOT / ".fvec" / "published"
INPUTS, CANDIDATES, REQUESTS = 875, 2_000, 60
USER_LISTS = ("COUNTS", "VALUES", "RATES", "TIMES", "STRINGS")
V2 = ("USER_COUNTS", "USER_VALUES", "USER_RATES", "USER_TIMES", "USER_STRINGS")
LISTS = (
    *(f"USER_{kind}" for kind in USER_LISTS),
    *(f"{name}_V2" for name in V2),
    *(f"CANDIDATE_{kind}" for kind in ("STRINGS", "RATES", "VALUES", "COUNTS", "TIMES")),
    *("CANDIDATE_RATES_V2", "CANDIDATE_VALUES_V2"),
)
OTHERS = 10  # inputs that stay one: time of the request, history, interests, ids, tags
Added = Mapping[str, Sequence[str]]  # by list, the names that it gets


def additions(schema: Mapping[str, Sequence[str]], inputs: int) -> Added:
    """Return the copies that each list gets, as evenly over the lists as they are long."""
    base = [(each, name) for each in LISTS for name in schema[each]]
    needed = inputs - OTHERS - len(base)
    whole, rest = divmod(needed, len(base))
    picks: list[int] = np.linspace(0, len(base) - 1, rest).round().astype(int).tolist()
    copies = chain(
        ((each, f"{name}_w{k}") for k in range(1, whole + 1) for each, name in base),
        ((base[i][0], f"{base[i][1]}_w{whole + 1}") for i in picks),
    )
    added: dict[str, list[str]] = {each: [] for each in LISTS}
    for each, name in copies:
        added[each].append(name)
    return added


def original(name: str) -> str:
    """Return the input that a copy stands beside."""
    return re.sub(r"_w\d+$", "", name)


def widen(root: Path, added: Added) -> None:
    """Make the stack at `root` as wide, file by file."""
    names = [name for each in LISTS for name in added[each]]
    features, ensemble = root / "models/features", root / "models/ads_ensemble/config.pbtxt"
    _edit(features / "1/schema.py", lambda text: _wide_schema(text, added))
    _edit(features / "config.pbtxt", lambda text: _wide_inputs(text, names))
    _edit(ensemble, lambda text: _wide_maps(_wide_inputs(text, names), names))
    sizes = {
        "USER_DENSE": sum(len(v) for k, v in added.items() if _dense(k, "USER")),
        "CANDIDATE_DENSE": sum(len(v) for k, v in added.items() if _dense(k, "CANDIDATE")),
    }
    cats = {kind: [n for k, v in added.items() if _category(k, kind) for n in v] for kind in KINDS}
    _edit(root / "ranker/net.py", lambda text: _wide_net(text, sizes, added))
    for config in (features / "config.pbtxt", root / "models/ranker/config.pbtxt"):
        _edit(config, lambda text: _wide_tensors(text, sizes, cats))
    _edit(root / "traffic/record.py", _wide_traffic)
    _edit(root / ".github/fvec.yml", _wide_manifest)


KINDS = ("USER", "CANDIDATE")


def _dense(each: str, kind: str) -> bool:
    return each.startswith(kind) and "STRINGS" not in each


def _category(each: str, kind: str) -> bool:
    return each.startswith(kind) and "STRINGS" in each


def _edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def _once(pattern: str, text: str, put: str) -> str:
    """Put a text where a pattern matches; ToolFailed unless that is at one place."""
    found, count = re.subn(
        pattern, lambda hit: hit.expand(put), text, flags=re.DOTALL | re.MULTILINE
    )
    if count != 1:
        raise ToolFailed(f"the example is not as this benchmark knows it: {pattern!r}, {count}")
    return found


def _wide_schema(text: str, added: Added) -> str:
    for each, names in added.items():
        lines = "".join(f'    "{name}",\n' for name in names)
        text = _once(rf"^({each} = \[[^\]]*?)^\]", text, rf"\1{lines}]")
    strings = [name for each in LISTS if "STRINGS" in each for name in added[each]]
    hashed = [name for name in strings if original(name) == "cand_campaign"]
    known = "".join(
        f'    "{name}": VOCABULARY["{original(name)}"],\n' for name in strings if name not in hashed
    )
    counts = "".join(f'    "{name}": HASHED["{original(name)}"],\n' for name in hashed)
    return f"{text}\nVOCABULARY |= {{\n{known}}}\nHASHED |= {{\n{counts}}}\n"


def _wide_inputs(text: str, names: Sequence[str]) -> str:
    """Give each copy the declaration of its original, behind it."""
    for name in names:
        block = re.search(rf'  \{{\n    name: "{original(name)}"\n.*?\n  \}}', text, re.DOTALL)
        if block is None:
            raise ToolFailed(f"no input {original(name)} is declared")
        copy = block[0].replace(f'"{original(name)}"', f'"{name}"')
        text = f"{text[: block.end()]},\n{copy}{text[block.end() :]}"
    return text


def _wide_maps(text: str, names: Sequence[str]) -> str:
    for name in names:
        line = f'input_map {{ key: "{original(name)}" value: "{original(name)}" }}'
        copy = line.replace(f'"{original(name)}"', f'"{name}"')
        if text.count(line) != 1:
            raise ToolFailed(f"{original(name)} is not mapped once")
        text = text.replace(line, f"{line}\n      {copy}")
    return text


def _wide_net(text: str, sizes: Mapping[str, int], added: Added) -> str:
    for name, more in sizes.items():
        text = _once(rf"^{name} = (\d+)$", text, rf"{name} = \1 + {more}")
    schema = runpy.run_path(str(EXAMPLE / "models/features/1/schema.py"))
    for kind in KINDS:
        lists = [each for each in LISTS if _category(each, kind)]
        base = [name for each in lists for name in schema[each]]
        listed = re.search(
            rf"^{kind}_CATEGORIES = \[((?:[^\[\]]|\[[^\]]*\])*)\]$", text, re.MULTILINE
        )
        if listed is None:
            raise ToolFailed(f"no {kind}_CATEGORIES in ranker/net.py")
        tables = [int(size) for size in re.findall(r"\d+", re.sub(r"#.*", "", listed[1]))]
        sizes_of = dict(zip(base, tables, strict=False))
        order = [name for each in lists for name in (*schema[each], *added[each])]
        wide = [*(sizes_of[original(name)] for name in order), *tables[len(base) :]]
        text = f"{text[: listed.start()]}{kind}_CATEGORIES = {wide}{text[listed.end() :]}"
    return text


def _wide_tensors(text: str, sizes: Mapping[str, int], cats: Mapping[str, Sequence[str]]) -> str:
    for kind, short, ragged in (("USER", "user", ""), ("CANDIDATE", "cand", "-1, ")):
        for tensor, more in (("dense", sizes[f"{kind}_DENSE"]), ("cats", len(cats[kind]))):
            pattern = (
                rf'name: "{short}_{tensor}"\n    data_type: \w+\n    dims: \[ {ragged}(\d+) \]'
            )
            hit = re.search(pattern, text)
            if hit is None:
                raise ToolFailed(f"no tensor {short}_{tensor} is declared")
            text = f"{text[: hit.start(1)]}{int(hit[1]) + more}{text[hit.end(1) :]}"
    return text


def _wide_traffic(text: str) -> str:
    return _once(
        r"^CANDIDATES_MIN, CANDIDATES_MAX = .*?$",
        text,
        f"CANDIDATES_MIN, CANDIDATES_MAX = {CANDIDATES}, {CANDIDATES}",
    )


def _wide_manifest(text: str) -> str:
    """Record fewer requests; nothing here is held against the referee or an SLO."""
    text = text.replace(
        "[python, traffic/record.py]", f'[python, traffic/record.py, --requests, "{REQUESTS}"]'
    )
    return _once(r"^correctness:\n(?:  .*?\n)+", text, "")


def checkout(work: Path, patch: Path) -> tuple[Path, str]:
    """Return the widened stack as a repository, and the commit with the patch."""
    root = work / "ads-wide"
    copy_example(root)
    schema = runpy.run_path(str(root / "models/features/1/schema.py"))
    widen(root, additions(schema, INPUTS))
    git(root, "init", "--quiet", "--initial-branch=main")
    base = commit_all(root, "Serve ads, wide")
    git(root, "apply", "--index", "--", str(patch.resolve()))
    candidate = commit_all(root, "Apply the accepted changes")
    git(root, "reset", "--hard", "--quiet", base)
    return root, candidate


def measure(session: Session, candidate: str, launches: int, pairs: int) -> list[Pair]:
    """Measure the widened stack with and without the changes; every timed answer must be equal.

    Raises ToolFailed where an output differs in a bit.
    """
    worktree = session.stack.worktree(candidate, session.out / "worktrees")
    session.stack.build(worktree, session.env, session.sandbox)
    view = session.stack.view(worktree, session.env)
    measured: list[Pair] = []
    for number in range(1, launches + 1):
        with Launch(session.bench, number, session.view, view, "wide") as launch:
            for found in launch.pairs(pairs):
                _check_equal(found)
                measured.append(found.pair)
                session.bench.events.progress(len(measured), launches * pairs, "pairs of blocks")
    return measured


def _check_equal(measured: MeasuredPair) -> None:
    baseline, candidate = measured.results["baseline"], measured.results["candidate"]
    answers = [(first, second) for first, second, _ in equivalence.timed(baseline, candidate)]
    outputs = set(answers[0][0])
    same = reproducible_outputs(answers)
    for result in (baseline, candidate):
        result.discard()
    if outputs - same:
        raise ToolFailed(f"outputs differ: {sorted(outputs - same)}")


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="published_stack.py", description=__doc__)
    parser.add_argument("patch", type=Path)
    parser.add_argument("--launches", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=2, help="of blocks, per launch")
    options = parser.parse_args(argv)
    blocks: list[Block] = []
    try:
        root, candidate = checkout(WORK, options.patch)
        opened = RunOptions(WORK / "out", None, None, 0, None, open_local)
        with open_session(root, opened, Lines(sys.stderr), blocks.append, afresh=True) as session:
            pairs = measure(session, candidate, options.launches, options.pairs)
    except FvecError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    cpu = ratio_ci([pair.cpu_ratio for pair in pairs])
    rate = ratio_ci([pair.throughput_ratio for pair in pairs])
    for what, found in (("server CPU per request", cpu), ("rate at saturation", rate)):
        sys.stdout.write(f"{what}: {_told(found)}\n")
    for arm in ("baseline", "candidate"):
        rates = [block.rate for block in blocks if block.arm == arm and block.void is None]
        sys.stdout.write(f"{arm}: {np.mean(rates):.2f} requests per second\n")
    return 0


def _told(found: Estimate) -> str:
    return f"{found.ratio:.2f} times better ({found.ci[0]:.2f} to {found.ci[1]:.2f}), n = {found.n}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
