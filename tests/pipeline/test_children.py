"""Long steps: one run a checkout, and nothing left of it, neither processes nor containers, however it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import engine
import images
import pytest
import supervise
from test_reproduce import PYPROJECT

ENGINE = engine.choose("auto")[0]
BASE = [] if ENGINE == "host" else [images.image_name("build", "cpu"), images.image_name("test", "cpu")]
IMAGE = next((image for image in BASE if images.inspect(ENGINE, image, "{{.Id}}")), None)
with_container = pytest.mark.skipif(IMAGE is None, reason="no container engine, or no images yet: make image")

# A "compiler" that starts others, one of them in a session of its own, and says when they all run.
TREE = "sleep {n} & setsid sleep {n} & (sleep {n}; true) & touch {ready}; wait"


@pytest.fixture(autouse=True)
def _default_signals():
    """A shell without job control has SIGINT ignored behind `&`, nohup SIGHUP, and children inherit that."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def start(root, tmp_path):
    """start(code): runs a driver, a script of docker/ whose main() is this code, as make does; returns it when `ready` is."""
    started = []
    env = os.environ | {"CUSTOMOPS_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(root / "docker")}
    (tmp_path / "driver.py").write_text(
        "import sys, children, common\n"
        "def main():\n    exec(sys.argv[1])\n"
        "if __name__ == '__main__':\n    common.main_guard(main)\n"
    )
    (tmp_path / "Makefile").write_text(f'all:\n\t@true && exec {sys.executable} driver.py "$$CODE"\n')

    def run(code, make=False, wait=True):
        (tmp_path / "ready").unlink(missing_ok=True)
        command = ["make"] if make else [sys.executable, "driver.py", code]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=env | {"CODE": code}, text=True, stderr=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        deadline = time.monotonic() + 30
        while wait and not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()


def sleepers(number):
    """How many of our sleeps run: each test sleeps for a number of seconds of its own."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += path.read_bytes().split(b"\0")[:2] == [b"sleep", str(number).encode()]
        except OSError:
            continue
    return found


def gone(count, seconds=2.0):
    deadline = time.monotonic() + seconds
    while (left := count()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not left


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "group SIGINT", "group SIGKILL", "make"])
def test_nothing_is_left_two_seconds_after_the_end(start, tmp_path, how):
    number = 7_000_000 + os.getpid()
    tree = TREE.format(n=number, ready=tmp_path / "ready")
    driver = start(f"children.run(['bash', '-c', {tree!r}])", make=how == "make")
    assert gone(lambda: sleepers(number) != 3)  # all of them have started
    send = os.killpg if how.startswith("group") else os.kill
    send(driver.pid, signal.SIGKILL if how == "make" else signal.Signals[how.split()[-1]])
    assert gone(lambda: sleepers(number))


def test_what_a_command_leaves_behind_is_ended(start, tmp_path):
    number = 8_000_000 + os.getpid()
    leave = f"setsid sleep {number} & setsid -f sleep {number}; touch {tmp_path / 'ready'}"
    driver = start(f"children.run(['bash', '-c', {leave!r}])", wait=False)
    assert driver.wait(10) == 0
    assert (tmp_path / "ready").exists()
    assert sleepers(number) == 0


def test_a_failed_command_is_named(start):
    driver = start("children.run(['bash', '-c', 'exit 7'])", wait=False)
    assert driver.communicate()[1] == "error: `bash -c exit 7` failed with exit status 7\n"


def test_a_second_run_is_refused_and_names_the_first(start, tmp_path):
    first = start(f"children.run(['bash', '-c', 'touch {tmp_path / 'ready'}; sleep 60'])")
    second = start("print('not reached')", wait=False)
    assert second.communicate(timeout=10)[1] == (
        f"error: another make runs here: pid {first.pid}; wait until it ends, or stop it\n"
    )
    first.terminate()
    first.wait(10)
    assert start("pass", wait=False).wait(10) == 0


def test_a_run_after_a_killed_one_waits_until_nothing_of_it_is_left(start, tmp_path):
    """The supervisor holds the lock until the last process is dead."""
    number = 9_000_000 + os.getpid()
    tree = TREE.format(n=number, ready=tmp_path / "ready")
    for _ in range(3):
        killed = start(f"children.run(['bash', '-c', {tree!r}])")
        killed.kill()
        killed.wait()
        after = start(f"open({str(tmp_path / 'after')!r}, 'w')", wait=False)
        assert after.wait(20) == 0, after.stderr.read()
        assert sleepers(number) == 0


def containers(folder):
    """Those that mount a folder: other tests start some, too."""
    listing = [ENGINE, "ps", "--all", "--quiet", f"--filter=volume={folder}"]
    return subprocess.check_output(listing, text=True).split()


@with_container
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL", "group SIGKILL"])
def test_no_container_is_left(start, tmp_path, how):
    """The program in the container ignores SIGTERM, as a first process does without an init."""
    script = "trap '' TERM INT; touch /out/ready; while true; do sleep 1; done"
    driver = start(
        f"children.run_container({ENGINE!r}, {IMAGE!r}, 'bash', '-c', {script!r}, options=['--volume={tmp_path}:/out'])"
    )
    assert len(containers(tmp_path)) == 1
    (os.killpg if how.startswith("group") else os.kill)(driver.pid, signal.Signals[how.split()[-1]])
    driver.wait(60)
    assert gone(lambda: containers(tmp_path), 60)


@with_container
def test_cibuildwheels_container_is_not_left(start, root, tmp_path, lock_like_ours):
    """Interrupted while it builds; cibuildwheel names its container itself, the label is ours."""
    project, shared = tmp_path / "toy", tmp_path / "shared"
    project.mkdir()
    shared.mkdir(mode=0o777)
    (project / "pyproject.toml").write_text(PYPROJECT)
    (project / "setup.py").write_text(
        "import time\nfrom setuptools import setup\nopen('/shared/ready', 'w').close()\ntime.sleep(300)\nsetup(name='toy')\n"
    )
    lock_like_ours(project)
    (tmp_path / "cache").mkdir()
    for name in ("venv", "wheels"):
        (tmp_path / "cache" / name).symlink_to(root / ".cache" / name)
    code = (
        f"import make_wheel, pathlib; make_wheel.run_cibuildwheel({ENGINE!r}, {IMAGE!r}, pathlib.Path({str(project)!r}), "
        f"pathlib.Path({str(tmp_path / 'out')!r}), {{'SOURCE_DATE_EPOCH': '1'}}, "
        f"'--volume={shared}:/shared')"
    )
    driver = start(code, wait=False)
    deadline = time.monotonic() + 60
    while not (shared / "ready").exists():
        assert time.monotonic() < deadline
        assert driver.poll() is None, driver.stderr.read()
        time.sleep(0.1)
    assert len(containers(shared)) == 1
    driver.terminate()
    driver.wait(60)
    assert containers(shared) == []


@with_container
def test_a_container_has_no_capabilities_and_gains_none(start, tmp_path):
    script = "grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status >/out/ready; cat /proc/1/comm >>/out/ready"
    start(f"children.run_container({ENGINE!r}, {IMAGE!r}, 'bash', '-c', {script!r}, options=['--volume={tmp_path}:/out'])",
          wait=False).wait(30)  # fmt: skip
    lines = (tmp_path / "ready").read_text().split()
    assert lines[:6] == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    assert "init" in lines[6]


def test_a_command_that_does_not_exist_is_one_line(root):
    run = subprocess.run(
        [sys.executable, supervise.__file__, "--", "/nowhere"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (127, "error: /nowhere: No such file or directory\n")
