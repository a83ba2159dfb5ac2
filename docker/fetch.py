"""Downloads every locked input into .cache/ and verifies its sha256: `make fetch`. The only step that uses the network.

Reads debian-*.lock and requirements-*.txt in docker/locks/. Debian files come from DEBIAN_MIRROR or from the mirrors in the
machine's apt configuration, Python wheels from the index that pip is configured for. Neither is trusted: the hash
decides. A file that is already in .cache/ is verified again, not downloaded. Standard library only, because this runs
before anything is installed.
"""

import argparse
import concurrent.futures
import contextlib
import errno
import http.client
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from common import (
    CACHE,
    LOCKS,
    PIP_TARGET,
    Failure,
    Locked,
    check_sha256,
    debian_mirrors,
    main_guard,
    read_debian_lock,
    read_requirements,
    sha256_of,
)

RETRY_AFTER_SECONDS = (0, 2, 10)


def download(entry: Locked, folder: Path, mirrors: list[str]) -> None:
    """Downloads one Debian file from the first mirror that has it. It appears in the folder only if its hash is right.

    A mirror that cannot be reached is tried again later. The answer of one that can, even an error, is final.
    """
    target = folder / Path(entry.path).name
    partial = target.with_name(target.name + ".partial")
    problems = {}
    for delay in RETRY_AFTER_SECONDS:
        time.sleep(delay)
        for mirror in mirrors:
            try:
                with (
                    urllib.request.urlopen(f"{mirror}/{entry.path}", timeout=60) as response,
                    partial.open("wb") as file,
                ):
                    shutil.copyfileobj(response, file)
            except (OSError, ValueError, http.client.HTTPException) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                    raise
                problems[mirror] = error
                continue
            actual = sha256_of(partial)
            if actual == entry.sha256:
                partial.rename(target)
                return
            partial.unlink()
            problems[mirror] = Failure(f"expected sha256 {entry.sha256}, got {actual}")
        if all(isinstance(problem, (urllib.error.HTTPError, ValueError, Failure)) for problem in problems.values()):
            break
    said = "; ".join(f"{mirror}: {problem}" for mirror, problem in problems.items())
    raise Failure(f"cannot download {entry.path} ({said}); check the network, or set DEBIAN_MIRROR")


def fetch_debian(lock: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = read_debian_lock(lock)
    missing = []
    for entry in entries:
        path = folder / Path(entry.path).name
        if path.exists():
            check_sha256(path, entry.sha256)
        else:
            missing.append(entry)
    if missing:
        mirrors = debian_mirrors()
        size = sum(entry.size for entry in missing)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(download, entry, folder, mirrors) for entry in missing]
            try:
                for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
                    future.result()
                    progress(f"{lock.name}: {done} of {len(missing)} files, {size / 1e6:.0f} MB", done == len(missing))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    print(f"{lock.name}: {len(entries)} files verified, {len(missing)} downloaded", flush=True)


def progress(text: str, last: bool) -> None:
    if sys.stderr.isatty():
        print(f"\r{text}", end="\n" if last else "", file=sys.stderr, flush=True)


def find_wheel(folder: Path, requirement: str) -> Path | None:
    """The wheel of a locked requirement, found by the name and version in its file name."""
    name, _, version = requirement.partition("==")
    prefix = f"{name.replace('-', '_').replace('.', '_')}-{version}-".lower()
    for path in folder.glob("*.whl"):
        if re.sub(r"^[^-]+", lambda m: m[0].replace(".", "_"), path.name).lower().startswith(prefix):
            return path
    return None


def fetch_wheels(lock: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    entries = read_requirements(lock)
    missing = [entry for entry in entries if find_wheel(folder, entry.path) is None]
    if missing:
        wanted = folder / f".{lock.stem}.partial"
        wanted.write_text("".join(f"{e.path} --hash=sha256:{e.sha256}\n" for e in missing))
        print(f"{lock.name}: pip downloads {', '.join(e.path for e in missing)}", flush=True)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(wanted.unlink)
            run = subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", *PIP_TARGET,
                 "--dest", folder, "--requirement", wanted],
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        if run.returncode:
            raise Failure(explain_pip(run.stderr))
    for entry in entries:
        path = find_wheel(folder, entry.path)
        if path is None:
            raise Failure(f"pip did not leave a wheel of {entry.path} in {folder}")
        check_sha256(path, entry.sha256)
    print(f"{lock.name}: {len(entries)} wheels verified, {len(missing)} downloaded", flush=True)


def explain_pip(stderr: str) -> str:
    """pip's error in one line, with a remedy."""
    errors = [line.removeprefix("ERROR: ").strip() for line in stderr.splitlines() if line.startswith("ERROR: ")]
    said = next((line for line in errors if "No matching distribution" in line), errors[0] if errors else stderr[-200:])
    if "No space left" in stderr:
        return f"the disk that holds {CACHE} is full: free some space and run this again"
    if "HASHES" in stderr or "hash" in said.lower():
        hashes = [
            " ".join(line.split()) for line in stderr.splitlines() if re.search(r"Expected sha256|Got\s+[0-9a-f]", line)
        ]
        named = re.search(r"^\s+(\S+==\S+) ", stderr, re.MULTILINE)
        what = named[1] if named else "a wheel"
        return f"pip was offered another file than the locked one for {what}: {', '.join(hashes)}"
    remedy = "check the network and pip's index configuration (`pip config list`)"
    if "torch" in said:
        remedy += "; the CPU build of torch is on PyTorch's own index: name it in pip's extra-index-url or find-links"
    return f"{said}; {remedy}"


def fetch_debian_set(*names: str) -> None:
    """The packages of some locks: ``fetch_debian_set("build", "test")``."""
    for name in names:
        fetch_debian(LOCKS / f"debian-{name}.lock", CACHE / "debian")


def fetch_set(*names: str) -> None:
    """The wheels of some requirement sets: ``fetch_set("build", "test")``."""
    for name in names:
        fetch_wheels(LOCKS / f"requirements-{name}.txt", CACHE / "wheels")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    fetch_debian_set(*sorted(path.stem.removeprefix("debian-") for path in LOCKS.glob("debian-*.lock")))
    fetch_set(*sorted(path.stem.removeprefix("requirements-") for path in LOCKS.glob("requirements-*.txt")))


if __name__ == "__main__":
    main_guard(main)
