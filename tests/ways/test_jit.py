"""A just-in-time build survives kills at random moments, company, leftovers, missing programs. With a small library."""

import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from customops import _build, _driver, _recipes, _supervise, jit

UNITS = 3
# A large library is there half-written for a while.
SLOW_LINKER = "c++ -shared $in -o $out.all && head -c 5000 $out.all >$out && sleep 0.3 && cp $out.all $out"
# Without torch, so that a process is up in a moment.
WORKER = f"""
import ctypes, sys, types
from pathlib import Path
package = sys.modules["customops"] = types.ModuleType("customops")
package.__path__ = [{str(Path(_build.__file__).parent)!r}]
from customops import _build as build
folder = Path(sys.argv[1])
sources = tuple(sorted(folder.glob("*.cpp")))
recipe = build.Recipe("tiny", (folder / "rules").read_text(), sources, (), "a small library", 2)
try:
    print(ctypes.CDLL(str(build.build(recipe))).answer())
except build.BuildError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Sources of a library that compiles in a second or so. Each run of the compiler adds a line to the file `runs`."""
    monkeypatch.setenv("CUSTOMOPS_JIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "worker.py").write_text(WORKER)
    rules = ["rule compile", f"  command = echo $in >>{folder}/runs && c++ -O1 -fPIC -c $in -o $out",
             "rule link", "  command = " + SLOW_LINKER]  # fmt: skip
    for number in range(UNITS):
        name = "answer" if number == 0 else f"unit{number}"
        code = "std::ostringstream s; s << 42; return 21 * s.str().size();"
        (folder / f"{name}.cpp").write_text(f'#include <sstream>\nextern "C" int {name}() {{ {code} }}\n')
        rules.append(f"build {name}.o: compile {folder}/{name}.cpp")
    objects = " ".join(re.findall(r"build (\S+):", "\n".join(rules)))
    (folder / "rules").write_text("\n".join([*rules, f"build tiny.so: link {objects}"]) + "\n")
    return folder


def start(project, **options):
    command = [sys.executable, project / "worker.py", project]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finish(process):
    """stderr of a worker that has to succeed, within a minute."""
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "42\n"), err
    return err


def cache(project):
    return project.parent / "cache"


def libraries(project):
    """What a build made and has finished."""
    return [path for path in cache(project).glob("tiny-*/tiny.so") if ".partial-" not in path.parent.name]


def processes_in(folder):
    """Compilers and the like that still work there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder in (process / "cwd").resolve().parents:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            pass
    return found


def runs(project):
    return len((project / "runs").read_text().splitlines())


def test_each_source_is_a_line_where_there_is_no_terminal(project):
    assert re.findall(r"^\[(\d/\d)\] ", finish(start(project)), re.MULTILINE) == ["1/4", "2/4", "3/4", "4/4"]


def test_thirty_kills_at_random_moments_then_a_build_that_finishes(project):
    started = time.monotonic()
    finish(start(project))
    whole_build = time.monotonic() - started
    shutil.rmtree(cache(project))
    generator, interrupted = random.Random(7), 0
    for _ in range(30):
        process = start(project, start_new_session=True)
        time.sleep(generator.uniform(0, whole_build))
        interrupted += process.poll() is None
        if generator.random() < 0.5:
            process.kill()  # ninja learns of it
        else:
            with contextlib.suppress(ProcessLookupError):  # it was done
                os.killpg(process.pid, signal.SIGKILL)  # ninja dies as well; its compilers are in groups of their own
        process.communicate()
        for library in libraries(project):  # under this name there is only ever a whole one
            code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
            assert subprocess.check_output([sys.executable, "-c", code], text=True) == "42\n"
            if generator.random() < 0.8:
                shutil.rmtree(library.parent)  # start over, sometimes
    assert interrupted >= 10
    finish(start(project))
    finish(start(project))
    assert not list(cache(project).glob("*.partial-*"))
    deadline = time.monotonic() + 20
    while processes_in(cache(project)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_in(cache(project)) == []


def test_no_compiler_outlives_a_killed_build(project):
    rules = (project / "rules").read_text()
    (project / "rules").write_text(rules.replace("&& c++ -O1", "&& sleep 30 && c++ -O1"))
    process = start(project)
    while not (project / "runs").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate()
    time.sleep(1)
    assert processes_in(cache(project)) == []
    assert libraries(project) == []


def compilers_of(project, count):
    """Has the first `count` compilers of the next build last for a minute; waits until they run."""
    rules = (project / "rules").read_text()
    (project / "rules").write_text(rules.replace("&& c++ -O1", "&& sleep 60 && c++ -O1"))
    process = start(project, start_new_session=True)
    deadline = time.monotonic() + 20
    while not (project / "runs").exists() or runs(project) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(
    "how", ["python", "its group", "its group by SIGTERM", "all that it started but the compilers"]
)
def test_nothing_is_left_two_seconds_after_a_kill(project, how):
    """ninja puts compilers into groups of their own: a kill of Python's group used to end ninja alone."""
    process = compilers_of(project, 2)
    if how == "python":
        process.kill()
    elif how.startswith("its group"):
        os.killpg(process.pid, signal.SIGTERM if how.endswith("SIGTERM") else signal.SIGKILL)
    else:
        tree = [pid for pid in children(process.pid)]
        for pid in (process.pid, *(pid for pid in tree if name_of(pid) == "ninja")):
            os.kill(pid, signal.SIGKILL)
    process.communicate()
    time.sleep(2)
    assert processes_in(cache(project)) == []


def test_a_signal_that_comes_while_the_rest_is_ended_changes_nothing(tmp_path):
    """As when ninja is killed first and Python a moment later. The signal is sent between looking and killing."""
    code = f"""
import os, runpy, signal, sys
sys.argv[1:] = [str(os.getppid()), "sh", "-c", "sleep 60 & sleep 60 &"]
main = runpy.run_path({_supervise.__file__!r})["main"]
look, sent = main.__globals__["_others"], []
def look_and_signal():
    found = look()
    if not sent:
        sent.append(True)
        os.kill(os.getpid(), signal.SIGTERM)
    return found
main.__globals__["_others"] = look_and_signal
main()
"""
    folder = tmp_path / "build"
    folder.mkdir()
    run = subprocess.run([sys.executable, "-c", code], cwd=folder, start_new_session=True, check=False)
    assert run.returncode == 128 + signal.SIGTERM
    assert processes_in(tmp_path) == []


def children(pid):
    """Of a process, and theirs."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [below for child in map(int, listed) for below in (child, *children(child))]


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_child_that_outlives_its_killed_parent_does_not_keep_the_turn(project):
    """flock belongs to an open file, and the child has the parent's."""
    worker = (project / "worker.py").read_text()
    fork = "import os, threading, time\nthreading.Timer(0.7, lambda: os.fork() or time.sleep(90)).start()\n"
    (project / "worker.py").write_text(fork + worker)
    process = compilers_of(project, 1)
    deadline = time.monotonic() + 20
    while not (
        forked := [pid for pid in children(process.pid) if "worker.py" in Path(f"/proc/{pid}/cmdline").read_text()]
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        process.kill()
        process.wait()
        (project / "worker.py").write_text(worker)
        (project / "rules").write_text((project / "rules").read_text().replace("sleep 60 && ", ""))
        recipe = _build.Recipe("tiny", "", (), (), "", 1)
        for lock in cache(project).glob("*.lock"):  # of the build that was killed
            with _build.turn(lock, recipe.purpose):
                pass
        assert name_of(forked[0])  # still there
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)


def test_a_child_forked_while_a_thread_compiles_takes_its_own_turn(project, tmp_path):
    code = f"""
import os, signal, sys, threading, time
from pathlib import Path
from customops import _turn
held = threading.Event()
def compile():
    with _turn.turn(Path({str(tmp_path / "lock")!r}), "something"):
        held.set()
        time.sleep(1)
thread = threading.Thread(target=compile)
thread.start()
held.wait()
if os.fork() == 0:
    signal.alarm(20)
    with _turn.turn(Path({str(tmp_path / "lock")!r}), "something"):
        print("its turn", flush=True)
        os._exit(0)
thread.join()
assert os.wait()[1] == 0
"""
    package = WORKER.split("from customops import _build")[0]
    run = subprocess.run(
        [sys.executable, "-c", package + code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "its turn\n"), run.stderr


def test_eight_at_once_compile_once(project):
    messages = [finish(process) for process in [start(project) for _ in range(8)]]
    assert runs(project) == UNITS
    assert sum("compiling a small library into" in message for message in messages) == 1
    for message in messages:
        assert "compiling a small library" in message or message == ""
    waited = [message for message in messages if message.startswith("customops: waiting for process ")]
    assert all(re.search(r"waiting for process \d+ on \S+, compiling a small library", message) for message in waited)
    finish(start(project))
    assert runs(project) == UNITS


def test_waiting_is_announced_with_the_one_waited_for(project):
    root = cache(project)
    root.mkdir()
    recipe = _build.Recipe("tiny", (project / "rules").read_text(), tuple(sorted(project.glob("*.cpp"))), (), "", 2)
    with (root / f"tiny-{recipe.key()}.lock").open("w") as lock:
        lock.write("process 123 on elsewhere\n")
        lock.flush()
        fcntl.lockf(lock, fcntl.LOCK_EX)
        process = start(project)
        time.sleep(2)
        assert process.poll() is None
        fcntl.lockf(lock, fcntl.LOCK_UN)
    assert "waiting for process 123 on elsewhere, compiling a small library" in finish(process)


def test_torch_s_stale_lock_is_removed_and_a_live_one_is_left(project, tmp_path):
    cache(project).mkdir(mode=0o700)
    (cache(project) / "build.ninja").write_text("ninja_required_version = 1.3\ncxx = c++\n")  # as torch begins it
    lock = cache(project) / "lock"
    lock.touch()
    finish(start(project))
    assert not lock.exists()
    with lock.open("w"):
        assert not _build.remove_stale_torch_lock(cache(project))
        assert lock.exists()
    assert _build.remove_stale_torch_lock(cache(project))


def test_a_lock_that_is_not_torch_s_is_left(project, tmp_path):
    cache(project).mkdir(mode=0o700)
    lock = cache(project) / "lock"
    lock.touch()  # some other program's
    finish(start(project))
    assert lock.exists()
    lock.write_text("of process 123\n")
    assert not _build.remove_stale_torch_lock(cache(project))
    lock.unlink()
    lock.symlink_to(project / "rules")
    assert not _build.remove_stale_torch_lock(cache(project))
    assert lock.is_symlink()


def test_torch_itself_would_wait_for_ever(tmp_path):
    """What the tutorial page says: torch's baton waits for a file that nobody will remove."""
    from torch.utils import file_baton

    (tmp_path / "lock").touch()
    # Without the rest of torch, whose import takes seconds.
    code = f"import runpy; runpy.run_path({file_baton.__file__!r})['FileBaton']({str(tmp_path / 'lock')!r}).wait()"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code], timeout=3, check=False)
    assert not file_baton.FileBaton(str(tmp_path / "lock")).try_acquire()


def test_a_damaged_library_is_compiled_again(project):
    finish(start(project))
    (library,) = libraries(project)
    library.write_bytes(library.read_bytes()[:5000])
    finish(start(project))
    assert runs(project) == 2 * UNITS


def test_a_compile_error_shows_the_compiler_s_words_and_leaves_nothing(project):
    (project / "unit1.cpp").write_text("int f() { return undeclared_name; }\n")
    process = start(project)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "customops: compiling failed; the compiler's own words:" in err
    assert "unit1.cpp:1:18: error:" in err
    assert "undeclared_name" in err
    assert not list(cache(project).glob("tiny-*/")) and not list(cache(project).glob("*.partial-*"))
    (project / "unit1.cpp").write_text("int f() { return 1; }\n")
    finish(start(project))


@pytest.mark.parametrize("change", ["answer.cpp", "rules"])
def test_a_changed_source_or_flag_is_compiled(project, change):
    finish(start(project))
    path = project / change
    path.write_text(path.read_text() + "\n" if change.endswith("cpp") else path.read_text().replace("-O1", "-O0"))
    finish(start(project))
    assert len(libraries(project)) == 2


def test_a_cache_that_cannot_be_written(project, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUSTOMOPS_JIT_CACHE", str(tmp_path / "file/cache"))
    process = start(project)
    _, err = process.communicate(timeout=60)
    assert len(err.strip().splitlines()) == 1
    assert "cannot write to" in err
    assert "set CUSTOMOPS_JIT_CACHE to a folder that you may write to" in err


def refused(project):
    """What a build says that does not get as far as a compiler."""
    ran = runs(project) if (project / "runs").exists() else 0
    _, err = start(project).communicate(timeout=60)
    assert (runs(project) if (project / "runs").exists() else 0) == ran
    assert "set CUSTOMOPS_JIT_CACHE to a folder that only you can write to" in err
    assert len(err.strip().splitlines()) == 1
    return err


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@needs_root
@pytest.mark.parametrize("what", ["folder", "library", "build.json", "build"])
def test_another_user_s_library_is_not_opened(project, what):
    finish(start(project))
    (library,) = libraries(project)
    path = {"folder": cache(project), "library": library, "build": library.parent}.get(what, library.with_name(what))
    os.chown(path, 4711, 4711)
    assert refused(project).startswith(f"customops: {path} belongs to user 4711")


@pytest.mark.parametrize("what", ["folder", "library", "build.json", "build"])
def test_a_library_that_others_may_write_is_not_opened(project, what):
    finish(start(project))
    (library,) = libraries(project)
    path = {"folder": cache(project), "library": library, "build": library.parent}.get(what, library.with_name(what))
    path.chmod(path.stat().st_mode | 0o020)
    assert f"others may write to {path} (mode " in refused(project)


def test_a_library_by_a_link_is_not_opened(project, tmp_path):
    finish(start(project))
    (library,) = libraries(project)
    library.parent.rename(tmp_path / "planted")
    library.parent.symlink_to(tmp_path / "planted")
    assert f"{library.parent} is a symbolic link" in refused(project)


def test_a_cache_in_everybody_s_folder(project, monkeypatch, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv("CUSTOMOPS_JIT_CACHE", str(shared / "cache"))
    shared.chmod(0o777)
    assert f"others may write to {shared} (mode 777; chmod go-w {shared})" in refused(project)
    shared.chmod(0o1777)  # as /tmp
    finish(start(project))
    assert (shared / "cache").stat().st_mode & 0o777 == 0o700


def test_what_a_build_makes_is_its_user_s_alone_whatever_the_umask(project):
    finish(start(project, umask=0))
    for path in (cache(project), *cache(project).rglob("*")):
        assert path.stat().st_mode & 0o022 == 0 or path.parent.name.startswith("tiny-"), path
    finish(start(project))
    assert runs(project) == UNITS


def test_a_full_disk(project, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_build.tempfile, "mkdtemp", full)
    recipe = _build.Recipe("tiny", (project / "rules").read_text(), (), (), "", 2)
    with pytest.raises(jit.BuildError, match=r"the disk of .* is full: free some space, or set CUSTOMOPS_JIT_CACHE"):
        _build.build(recipe)


def test_ninja_is_found_beside_python_and_missed_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "env/bin/python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    with pytest.raises(
        jit.BuildError, match=r"needs ninja, which is neither on the PATH nor beside .*: pip install ninja$"
    ):
        _build.find_ninja()
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/ninja").touch(mode=0o755)
    assert _build.find_ninja() == str(tmp_path / "env/bin/ninja")


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "g++-99 -m64")
    with pytest.raises(
        jit.BuildError, match=r"needs a C\+\+17 compiler, and g\+\+-99 is not on the PATH: install g\+\+, or set CXX$"
    ):
        jit.build()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "CXX",
            "g++ '-DX",
            r"CXX must be a command, got \"g\+\+ '-DX\" \(No closing quotation\): correct it, or unset",
        ),
        ("MAX_JOBS", "x", r"MAX_JOBS must be a positive whole number, got 'x': correct it, or unset it$"),
        ("MAX_JOBS", "-1", r"MAX_JOBS must be a positive whole number, got '-1'"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(monkeypatch, name, value, message):
    monkeypatch.setenv(name, value)
    with pytest.raises(jit.BuildError, match=message):
        jit.build()


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    for name in ("CUSTOMOPS_JIT_CACHE", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: (_ for _ in ()).throw(KeyError(uid)))
    with pytest.raises(
        jit.BuildError, match=r"nowhere to keep builds \(.*home.*\): set CUSTOMOPS_JIT_CACHE to a folder$"
    ):
        jit.build()


@pytest.mark.parametrize(
    "name", ["CPATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", "NVCC_APPEND_FLAGS"]
)
def test_a_variable_that_compilers_obey_makes_another_library(monkeypatch, name):
    def key():
        return _recipes.recipe("_cpu", (), "").key()

    monkeypatch.delenv(name, raising=False)
    without = key()
    monkeypatch.setenv(name, "/some/folder")
    assert key() != without


@pytest.fixture
def gpu(monkeypatch):
    """A machine with an H200 and a driver for CUDA 12.8, as far as a build looks."""
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index=0: (9, 0))
    monkeypatch.setattr(_driver, "driver_version", lambda: 12080)


def test_a_gpu_without_nvcc_is_an_error_not_a_cpu_build(gpu, monkeypatch, tmp_path):
    from torch.utils import cpp_extension

    for home in (None, str(tmp_path)):
        monkeypatch.setattr(cpp_extension, "CUDA_HOME", home)
        with pytest.raises(
            jit.BuildError, match=r"there is a GPU, but no nvcc .* set CUDA_HOME, or use the prebuilt kernels"
        ):
            jit.build_cuda()


def test_nvcc_newer_than_the_driver(gpu, monkeypatch, tmp_path):
    from torch.utils import cpp_extension

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    (tmp_path / "bin/nvcc").chmod(0o755)
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", str(tmp_path))
    with pytest.raises(
        jit.BuildError, match=r"is of CUDA 13, and the driver runs code of CUDA 12\.8 at most: update the driver"
    ):
        jit.build_cuda()


def test_the_cache_goes_where_the_environment_says(monkeypatch, tmp_path):
    for name in ("CUSTOMOPS_JIT_CACHE", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert _build.cache() == Path.home() / ".cache/customops"
    for name, folder in (
        ("XDG_CACHE_HOME", "customops"),
        ("TORCH_EXTENSIONS_DIR", "customops"),
        ("CUSTOMOPS_JIT_CACHE", ""),
    ):
        monkeypatch.setenv(name, str(tmp_path / name))
        assert _build.cache() == tmp_path / name / folder


def test_jit_load_at_once_from_eight_processes():
    """The real library; whoever comes first compiles it, unless the cache has it."""
    code = "import customops, torch; customops.jit.load(); print(customops.add2(torch.ones(1), torch.ones(1)).item())"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    results = [process.communicate(timeout=600) for process in processes]
    assert [out for out, _ in results] == ["2.0\n"] * 8, results
    assert sum("compiling CPU kernels for" in err and " into " in err for _, err in results) <= 1


def test_a_sources_that_does_not_compile_for_jit(monkeypatch, tmp_path):
    """customops' own: an error of the compiler reaches the user."""
    copy = shutil.copytree(_recipes.SOURCES, tmp_path / "csrc")
    (copy / "library.cpp").write_text("#error deliberately broken\n")
    for path in copy.rglob("*.cpp"):
        if path.name != "library.cpp":
            path.unlink()
    monkeypatch.setattr(_recipes, "SOURCES", copy)
    monkeypatch.setenv("CUSTOMOPS_JIT_CACHE", str(tmp_path / "cache"))
    with pytest.raises(jit.BuildError, match="deliberately broken"):
        jit.build()
