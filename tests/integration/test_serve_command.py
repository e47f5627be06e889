"""`fvec serve` as a process: how it begins, what it answers, how it ends."""

import ipaddress
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from bot.commands.serve import webhook_secrets
from layers.errors import InvalidInput, Missing
from tests.service_on_loopback import SIGNED_WITH, Sender

PROGRAM = Path(sys.executable).with_name("fvec")
PATIENCE_S = 60
EVERYWHERE = str(ipaddress.IPv4Address(0))
# A token of the form that GitHub gives out, and of nobody.
TOKEN = "ghp_" + "0" * 36


def environment(tmp_path, **more):
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {
        **kept,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FVEC_WEBHOOK_SECRET": SIGNED_WITH,
        "FVEC_GITHUB_TOKEN": TOKEN,
        "FVEC_GITHUB_LOGIN": "fvec[bot]",
        "FVEC_GITHUB_API_URL": "http://127.0.0.1:9",  # where nobody listens
        **more,
    }


def argv(tmp_path, *more):
    folder = tmp_path / "service"
    places = ["--database", str(folder / "jobs.sqlite3"), "--work", str(folder / "work")]
    return [str(PROGRAM), "serve", "--port", "0", *places, *more]


class Service:
    """A running `fvec serve`."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self._told = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.url = self._address()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            self._told.put(line)
        self._told.put("")

    def _address(self):
        while line := self._told.get(timeout=PATIENCE_S):
            if found := re.search(r"listening on (http://\S+)/webhook", line):
                return found[1]
        raise AssertionError("".join(self.lines))

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        out = self.process.stdout.read()
        code = self.process.wait(PATIENCE_S)
        self._reader.join()
        return code, out, "".join(self.lines)


@contextmanager
def running(tmp_path, *more, **environ):
    process = subprocess.Popen(
        argv(tmp_path, *more),
        env=environment(tmp_path, **environ),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        service = Service(process)
        try:
            yield service
        finally:
            service.end(signal.SIGKILL)


def tried(tmp_path, *more, **environ):
    """Run a command that is expected to end by itself."""
    return subprocess.run(
        argv(tmp_path, *more),
        env=environment(tmp_path, **environ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def health(url):
    return requests.get(f"{url}/healthz", timeout=30)


def is_well(url):
    until = threading.Event()
    for _ in range(600):
        if health(url).status_code == 200:
            return True
        until.wait(0.1)
    return False


def test_it_takes_deliveries_works_and_ends_by_sigterm_as_it_should(tmp_path):
    with running(tmp_path, "--json") as service:
        sender = Sender(service.url)
        with sender.session:
            assert sender.deliver("ping", {"zen": "Half measures", "hook_id": 1}).status_code == 202
            assert is_well(service.url)
        code, out, told = service.end()
    assert (code, json.loads(out)) == (0, {"schema": "fvec.serve/1", "ended_by": "SIGTERM"})
    assert TOKEN not in told
    assert SIGNED_WITH not in told


def test_it_measures_what_is_free_where_jobs_are_done(tmp_path):
    with running(tmp_path) as service:
        text = requests.get(f"{service.url}/metrics", timeout=30).text
    (line,) = [line for line in text.splitlines() if line.startswith("fvec_work_free_bytes ")]
    assert float(line.split()[1]) > 0


def test_the_weakest_sandbox_is_one_that_there_is(tmp_path):
    done = tried(tmp_path, "--weakest-sandbox", "none")
    assert (done.returncode, "--weakest-sandbox" in done.stderr) == (2, True)


def test_it_ends_by_an_interrupt_too(tmp_path):
    with running(tmp_path) as service:
        code, out, _ = service.end(signal.SIGINT)
    assert (code, out) == (0, "ended by SIGINT\n")


def test_without_a_worker_it_needs_no_credentials_and_says_that_nobody_works(tmp_path):
    with running(tmp_path, "--no-worker", FVEC_GITHUB_TOKEN="") as service:
        answer = health(service.url)
        code, _, _ = service.end()
    assert (answer.status_code, answer.json(), code) == (
        503,
        {"error": "no worker of the lane quick or measure has been heard of lately"},
        0,
    )


def test_two_share_a_database_and_one_does_the_work_of_both(tmp_path):
    with running(tmp_path) as works, running(tmp_path, "--no-worker") as takes:
        assert is_well(works.url)
        assert is_well(takes.url)


def test_no_secret_is_no_service(tmp_path):
    ended = tried(tmp_path, FVEC_WEBHOOK_SECRET="")
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr.startswith("fvec: no webhook secret: the service takes signed deliveries")
    assert "FVEC_WEBHOOK_SECRET_FILE" in ended.stderr


def test_no_credentials_are_no_worker(tmp_path):
    ended = tried(tmp_path, FVEC_GITHUB_TOKEN="")
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (
        4,
        "fvec: no credentials for GitHub",
    )


def test_a_port_that_is_taken_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ended = tried(tmp_path, "--port", port)
    assert ended.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr


def test_an_address_that_others_reach_is_warned_of(tmp_path):
    with running(tmp_path, "--host", EVERYWHERE) as service:
        _, _, told = service.end()
    assert f"plain HTTP on {EVERYWHERE}: end TLS in front of it" in told


@pytest.mark.parametrize(
    "options",
    [["--port", "65536"], ["--port", "-1"], ["--port", "²"], ["--commands-per-hour", "0"]],
)
def test_options_are_checked(tmp_path, options):
    ended = tried(tmp_path, *options)
    assert (ended.returncode, "usage: fvec serve" in ended.stderr) == (2, True)


def test_secrets_come_from_a_file_and_leave_the_environment(tmp_path):
    file = tmp_path / "secrets"
    file.write_text("the-new-one\nthe-old-one\n")
    environ = {"FVEC_WEBHOOK_SECRET_FILE": str(file), "PATH": "/usr/bin"}
    assert len(webhook_secrets(environ)) == 2
    assert environ == {"PATH": "/usr/bin"}


def test_a_secret_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").write_text("\n")
    for name, error, told in (
        ("nowhere", InvalidInput, "No such file"),
        ("binary", InvalidInput, "no UTF-8 text"),
        ("empty", Missing, "no webhook secret"),
    ):
        with pytest.raises(error, match=told):
            webhook_secrets({"FVEC_WEBHOOK_SECRET_FILE": str(tmp_path / name)})
    with pytest.raises(InvalidInput, match="both FVEC_WEBHOOK_SECRET and"):
        webhook_secrets({"FVEC_WEBHOOK_SECRET": "a", "FVEC_WEBHOOK_SECRET_FILE": "b"})
