"""What the files of a patch may hold: what a person reads, and, of class config, settings alone.

Reads the baseline's configurations; nothing of a patch is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from layers.base import Candidate, ChangeClass, StackView
from layers.errors import InvalidInput
from layers.evidence import Gate, GateResult
from layers.gates.paths import CONFIG_FILE, listed
from layers.triton import pbtxt
from layers.triton.starting import ENVIRONMENT, shell_safe

STUB = "triton_python_backend_stub"  # in a model's folder, the server starts it for its own
_COMPILED = re.compile(r"\.(?:py[cod]|so(?:\.\d+)*|dll|dylib|exe)$", re.IGNORECASE)
# How programs and libraries begin: ELF, PE, Mach-O in either order of bytes and of both, archives.
_PROGRAMS = (
    b"\x7fELF",
    b"MZ",
    b"\xfe\xed\xfa",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"!<arch>\n",
)
_MOST_VALUE = 120  # characters of a value in a detail

Files = Mapping[str, bytes | None]


def contents_gate(candidate: Candidate, baseline: StackView) -> Gate | None:
    """Return the gate that fails where a file is none that may be judged, else None.

    Reasons: not_text (bytecode, programs, and what the server would start for its own),
    config_change_is_a_code_patch (a file that is no model's configuration, or a configuration
    that names other code), unsafe_path (a new name that a shell would not take for one word).
    """
    files, models = candidate.edit.files, PurePosixPath(baseline.manifest.stack.models)
    compiled = sorted(
        name for name, data in files.items() if data is not None and _runs(name, data)
    )
    if compiled:
        return _fail("not_text", f"nobody can read what would run: {listed(compiled)}")
    if candidate.hypothesis.change_class is ChangeClass.CONFIG:
        named = next(_code(files, models, baseline.root), None)
        if named is not None:
            return _fail("config_change_is_a_code_patch", named)
    odd = sorted(name for name, data in files.items() if data is not None and _odd(name, models))
    new = [name for name in odd if not (baseline.root / name).exists()]
    if new:
        return _fail("unsafe_path", f"no plain name for what is served: {listed(new)}")
    return None


def unreadable(files: Files) -> str | None:
    """Say which files hold what a reviewer cannot read, None where none does."""
    found = sorted(name for name, data in files.items() if data is not None and b"\0" in data)
    return f"binary files, which no reviewer can read: {listed(found)}" if found else None


def _runs(name: str, data: bytes) -> bool:
    """Whether a file runs as it is: by its name, or by how it begins."""
    path = PurePosixPath(name)
    if _COMPILED.search(path.name) or "__pycache__" in path.parts or path.name == STUB:
        return True
    return b"\0" in data and (data.startswith(_PROGRAMS) or _is_bytecode(data))


def _is_bytecode(data: bytes) -> bool:
    """Whether a file begins as compiled Python does: a number below 8192, and the end of a line."""
    return data[2:4] == b"\r\n" and data[1:2] < b" "


def _odd(name: str, models: PurePosixPath) -> bool:
    """Whether a path of what is served is none that a shell takes for one word."""
    return models in PurePosixPath(name).parents and not shell_safe(name)


def _code(files: Files, models: PurePosixPath, root: Path) -> Iterator[str]:
    """Say of each file of a config change why it is code, where it is."""
    for name, data in sorted(files.items()):
        path = PurePosixPath(name)
        if path.name != CONFIG_FILE or path.parent.parent != models:
            yield f"{name} is no {models}/MODEL/{CONFIG_FILE}"
            continue
        file = root / name
        old, new = _named(file.read_bytes() if file.is_file() else b""), _named(data or b"")
        if not new:
            continue
        for field in sorted(old.keys() | new.keys()):
            was, now = old.get(field, ""), new.get(field, "")
            if was != now:
                yield f"{name}: {field} names code: {_shown(now)}, was {_shown(was)}"


def _shown(value: str) -> str:
    return repr(value[:_MOST_VALUE]) if value else "nothing"


def _named(data: bytes) -> dict[str, str]:
    """Return what a configuration names that is run, by field; of none, what the server assumes.

    Nothing of one that cannot be read: no server is started on it, and the refusal says where.
    """
    path = Path(CONFIG_FILE)
    try:
        config = pbtxt.parse(pbtxt.decode(data, path), path).message
    except InvalidInput:
        return {}
    found = {
        "backend": config.backend or ("" if config.platform else "python"),
        "platform": config.platform,
        "runtime": config.runtime,
        "default_model_filename": config.default_model_filename,
        "model_operations": ", ".join(config.model_operations.op_library_filename),
        "model_repository_agents": str(config.model_repository_agents),
    }
    for key, name in config.cc_model_filenames.items():
        found[f'cc_model_filenames["{key}"]'] = name
    if ENVIRONMENT in config.parameters:
        found[ENVIRONMENT] = config.parameters[ENVIRONMENT].string_value
    for number, warmup in enumerate(config.model_warmup):
        for name, tensor in warmup.inputs.items():
            found[f'model_warmup[{number}].inputs["{name}"]'] = tensor.input_data_file
    return found


def _fail(reason: str, detail: str) -> Gate:
    return Gate(name="paths", result=GateResult.FAIL, reason=reason, detail=detail)
