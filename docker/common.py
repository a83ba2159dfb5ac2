"""What every step shares: errors, paths, lock files, build records, environments.

Standard library only, because fetch.py runs before anything is installed.
"""

import errno
import fcntl
import glob
import hashlib
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import supervise
from image import provenance
from lockfile import Locked, read_debian
from lockfile import read_requirements as parse_requirements
from strict import Refused, one_line  # the folder of image is on the path now
from wheelfile import Wheel

ROOT = Path(__file__).resolve().parents[1]
IMAGE_SCRIPTS = ROOT / "docker/image"
LOCKS = ROOT / "docker/locks"
DIST = ROOT / "dist"
CACHE = Path(os.environ.get("CUSTOMOPS_CACHE") or ROOT / ".cache").resolve()  # elsewhere only in tests

PLATFORMS = (*(f"manylinux_2_{minor}" for minor in range(28, 4, -1)),  # NCCL's wheels have manylinux_2_18
             "manylinux2014", "manylinux2010", "manylinux1", "linux")  # fmt: skip


def pip_target(python: str = "3.11", machine: str = "x86_64") -> list[str]:
    """A CPython of the image and its platform, as options of pip."""
    abi = "cp" + python.replace(".", "")
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={python.rstrip('t')}", f"--abi={abi}",
            *([] if abi.endswith("t") else ["--abi=abi3"]), "--abi=none",
            *(f"--platform={platform}_{machine}" for platform in PLATFORMS)]  # fmt: skip


# After `python`: installs local wheels, and nothing that was not named.
PIP_INSTALL = ("-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check")

# Variables of the caller that would change what is built, installed or tested.
LEFT_OUT_OF_ENVIRONMENT = (
    "BUILD_", "BUNDLE", "CCACHE_", "CFLAGS", "CIBW_", "COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "CPPFLAGS", "CUDA", "CUSTOMOPS_",
    "CXXFLAGS", "C_INCLUDE_PATH", "GIT_", "LDFLAGS", "LDSHARED", "LIBRARY_PATH", "NVCC_", "PIP_PREFIX", "PIP_TARGET", "PIP_USER",
    "PYTEST_", "PYTHON", "SOURCE_COMMIT", "SOURCE_DIRTY", "VIRTUAL_ENV",
)  # fmt: skip


class Failure(Exception):
    """Something the user can fix; printed as one line."""


def main_guard(main, alone: bool = True) -> None:
    """Runs main(), the only run of this checkout at a time; an expected failure is one line on stderr, exit status 1."""
    import children  # not at the top: children imports this module

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)  # the same way out as Ctrl-C
    try:
        if "MAKELEVEL" in os.environ:  # make starts this directly, and a killed make cannot pass the signal on
            supervise.die_with_parent(signal.SIGTERM)
        with children.only_run() if alone else nullcontext():
            main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: `{' '.join(map(str, error.cmd))[:200]}` failed with exit status {error.returncode}")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            sys.exit(
                f"error: the disk that holds {error.filename or CACHE} is full: free some space and run this again"
            )
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
            sys.exit(f"error: {why_not_written(Path(os.fsdecode(error.filename)), error)}")
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; what was downloaded and verified stays in the cache")


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def why_not_written(path: Path, error: OSError) -> str:
    """Whose a file or folder is that this user may not write, and what to do."""
    if error.errno == errno.EROFS:
        return f"{path} is on a read-only file system: copy this checkout to a disk that can be written"
    there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    owner, me = map(user_name, (there.lstat().st_uid, os.geteuid()))
    if owner == me:
        return f"{there} cannot be written ({error.strerror}): chmod u+rwX {there}"
    return f"{there} belongs to {owner}, and {me} may not write there: sudo chown -R {me} {there}, or use a checkout of your own"


def read_debian_lock(path: Path) -> list[Locked]:
    try:
        return read_debian(path)
    except Refused as error:
        raise Failure(str(error)) from error


def read_requirements(path: Path) -> list[Locked]:
    try:
        return parse_requirements(path)
    except Refused as error:
        raise Failure(str(error)) from error


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(path: Path, expected: str, actual: str = "") -> None:
    """Refuses a file that is not the locked one; ``actual`` if its hash is known."""
    actual = actual or sha256_of(path)
    if actual != expected:
        raise Failure(
            f"{path} is not the locked file: expected sha256 {expected}, got {actual}; "
            "delete it and run `make fetch` again"
        )


def debian_mirrors() -> list[str]:
    """Where Debian files come from, in this order.

    DEBIAN_MIRROR, or else the archives that this machine's apt uses; then DEBIAN_ARCHIVE, for what mirrors have forgotten.
    Both may name several, separated by spaces.
    """
    mirrors, archives = (os.environ.get(name, "").split() for name in ("DEBIAN_MIRROR", "DEBIAN_ARCHIVE"))
    if mirrors:
        return [url.rstrip("/") for url in [*mirrors, *archives]]
    apt = Path(os.environ.get("CUSTOMOPS_APT_DIR", "/etc/apt"))
    urls = []
    for file in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]:
        if file.suffix in (".list", ".sources") and file.is_file():
            lines = [line for line in file.read_text().splitlines() if re.match(r"(deb|URIs:)\s", line)]
            urls += re.findall(r"https?://\S+", "\n".join(lines))
    urls = [url.rstrip("/") for url in [*(url for url in urls if re.search(r"/debian[^/]*/?$", url)), *archives]]
    if not urls:
        raise Failure("this machine's apt names no Debian mirror: set DEBIAN_MIRROR to one, e.g. http://HOST/debian")
    return list(dict.fromkeys(urls))


def git(project: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Runs git on a project whose own git configuration is not read: docker/image/git.sh says how."""
    command = ["bash", IMAGE_SCRIPTS / "git.sh", project, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A name of its own beside the target, to write to; becomes the target if nothing fails, and disappears otherwise."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    os.close(descriptor)
    try:
        yield Path(name)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def read_record(wheel: Path) -> dict:
    """The build record of a wheel of this pipeline."""
    try:
        return provenance.read_record(wheel)
    except provenance.NoRecord as error:
        raise Failure(str(error)) from error


def given_wheel(wanted: str, target: str) -> Path:
    """The file that WHEEL=... of `make TARGET` names; a pattern such as dist/*.whl may stand for one."""
    example = f"make {target} WHEEL=dist/*.whl"
    if not wanted:
        raise Failure(f"WHEEL is not set: {example}")
    found = [Path(wanted)] if Path(wanted).is_file() else [Path(name) for name in sorted(glob.glob(wanted))]
    if not found:
        raise Failure(f"there is no wheel {wanted}: `make wheel` builds one into dist/, or name another file")
    if len(found) > 1:
        raise Failure(f"WHEEL={wanted} matches {len(found)} files: name one, such as {found[0]}")
    if not found[0].is_file():
        raise Failure(f"{wanted} is a folder: name a wheel in it, as in {example}")
    return found[0]


def built_wheels(folder: Path) -> list[Path]:
    """The wheels that a build left. A link that a container made is not followed: out here it leads to another file."""
    wheels = sorted(folder.glob("*.whl"))
    for path in wheels:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise Failure(
                f"the build left {one_line(path.name)}, which is not a file of its own: its scripts have to copy the wheel"
            )
    return wheels


def read_left(path: Path, most: int) -> str:
    """At most so many bytes of a file that a container may have written; empty if there is none, or a link, a pipe, ..."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, most).decode(errors="replace") if stat.S_ISREG(os.fstat(descriptor).st_mode) else ""
    finally:
        os.close(descriptor)


def read_wheel(path: Path) -> Wheel:
    """A wheel whose names, metadata and listed hashes everybody reads alike."""
    try:
        wheel = Wheel(path)
        wheel.metadata()
        problems = list(wheel.differs_from_record())
    except Refused as error:
        problems = error.problems
    if problems:
        raise Failure(f"{path.name} cannot be trusted to be one wheel for everybody: {problems[0]}; build it again")
    return wheel


def fresh_folder(name: str) -> Path:
    """An empty folder .cache/<name>."""
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def environment(*path: Path, **extra: str) -> dict[str, str]:
    """This process's environment without what would change a build, with folders put first on the PATH."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(LEFT_OUT_OF_ENVIRONMENT)}
    env |= {"CCACHE_DISABLE": "1", "TORCH_NO_COMPILER_WRAPPER": "1"}  # no objects from the caller's cache
    env["PATH"] = os.pathsep.join([*map(str, path), env["PATH"]])
    return env | extra


def virtual_environment(name: str) -> Path:
    """Folder `bin` of .cache/venv/<name>, with exactly what requirements-<name>.txt locks; rebuilt if the lock changes."""
    import children  # not at the top: these import this module
    import fetch
    import interpreters
    import native

    python = interpreters.for_set(name)  # before any download
    fetch.fetch_set(name)
    lock = native.here(LOCKS / f"requirements-{name}.txt")
    folder = (CACHE / "venv").resolve() / name  # its programs name this path: a link to it may go away before they do
    stamp = folder / "made-from"
    expected = f"{sha256_of(lock)} {Path(python).resolve()} {folder}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{name}.lock").open("w") as turn:  # the workers of a test run come here at once
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != expected:
            shutil.rmtree(folder, ignore_errors=True)
            children.run([python, "-m", "venv", folder], stdout=subprocess.DEVNULL)
            children.run(
                [folder / "bin/python", *PIP_INSTALL, f"--find-links={CACHE / 'wheels'}", "--require-hashes", "--requirement", lock],
                env=environment(),
            )  # fmt: skip
            stamp.write_text(expected)
    return folder / "bin"
