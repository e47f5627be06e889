"""Programs that attack the sandbox: each is refused or ended, the owner and the machine live on."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from layers.errors import InvalidInput, Missing, ToolFailed
from layers.manifest import SandboxMode, SandboxSection
from layers.programs import Command
from layers.sandbox import cgroups, owners
from layers.sandbox.base import MIB, Confinement, Ending, Limits
from layers.sandbox.box import LimitReached, Sandbox
from layers.sandbox.cgroups import Group
from layers.sandbox.jail import Jail
from layers.sandbox.run import run_logged
from tests.processes import alive

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[2]
SMALL = Limits(memory_bytes=256 * MIB, processes=32, tmp_bytes=16 * MIB, output_bytes=MIB)
ENV = {"PATH": "/usr/bin:/bin", "GREETING": "hello"}
WAIT_S = 60.0
PRIVATE = [f"/{name}" for name in ("tmp", "dev/shm")]


def _open(mode: SandboxMode) -> Sandbox:
    try:
        return Sandbox.open(SandboxSection(mode=mode))
    except Missing as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def strict() -> Sandbox:
    return _open(SandboxMode.STRICT)


@pytest.fixture(scope="module", params=list(SandboxMode))
def any_mode(request: pytest.FixtureRequest) -> Sandbox:
    return _open(request.param)


@pytest.fixture(scope="module", params=[SandboxMode.STRICT, SandboxMode.NO_CGROUP])
def shut_in(request: pytest.FixtureRequest) -> Sandbox:
    return _open(request.param)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _start(
    sandbox: Sandbox,
    program: str,
    *,
    read_only: tuple[Path, ...] = (),
    writable: tuple[Path, ...] = (),
    hidden: tuple[Path, ...] = (),
    limits: Limits = SMALL,
    network: bool = False,
    **streams: object,
) -> Jail:
    return sandbox.start(
        [sys.executable, "-I", "-S", "-c", program],
        cwd=writable[0] if writable else Path("/"),
        env=ENV,
        confinement=Confinement(read_only, writable, limits, hidden, network),
        **streams,
    )


def _answer(sandbox: Sandbox, program: str, **options: object) -> str:
    """Return what a program that ends well prints."""
    with _start(
        sandbox, program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
    ) as jail:
        said = jail.process.stdout.read().decode()
        assert (jail.wait(WAIT_S), jail.ending()) == (0, Ending.EXITED), said
    return said.strip()


def _ending(sandbox: Sandbox, program: str, timeout_s: float = WAIT_S, **options: object) -> Ending:
    with _start(sandbox, program, **options) as jail:
        jail.wait(timeout_s)
        ending = jail.ending()
    assert jail.ending() is ending
    return ending


def _gone(marker: str) -> bool:
    """Say whether the processes end, which the kernel may take a moment for."""
    deadline = time.monotonic() + WAIT_S
    while alive(marker):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


TRY = """
import sys
def attempt(action):
    try:
        return repr(action())
    except OSError as error:
        return type(error).__name__ + " " + str(error.errno)
"""


def test_a_listener_of_the_owner_is_not_reached(shut_in: Sandbox, listener: int) -> None:
    program = f"{TRY}import socket; print(attempt(lambda: socket.create_connection(('127.0.0.1', {listener}), 2)))"

    assert _answer(shut_in, program) == "ConnectionRefusedError 111"


def test_neither_names_nor_addresses_of_the_world_are_reached(shut_in: Sandbox) -> None:
    program = f"""{TRY}import socket
print(attempt(lambda: socket.getaddrinfo('example.com', 80)).split()[0])
print(attempt(lambda: socket.create_connection(('192.0.2.1', 80), 2)))
print([name for _, name in socket.if_nameindex()])"""

    assert _answer(shut_in, program) == "gaierror\nOSError 101\n['lo']"


def test_a_program_that_is_let_out_reaches_the_network_and_sees_no_more_of_the_machine(
    shut_in: Sandbox, listener: int
) -> None:
    program = f"""{TRY}import os, socket
print(attempt(lambda: socket.create_connection(('localhost', {listener}), 2).close()))
print(sorted(name for _, name in socket.if_nameindex()) != ['lo'])
print([os.path.exists(p) for p in ('/etc/ssl/private', '/etc/pki/tls/private', '/etc/shadow',
       '/etc/hostname', '/var', '/run', {str(Path.home() / ".ssh")!r})])"""
    others = sorted(name for _, name in socket.if_nameindex()) != ["lo"]

    said = _answer(shut_in, program, network=True)

    assert said == f"None\n{others}\n{[False] * 7}"


def test_mode_process_says_that_it_isolates_nothing_and_reaches_the_listener(listener: int) -> None:
    sandbox = _open(SandboxMode.PROCESS)
    program = (
        f"import socket; socket.create_connection(('127.0.0.1', {listener})); print('reached')"
    )

    assert sandbox.describe() == "no isolation: your files, rights and network; 8 GiB a process"
    assert _answer(sandbox, program) == "reached"


def test_the_environment_is_what_was_given(
    any_mode: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    program = """
import os
for name in ("PWD", "LC_CTYPE"):
    os.environ.pop(name, None)
print(sorted(os.environ.items()))"""

    assert _answer(any_mode, program) == str(sorted(ENV.items()))


def test_no_process_of_the_owner_is_visible(shut_in: Sandbox) -> None:
    program = "import os; print(sorted(int(p) for p in os.listdir('/proc') if p.isdecimal()))"

    assert _answer(shut_in, program) == "[1, 2]"


def test_the_program_inherits_no_descriptor(any_mode: Sandbox) -> None:
    program = "import os; print(len(os.listdir('/proc/self/fd')) - 1)"  # less the listing's own

    assert _answer(any_mode, program) == "3"


def test_files_of_the_owner_are_not_visible(shut_in: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("private key")
    home = Path.home()
    program = f"""{TRY}import os
print(attempt(lambda: open({str(secret)!r})))
print([os.path.exists(p) for p in ({str(home / ".ssh")!r}, {str(home / ".netrc")!r},
       {str(home / ".config")!r}, '/etc/shadow', '/etc/hostname', '/var', '/run', '/sys/fs')])"""

    assert _answer(shut_in, program) == f"FileNotFoundError 2\n{[False] * 8}"


def test_only_private_and_writable_folders_can_be_written(shut_in: Sandbox, tmp_path: Path) -> None:
    reference, own = tmp_path / "reference", tmp_path / "own"
    reference.mkdir()
    own.mkdir()
    places = [reference, own, Path("/usr"), Path("/etc"), Path("/"), Path("/dev")]
    places += [Path(sys.base_prefix), *map(Path, PRIVATE)]
    program = f"""{TRY}
for place in {[str(place) for place in places]}:
    print(attempt(lambda: open(place + "/written", "w").close()))"""

    said = _answer(shut_in, program, read_only=(reference,), writable=(own,)).splitlines()

    refused = "OSError 30"  # a read-only file system
    assert said == [refused, "None", *[refused] * 5, "None", "None"]
    assert not any(Path(place, "written").exists() for place in PRIVATE)
    assert [path.name for path in tmp_path.rglob("written")] == ["written"]


def test_read_only_holds_inside_a_writable_folder_and_hidden_inside_both(
    shut_in: Sandbox, tmp_path: Path
) -> None:
    for name in ("judge", "secrets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "answers").write_text("42")
    program = f"""{TRY}import os
print(attempt(lambda: open("judge/file", "w")))
print(attempt(lambda: open("judge/file").read()))
print(attempt(lambda: os.listdir("secrets")))
print(attempt(lambda: open("answers").read()))
print(attempt(lambda: os.rename("judge", "gone")))"""
    hidden = (tmp_path / "secrets", tmp_path / "answers", tmp_path / "absent")

    said = _answer(
        shut_in, program, read_only=(tmp_path / "judge",), writable=(tmp_path,), hidden=hidden
    )

    assert said.splitlines() == [
        *("OSError 30", "'judge'", "[]", "PermissionError 13", "OSError 16")
    ]
    assert (tmp_path / "judge/file").read_text() == "judge"


def test_a_link_in_a_writable_folder_leads_nowhere(shut_in: Sandbox, tmp_path: Path) -> None:
    secret, own = tmp_path / "secret", tmp_path / "own"
    secret.write_text("private")
    own.mkdir()
    (own / "planted").symlink_to(secret)
    program = f"""{TRY}import os
print(attempt(lambda: open("planted").read()))
os.symlink({str(secret)!r}, "mine")
open("mine", "w").write("overwritten")"""  # lands in the private folder above this one

    assert _answer(shut_in, program, writable=(own,)) == "FileNotFoundError 2"
    assert secret.read_text() == "private"


def test_a_writable_folder_that_became_a_link_is_refused(shut_in: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    for path in (tmp_path / "link", tmp_path / "link" / "below"):
        with pytest.raises(InvalidInput, match="leads through a symbolic link"):
            _start(shut_in, "", writable=(path,))


def test_a_read_only_folder_named_by_a_link_is_seen_under_both_names(
    shut_in: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("seen")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    program = f"import os; print(open('{link}/file').read(), os.path.realpath('{link}'))"

    assert _answer(shut_in, program, read_only=(link,)) == f"seen {tmp_path / 'real'}"


def test_no_rights_are_left_and_none_can_be_won(shut_in: Sandbox) -> None:
    program = """
import ctypes, os
status = open("/proc/self/status").read()
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER = 0x10000000
print([line.split()[1] for line in status.splitlines() if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))])
print(libc.unshare(CLONE_NEWUSER), libc.mount(b"none", b"/tmp", b"tmpfs", 0, None), os.getuid())"""

    said = _answer(shut_in, program)

    assert said == f"{['0' * 16, '0' * 16, '1']}\n-1 -1 65534"


def test_no_other_process_can_be_reached_into(shut_in: Sandbox) -> None:
    program = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
numbers = (101, 310, 311, 438) if x86 else (117, 270, 271, 438)
calls = [(numbers[0], 0, 0, 0, 0)]  # PTRACE_TRACEME: allowed to anybody elsewhere
calls += [(number, os.getpid(), 0, 0, 0, 0, 0) for number in numbers[1:3]]
calls += [(numbers[3], os.pidfd_open(os.getpid()), 0, 0)]
print([(libc.syscall(*call), ctypes.get_errno()) for call in calls])
print(libc.syscall(39 if x86 else 172) == os.getpid())"""

    said = _answer(shut_in, program)

    assert said == f"{[(-1, 1)] * 4}\nTrue"


def test_timers_that_fire_without_their_program_are_few(shut_in: Sandbox) -> None:
    program = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
made = 0
while made < 1000 and libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0:
    made += 1
print(0 < made <= 64, ctypes.get_errno())"""

    assert _answer(shut_in, program) == "True 11"  # EAGAIN


def test_no_setting_of_the_machine_can_be_written(shut_in: Sandbox) -> None:
    program = """
import os, stat
def can_be_written(path):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
print([path for top in ("/proc/sys", "/proc/pressure", "/sys") for place, _, names in os.walk(top)
       for path in (place + "/" + name for name in names)
       if not stat.S_ISLNK(os.lstat(path).st_mode) and can_be_written(path)])
print(can_be_written("/proc/sys/kernel/core_pattern"), can_be_written("/proc/sysrq-trigger"))"""

    assert _answer(shut_in, program) == "[]\nFalse False"


def test_a_fork_bomb_ends_at_its_process_limit(strict: Sandbox) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"

    assert _ending(strict, bomb) is Ending.PROCESS_LIMIT


def test_threads_count_as_processes(strict: Sandbox) -> None:
    program = """
import threading, time
for _ in range(100):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"""

    assert _ending(strict, program) is Ending.PROCESS_LIMIT


def test_a_memory_hog_ends_at_its_memory_limit(strict: Sandbox) -> None:
    hog = "hold = []\nwhile True: hold.append(bytearray(b'x' * 2**24))"

    assert _ending(strict, hog) is Ending.MEMORY_LIMIT


def test_memory_of_a_child_counts_and_its_parent_does_not_live_on(strict: Sandbox) -> None:
    program = """
import os, time
if os.fork() == 0:
    bytearray(b"x" * 2**29)
time.sleep(600)"""

    assert _ending(strict, program) is Ending.MEMORY_LIMIT


def test_memory_without_a_control_group_is_bounded_by_process() -> None:
    sandbox = _open(SandboxMode.NO_CGROUP)
    program = "try: bytearray(b'x' * 2**29)\nexcept MemoryError: print('refused')"

    assert _answer(sandbox, program) == "refused"


def test_full_private_folders_are_the_programs_own_problem(shut_in: Sandbox) -> None:
    program = f"""{TRY}
for place in {PRIVATE}:
    with open(place + "/large", "wb", buffering=0) as stream:
        said = "None"
        while len(said.split()) == 1:
            said = attempt(lambda: stream.write(bytes(2**20)))
    print(said)"""
    free = psutil.disk_usage(PRIVATE[0]).free

    assert _answer(shut_in, program) == "OSError 28\nOSError 28"  # no space left on device
    assert psutil.disk_usage(PRIVATE[0]).free > free - 2**30


def test_too_much_in_a_writable_folder_ends_the_program(shut_in: Sandbox, tmp_path: Path) -> None:
    program = """
import itertools
for number in itertools.count():
    with open(f"file{number}", "wb") as stream:
        stream.write(bytes(2**20))"""

    assert _ending(shut_in, program, writable=(tmp_path,)) is Ending.OUTPUT_LIMIT


def test_ten_gigabytes_of_output_end_at_the_limit(any_mode: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "log"
    flood = "import os\nfor _ in range(10 * 2**14): os.write(1, bytes(2**16))"

    with log.open("wb") as stream:
        assert _ending(any_mode, flood, stdout=stream) is Ending.OUTPUT_LIMIT

    data = log.read_bytes()
    assert data[:MIB] == bytes(MIB)
    assert data[MIB:] == b"\n[ended: it wrote more than 1048576 bytes here]\n"


def test_output_below_the_limit_is_complete_and_in_order(any_mode: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = "import os\nfor n in range(9999): os.write(1 + n % 2, b'%d\\n' % n)"

    with log.open("wb") as stream:
        assert _ending(any_mode, program, stdout=stream, stderr=subprocess.STDOUT) is Ending.EXITED

    assert log.read_text().split() == [str(n) for n in range(9999)]


def test_a_pipe_of_the_owners_is_the_programs_own_and_unbounded(any_mode: Sandbox) -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream:
        with os.fdopen(write, "wb") as theirs:
            jail = _start(any_mode, "import os; os.write(1, bytes(2**22))", stdout=theirs)
        with jail:
            assert stream.read() == bytes(2**22)
            assert (jail.wait(WAIT_S), jail.ending()) == (0, Ending.EXITED)


def test_a_hang_ends_with_its_time(any_mode: Sandbox) -> None:
    program = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"

    assert _ending(any_mode, program, timeout_s=0.2) is Ending.TIME_LIMIT


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_an_end_by_a_signal_is_a_crash(any_mode: Sandbox, number: signal.Signals) -> None:
    with _start(any_mode, f"import os; os.kill(os.getpid(), {int(number)})") as jail:
        assert jail.wait(WAIT_S) in (128 + number, -number)
        assert jail.ending() is Ending.CRASHED


@pytest.mark.parametrize("code", [7, 255])
def test_an_exit_code_is_passed_on(any_mode: Sandbox, code: int) -> None:
    with _start(any_mode, f"raise SystemExit({code})") as jail:
        assert (jail.wait(WAIT_S), jail.ending()) == (code, Ending.EXITED)


def _daemon(marker: str, last: str) -> str:
    """Return a program that leaves a process in a session of its own behind."""
    return f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", {marker!r}])
    os._exit(0)
os.wait()
print("left", flush=True)
{last}"""


@pytest.mark.parametrize("last", ["", "time.sleep(600)"])
def test_what_slipped_into_a_session_of_its_own_ends_too(any_mode: Sandbox, last: str) -> None:
    marker = owners.new_name()

    with _start(any_mode, _daemon(marker, last), stdout=subprocess.PIPE) as jail:
        assert jail.process.stdout.readline() == b"left\n"
    assert alive(marker) == []


def _groups() -> set[str]:
    return {path.name for path in Path("/sys/fs/cgroup").rglob(f"fvec-*-{os.getpid()}-*")}


def _descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_nothing_is_left_after_an_end(strict: Sandbox, tmp_path: Path) -> None:
    descriptors, others = _descriptors(), _groups()
    with _start(strict, "input()", stdin=subprocess.PIPE) as jail:
        pid = jail.pid
        assert jail.pids() == (pid,)
        assert len(_groups() - others) == 1

    assert not psutil.pid_exists(pid)
    assert _groups() == others
    assert _descriptors() == descriptors
    jail.close()


OWNER = """
import sys, time
from pathlib import Path
from layers.manifest import SandboxSection
from layers.sandbox.base import Confinement
from layers.sandbox.box import Sandbox
sandbox = Sandbox.open(SandboxSection(mode=sys.argv[1]))
argv = [sys.executable, "-I", "-S", "-c", sys.argv[2], sys.argv[3]]
with sandbox.start(argv, cwd=Path("/"), env={}, confinement=Confinement((), (), sandbox.limits)):
    print("runs", flush=True)
    time.sleep(600)
"""


def test_the_death_of_the_owner_ends_the_program_and_its_group(any_mode: Sandbox) -> None:
    marker = owners.new_name()
    program = _daemon(marker, "time.sleep(600)")
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, any_mode.mode, program, marker],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout.readline() == b"runs\n"
        assert alive(marker)
        owner.kill()

    assert _gone(marker)
    deadline = time.monotonic() + WAIT_S
    while list(Path("/sys/fs/cgroup").rglob(f"fvec-*-{owner.pid}-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_death_of_the_launcher_ends_the_program(any_mode: Sandbox) -> None:
    marker = owners.new_name()
    with _start(any_mode, f"import time; time.sleep(600)  # {marker}") as jail:
        jail.process.kill()
        assert _gone(marker)
        with pytest.raises(ToolFailed, match="could not be run"):
            jail.wait(WAIT_S)


def test_a_group_that_a_dead_owner_left_is_removed_at_the_next_open(strict: Sandbox) -> None:
    group = strict.group(SMALL)
    namespace = group.places[0].name.split("-")[1]
    group.remove()
    orphan = f"fvec-{namespace}-{os.getpid()}-1-0badcafe"  # our process id, another start
    places = [folder.with_name(orphan) for folder in group.places]
    for place in places:
        place.mkdir()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as left:
        for place in places:
            (place / "cgroup.procs").write_text(str(left.pid))
        Sandbox.open(SandboxSection())
        assert left.wait(WAIT_S) == -signal.SIGKILL

    assert [place for place in places if place.exists()] == []


def test_a_group_of_version_2_is_ended_by_the_kernel() -> None:
    mounts = cgroups._mounts()
    if "" not in mounts or not os.access(mounts[""][0], os.W_OK):
        pytest.skip("no control group hierarchy of version 2 that can be written to")
    folder = mounts[""][0] / owners.new_name()
    folder.mkdir()
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    group = Group(dict.fromkeys(cgroups.NEEDED, folder), version=2)
    with group, subprocess.Popen(sleeper) as process:
        group.attach_paths[0].write_text(str(process.pid))
        assert group.pids() == (process.pid,)
        assert group.cpu_seconds() >= 0.0
        group.kill()
        assert process.wait(WAIT_S) == -signal.SIGKILL
    assert not folder.exists()


def test_a_group_that_stands_still_uses_no_cpu_and_goes_on_afterwards(strict: Sandbox) -> None:
    program = """
import os, sys
if os.fork() == 0:
    while True: pass
for line in sys.stdin:
    print("heard", line.strip(), flush=True)"""
    with _start(strict, program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jail:

        def heard(word: bytes) -> bytes:
            jail.process.stdin.write(word + b"\n")
            jail.process.stdin.flush()
            return jail.process.stdout.readline()

        assert heard(b"before") == b"heard before\n"
        for word in (b"first", b"second"):
            jail._group.freeze()
            used = jail.cpu_seconds()
            time.sleep(0.5)
            assert jail.cpu_seconds() == used
            jail._group.thaw()
            assert heard(word) == b"heard " + word + b"\n"
        time.sleep(0.2)
        assert jail.cpu_seconds() > used


def test_a_group_that_stands_still_is_ended(strict: Sandbox) -> None:
    with _start(strict, "import time; time.sleep(600)") as jail:
        pid = jail.pid
        jail._group.freeze()
        jail._group.kill()
        assert jail._group.pids() == ()
    assert not psutil.pid_exists(pid)


def test_memory_of_a_group_is_told(strict: Sandbox) -> None:
    program = "held = bytearray(b'x' * 2**26)\nprint(flush=True)\ninput()"
    with _start(strict, program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jail:
        jail.process.stdout.readline()
        memory = jail._group.memory()
    assert 2**26 < memory.held < 2**27
    assert memory.peak is None or memory.peak >= memory.held


def test_cpu_time_counts_ended_processes(strict: Sandbox) -> None:
    program = """
import os, sys, time
if os.fork() == 0:
    while time.process_time() < 0.2: pass
    os._exit(0)
os.wait()"""
    with _start(strict, program) as jail:
        assert jail.wait(WAIT_S) == 0
        used = jail.cpu_seconds()
    assert used > 0.2
    assert jail.cpu_seconds() == pytest.approx(used, abs=0.05)


def test_cpu_time_of_a_live_process_is_known_in_every_mode(any_mode: Sandbox) -> None:
    program = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    with _start(any_mode, program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as jail:
        jail.process.stdout.readline()
        assert 0.15 < jail.cpu_seconds() < 2.0  # up to a scheduler's tick behind


def test_a_program_is_pinned_where_asked(any_mode: Sandbox) -> None:
    cpu = max(os.sched_getaffinity(0))
    program = "import os, sys; print(os.sched_getaffinity(0))"

    assert _answer(any_mode, program, cpus=[cpu]) == f"{{{cpu}}}"


def test_a_pinned_program_cannot_leave_its_cpu(strict: Sandbox) -> None:
    cpus = os.sched_getaffinity(0)
    if cgroups.CPUSET not in cgroups.find().parents or len(cpus) < 2:
        pytest.skip("one CPU, or no controller that holds groups to CPUs")
    program = f"""
import os
try:
    os.sched_setaffinity(0, {sorted(cpus)!r})
finally:
    print(os.sched_getaffinity(0))"""

    assert _answer(strict, program, cpus=[max(cpus)]) == f"{{{max(cpus)}}}"


def test_a_virtual_environments_interpreter_finds_its_packages(shut_in: Sandbox) -> None:
    confinement = Confinement((), (), SMALL)
    with shut_in.start(
        [sys.executable, "-c", "import sys, psutil; print(sys.prefix)"],
        cwd=Path("/"),
        env=ENV,
        confinement=confinement,
        stdout=subprocess.PIPE,
    ) as jail:
        assert jail.process.stdout.read().decode().strip() == sys.prefix


def test_a_program_that_is_not_there_is_the_tools_failure(any_mode: Sandbox) -> None:
    others = _groups()
    with (
        pytest.raises(ToolFailed, match="could not be run"),
        any_mode.start(
            ["no-such-program"], cwd=Path("/"), env=ENV, confinement=Confinement((), (), SMALL)
        ) as jail,
    ):
        jail.wait(WAIT_S)
    assert _groups() == others


def test_a_logged_run_raises_the_limit_that_ended_it(any_mode: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "build.log"
    argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
    command = Command(argv, Path("/"), ENV, timeout_s=0.5)

    with pytest.raises(LimitReached, match=r"^the build ran longer than 0\.5 s\n") as raised:
        run_logged(any_mode, command, log, "the build", Confinement((), (), SMALL))
    assert raised.value.reason is Ending.TIME_LIMIT
    assert raised.value.message.endswith(f"  log: {log}")


def test_a_logged_run_that_fails_says_its_last_words(any_mode: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    argv = [sys.executable, "-I", "-S", "-c", "raise SystemExit('no compiler')"]
    command = Command(argv, Path("/"), ENV, WAIT_S)

    with pytest.raises(
        ToolFailed, match=r"the build ended with exit code 1\n(.*\n)*  \| no compiler"
    ) as raised:
        run_logged(any_mode, command, log, "the build", Confinement((), (), SMALL))
    assert not isinstance(raised.value, LimitReached)


def test_a_logged_run_that_ends_well_leaves_its_output(any_mode: Sandbox, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    argv = [sys.executable, "-I", "-S", "-c", "open('built', 'w'); print('done')"]
    command = Command(argv, tmp_path, ENV, WAIT_S)

    run_logged(any_mode, command, log, "the build", Confinement((), (tmp_path,), SMALL))

    assert log.read_text().splitlines()[-1] == "done"
    assert (tmp_path / "built").exists()
