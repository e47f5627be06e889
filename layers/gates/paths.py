"""Which files a candidate may not touch, and the gate that holds it to that.

Pure, but for `judging_modules`, which reads the baseline's referee and metric.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path, PurePosixPath

from layers.base import Candidate, ChangeClass, LayerName
from layers.evidence import Gate, GateResult
from layers.manifest import MANIFEST_PATH, Manifest

# `.lfsconfig` names the address that git fetches large files from.
OF_GIT = frozenset({".git", ".gitattributes", ".gitmodules", ".lfsconfig"})
OWNERS = ".github"
# Who reviews, and what runs with the repository's rights: in any folder, in any case.
OF_OWNERS = frozenset(
    {"codeowners", ".gitlab-ci.yml", ".circleci", "jenkinsfile", "azure-pipelines.yml"}
)
NATIVE_FOLDER = "fvec_native"  # of native sources: built and loaded, though no step names it
CONFIG_FILE = "config.pbtxt"
PLAN = "plan"  # name of the gate that holds an agent to its plan
MOST_NAMED = 8  # files in a detail


def protected_files(manifest: Manifest) -> tuple[str, ...]:
    """Return files and globs that judge a candidate, relative to the root: it may not touch them.

    What a build step makes them of counts where nothing is served of it, and in any case where it
    lies in the folder of the traffic.
    """
    folder = PurePosixPath(manifest.traffic.requests).parent
    inputs = [name for step in manifest.stack.build for name in step.inputs]
    beside = [name for name in inputs if folder.parts and folder in PurePosixPath(name).parents]
    own, _ = _made_of(manifest)
    plain = [str(MANIFEST_PATH), *_judges(manifest)]
    return tuple(dict.fromkeys([*map(escape, plain), *_declared([*beside, *own])]))


def _declared(names: Iterable[str]) -> list[str]:
    """Return what a build step names: the files of a glob, and the one that has its very name."""
    return [pattern for name in names for pattern in dict.fromkeys((name, escape(name)))]


def remakes_traffic(files: Iterable[str], manifest: Manifest) -> str | None:
    """Say which changed files are served and judge, too: the traffic is made of them. Else None."""
    _, shared = _made_of(manifest)
    found = sorted(path for path in files if lies_in(path, shared))
    if not found:
        return None
    return f"later judgements are measured on what is made of it anew: {listed(found)}"


def _judges(manifest: Manifest) -> list[str]:
    """Return the files of the traffic, the referee and the metric."""
    specs = (manifest.correctness.referee, manifest.correctness.metric)
    modules = [spec.partition(":")[0] for spec in specs if spec]
    return [manifest.traffic.requests, manifest.traffic.arrivals, *modules]


def _made_of(manifest: Manifest) -> tuple[list[str], list[str]]:
    """Return what build steps make of what judges: inputs of these alone, and inputs served, too."""
    models = [manifest.stack.models, NATIVE_FOLDER]
    served = [*models, *_inputs(manifest, models)]
    inputs = _inputs(manifest, _judges(manifest))
    shared = [name for name in inputs if _overlap(name, served) or _anywhere(name)]
    return [name for name in inputs if name not in shared], shared


def _inputs(manifest: Manifest, wanted: Sequence[str]) -> list[str]:
    """Return what the build steps read that write some of `wanted`, or what such a step reads."""
    inputs: list[str] = []
    left = list(manifest.stack.build)
    while found := [
        step for step in left if any(_overlap(name, [*wanted, *inputs]) for name in step.outputs)
    ]:
        inputs += [name for step in found for name in step.inputs]
        left = [step for step in left if step not in found]
    return inputs


def _overlap(name: str, others: Sequence[str]) -> bool:
    """Whether a file, folder or glob may name something that one of the others names."""
    return lies_in(name, others) or any(lies_in(other, [name]) for other in others)


def _anywhere(name: str) -> bool:
    """Whether a glob names files of any folder, served ones too."""
    return any(mark in PurePosixPath(name).parts[0] for mark in "*?[")


def judging_modules(manifest: Manifest, root: Path) -> tuple[str, ...]:
    """Return the modules that referee and metric are made of besides, as files and globs.

    Where one lies in a folder of its own, all Python files of that folder; else what it imports
    by name and what exists beside it. `root` holds the baseline; nothing of it is executed.
    """
    found: set[str] = set()
    for spec in (manifest.correctness.referee, manifest.correctness.metric):
        file = PurePosixPath(spec.rpartition(":")[0]) if spec else None
        if file is None:
            continue
        if _own_folder(file.parent, manifest):
            found |= {f"{file.parent}/*.py", f"{file.parent}/**/*.py"}
        else:
            found |= _imported(file, root)
    models = PurePosixPath(manifest.stack.models)
    return tuple(sorted(name for name in found if models not in PurePosixPath(name).parents))


def _own_folder(folder: PurePosixPath, manifest: Manifest) -> bool:
    """Whether a folder holds nothing that is served or that a build step reads."""
    if not folder.parts:
        return False
    served = [manifest.stack.models]
    served += [name for step in manifest.stack.build for name in (*step.inputs, *step.outputs)]
    others = [PurePosixPath(name) for name in served]
    return not any(folder.is_relative_to(o) or o.is_relative_to(folder) for o in others)


def _imported(file: PurePosixPath, root: Path) -> set[str]:
    """Return the files beside `file` that it imports by name, and what those import."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        for name in named_modules(root / waiting.pop()):
            stem = file.parent.joinpath(*name)
            for module in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py"):
                if str(module) not in found and module != file and (root / module).is_file():
                    found.add(str(module))
                    waiting.append(module)
    return found


def named_modules(file: Path) -> Iterator[tuple[str, ...]]:
    """Yield every dotted name that a file imports, and its packages; nothing of what is no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            names = [f"{start}{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = tuple(name.split("."))
            yield from (parts[: n + 1] for n in range(len(parts)))


def not_exercised(files: Iterable[str], manifest: Manifest) -> str | None:
    """Say which changed files no station of a trial may ever have run, None where there is none."""
    known = (escape(manifest.stack.models), *read_by_builds(manifest))
    found = sorted(path for path in files if not lies_in(path, known))
    if not found:
        return None
    return f"not exercised, outside stack.models and what stack.build reads: {listed(found)}"


def read_by_builds(manifest: Manifest) -> tuple[str, ...]:
    """Return what builds make files of, as files, folders and globs."""
    inputs = [name for step in manifest.stack.build for name in step.inputs]
    return (NATIVE_FOLDER, *_declared(inputs))


def class_of(files: Sequence[str]) -> ChangeClass:
    """Return the strictest class that fits changed files: `config` where only config.pbtxt change."""
    config = bool(files) and all(PurePosixPath(name).name == CONFIG_FILE for name in files)
    return ChangeClass.CONFIG if config else ChangeClass.EXACT


def guarded(paths: Iterable[str], evaluators: Sequence[str]) -> list[str]:
    """Return the paths that no candidate may touch, sorted.

    Those are git's own files, anything in `.github/`, CODEOWNERS and the files of other CI systems
    anywhere, and `evaluators`: files, folders and globs of what judges the candidate, relative to
    the root.
    """
    return sorted({path for path in paths if _is_guarded(path, evaluators)})


def _is_guarded(path: str, evaluators: Sequence[str]) -> bool:
    pure = PurePosixPath(path)
    parts = [part.casefold() for part in pure.parts]
    if (OF_GIT | OF_OWNERS).intersection(parts) or parts[:1] == [OWNERS]:
        return True
    return lies_in(path, evaluators)


def lies_in(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path, or a folder that it lies in, is one of `patterns`: files, folders, globs.

    A name stands for itself, and for what it matches as a glob: escape one that is none.
    """
    places = [path, *map(str, PurePosixPath(path).parents)]
    return any(
        place == pattern or fnmatchcase(place, pattern) for pattern in patterns for place in places
    )


def touched(
    files: Iterable[str], protected: Sequence[str], requirements: str | None = None
) -> Gate | None:
    """Return the gate that fails where a file may not be touched by any candidate, else None.

    `requirements` is what the server's environment is made of: it is the baseline's, for both arms.
    """
    files = list(files)
    found = guarded(files, protected)
    if found:
        return _gate(GateResult.FAIL, "touches_protected_files", listed(found))
    if requirements is not None and requirements in files:
        detail = f"{requirements}: candidates run in the baseline's environment, so no gate sees it"
        return _gate(GateResult.FAIL, "changes_requirements", detail)
    return None


def listed(found: Sequence[str]) -> str:
    """Return names in one line, a few of many."""
    more = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def paths_gate(
    candidate: Candidate, protected: Sequence[str], requirements: str | None = None
) -> Gate:
    """Refuse no patch, one that touches what judges it, and a config change that is code."""
    files = sorted(candidate.edit.files)
    if not candidate.patch:
        return _gate(GateResult.FAIL, "no_op_edit", "")
    refused = touched(files, protected, requirements)
    if refused is not None:
        return refused
    code = [f for f in files if PurePosixPath(f).name != CONFIG_FILE]
    if candidate.hypothesis.change_class is ChangeClass.CONFIG and code:
        return _gate(GateResult.FAIL, "config_change_is_a_code_patch", ", ".join(code))
    return _gate(GateResult.PASS, "paths_allowed", ", ".join(files))


def plan_gate(candidate: Candidate, manifest: Manifest) -> Gate:
    """Hold what an agent wrote to its plan: its layer, its model, and files that are served.

    A rule of ours edits what it was written to edit. An author's word binds nothing, and a branch
    is run by the repository's own CI before anybody reads it: what no station runs does not go there.
    """
    files, hypothesis = candidate.edit.files, candidate.hypothesis
    unserved = not_exercised(files, manifest)
    if unserved is not None:
        return _gate(GateResult.FAIL, "outside_served_files", unserved, PLAN)
    configs = [name for name in sorted(files) if PurePosixPath(name).name == CONFIG_FILE]
    if configs and LayerName.CONFIG not in manifest.layers:
        detail = f"the manifest's layers do not have config: {listed(configs)}"
        return _gate(GateResult.FAIL, "layer_not_allowed", detail, PLAN)
    folder = PurePosixPath(manifest.stack.models)
    own = folder / hypothesis.model
    others = [
        name
        for name in sorted(files)
        if folder in PurePosixPath(name).parents and own not in PurePosixPath(name).parents
    ]
    if others:
        detail = f"the plan is about {hypothesis.model}: {listed(others)}"
        return _gate(GateResult.FAIL, "outside_the_plan", detail, PLAN)
    data = [name for name, text in sorted(files.items()) if text is not None and b"\0" in text]
    if data:
        return _gate(GateResult.FAIL, "not_text", f"weights and data stay: {listed(data)}", PLAN)
    return _gate(GateResult.PASS, "within_its_plan", "", PLAN)


def _gate(result: GateResult, reason: str, detail: str, name: str = "paths") -> Gate:
    return Gate(name=name, result=result, reason=reason, detail=detail)
