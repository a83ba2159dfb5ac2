"""Regenerates the lock files in docker/locks/ from the short lists beside them: `make lock`.

    debian-*.txt      -> debian-*.lock        with apt, which checks Debian's signatures
    requirements-*.in -> requirements-*.txt   with pip, for the image's CPython on x86-64; in aarch64*/, for ARM

No other step resolves versions. A lock line names one file by its sha256 and no host. Requires a Debian-like machine with
apt and Debian's archive keys; DEBIAN_MIRROR overrides its mirror. Nothing of this machine's apt configuration counts but the
mirror and the proxy: only Debian's own keys, named below, are trusted. A lock's header says which Release file it is from.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import interpreters
from common import LOCKS, Failure, debian_mirrors, main_guard, pip_target, read_debian_lock, sha256_of

SUITE, ARCHITECTURE = "bullseye", "amd64"
# Lists of packages of another suite or architecture.
OTHERS = {
    "aarch64/debian-cross": (SUITE, ARCHITECTURE),
    "aarch64/debian-qemu": ("bookworm", "amd64"),
    "aarch64/debian-test": ("bookworm", "arm64"),
}
BELOW = {
    "aarch64/debian-cross": "debian-build.lock"
}  # what is added to packages that are there needs no second copy of them
# CPython's release tarballs, as Debian publishes them: one mirror serves everything. The second lock is for `make wheel PYTHONS=...`.
PYTHON_SOURCES = (
    ("debian-source.lock", "bookworm", "python3.11", "3.11.2"),
    ("debian-pythons.lock", "trixie", "python3.13", "3.13.5"),
)
# This package has nvcc, cicc and what they call; its dependencies are not needed (docker/image/install-cuda.sh).
CUDA_SUITE, CUDA_PACKAGE, CUDA_VERSION = "trixie", "nvidia-cuda-toolkit", "12.4.131~12.4.1-2"

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # the fingerprints decide which of its keys count
KEYS = {  # Debian's archive keys and the stable release keys
    "bullseye": ("1F89983E0081FDE018F3CC9673A4F27B8DD47936", "A4285295FC7B1A81600062A9605C66F00D6C9793"),
    "bookworm": ("B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8", "4D64FEC119C2029067D6E791F8D2585B8783D481"),
    "trixie": ("04B54C3CDCA79751B16BC6B5225629DF75B188BD", "41587F7DB8C774BCCF131416762F67A0B2C39DE4"),
}


def names(path: Path) -> list[str]:
    """The entries of a list file, without comments."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


def stanzas(text: str):
    """Debian control stanzas as dicts; continuation lines keep their newlines."""
    for block in text.split("\n\n"):
        fields, key = {}, ""
        for line in block.splitlines():
            if line.startswith((" ", "\t")):
                fields[key] += "\n" + line.strip()
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


def sources(mirror: str, suite: str, architecture: str) -> str:
    """The list of apt's sources, each with the keys that may sign it: a release is signed by its own and the next one's."""
    signed = ",".join(key for keys in KEYS.values() for key in keys)
    packages = f"deb [arch={architecture} signed-by={signed}] {mirror} {suite} main\n"
    if (suite, architecture) != (SUITE, ARCHITECTURE):
        return packages
    return (
        packages
        + "".join(f"deb-src [signed-by={signed}] {mirror} {suite} main\n" for _, suite, _, _ in PYTHON_SOURCES)
        + f"deb [arch=amd64 signed-by={signed}] {mirror} {CUDA_SUITE} non-free\n"
    )


def proxies() -> str:
    """The proxies of this machine's apt, as apt configuration."""
    dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    return "\n".join(re.findall(r'^Acquire::https?::Proxy "[^"\n]*";$', dump, re.MULTILINE))


class Apt:
    """apt(program, *arguments) -> stdout, with settings and a state directory of its own."""

    def __init__(self, root: Path, flags: list[str]):
        self.lists, self.flags = root / "lists", flags
        inherited = {k: v for k, v in os.environ.items() if k == "PATH" or k.lower().endswith("_proxy")}
        self.environment = inherited | {"APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}

    def __call__(self, program: str, *arguments: str) -> str:
        command = [program, *self.flags, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=self.environment).stdout

    def release(self, suite: str) -> str:
        """A header line of a lock: the signed file that everything in it follows from."""
        (path,) = self.lists.glob(f"*_dists_{suite}_InRelease")
        date = re.search(r"^Date: (.+)$", path.read_text(), re.MULTILINE)
        return f"# {suite}, InRelease of {date[1] if date else '?'}, sha256 {sha256_of(path)}"


@contextlib.contextmanager
def isolated_apt(mirror: str, suite: str = SUITE, architecture: str = ARCHITECTURE):
    """Yields an Apt after a signature check by `update`."""
    if not KEYRING.exists():
        raise Failure(
            f"make lock needs Debian's archive keys, and {KEYRING} is not there: apt-get install debian-archive-keyring"
        )
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        for folder in ("lists/partial", "cache/archives/partial", "trusted", "none"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()
        shutil.copyfile(KEYRING, root / "trusted/debian.gpg")
        (root / "sources.list").write_text(sources(mirror, suite, architecture))
        # Read before all else, so that no file of this machine's configuration is.
        (root / "apt.conf").write_text(f'Dir::Etc::main "/dev/null";\nDir::Etc::parts "{root}/none";\n{proxies()}\n')
        options = {
            "Dir::Etc::trusted": "/dev/null",
            "Dir::Etc::trustedparts": root / "trusted",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": root / "none",
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
            "APT::Get::AllowUnauthenticated": "false",
            "Dir::State::status": root / "status",
            "Dir::State::lists": root / "lists",
            "Dir::Cache": root / "cache",
            "Dir::Etc::sourcelist": root / "sources.list",
            "Dir::Etc::sourceparts": root / "none",
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Check-Valid-Until": "false",
        }
        apt = Apt(root, [f"-o{key}={value}" for key, value in options.items()])
        try:
            apt("apt-get", "update", "--quiet", "--error-on=any")
        except subprocess.CalledProcessError as error:
            raise Failure(
                f"{mirror} is not signed by Debian's keys, or cannot be read, see above: set DEBIAN_MIRROR"
            ) from error
        yield apt


def lock_debian(apt, packages: Path, suite: str = SUITE, below: Path | None = None) -> None:
    """Locks a list of packages and the dependencies that apt chooses, without those that the lock `below` has."""
    plan = apt("apt-get", "install", "--simulate", "--quiet", *names(packages))
    chosen = [line.split()[1:3] for line in plan.splitlines() if line.startswith("Inst ")]
    pinned = [f"{name}={version.lstrip('(')}" for name, version in chosen]
    found = {s["Package"]: s for s in stanzas(apt("apt-cache", "show", "--no-all-versions", *pinned))}
    held = {(e.package, e.version) for e in read_debian_lock(below)} if below else set()
    entries = [found[name] for name in sorted(found) if (name, found[name]["Version"]) not in held]
    write_debian_lock(packages.with_suffix(".lock"), apt.release(suite), entries)


def lock_python_source(apt, lock: str, suite: str, package: str, version: str) -> None:
    """Finds CPython's tarball; its sha256 is that of CPython's own release."""
    for source in stanzas(apt("apt-cache", "showsrc", "--only-source", package)):
        for line in source["Checksums-Sha256"].split("\n"):
            sha256, size, name = (line.split() + [""] * 3)[:3]
            if name.endswith((".orig.tar.gz", ".orig.tar.xz")) and f"_{version}." in name:
                path = f"{source['Directory']}/{name}"
                keys = ("Package", "Version", "SHA256", "Size", "Filename")
                values = (package, version, sha256, size, path)
                entry = dict(zip(keys, values, strict=True))
                return write_debian_lock(LOCKS / lock, apt.release(suite), [entry])
    raise Failure(f"{suite} has no source of {package} {version}")


def lock_cuda(apt) -> None:
    found = list(stanzas(apt("apt-cache", "show", f"{CUDA_PACKAGE}={CUDA_VERSION}")))
    write_debian_lock(LOCKS / "debian-cuda.lock", apt.release(CUDA_SUITE), found[:1])


def write_debian_lock(path: Path, release: str, entries: list[dict]) -> None:
    lines = ["# make lock", release, "# sha256 size package version path-on-a-mirror"]
    lines += [" ".join(e[k] for k in ("SHA256", "Size", "Package", "Version", "Filename")) for e in entries]
    path.write_text("\n".join(lines) + "\n")
    print(f"{path.name}: {len(entries)} files, {sum(int(e['Size']) for e in entries) / 1e6:.0f} MB")


def lock_python(requirements: Path, machine: str = "x86_64", alone: tuple[str, ...] = ()) -> None:
    """Resolves with pip for the image's CPython and platform; takes the sha256 of the one file that pip would install."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        subprocess.run(
            [interpreters.locked(), "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", "unused",
             "--report", report.name, *pip_target(machine=machine), *alone, "--requirement", requirements],
            check=True,
        )  # fmt: skip
        items = json.load(report)["install"]
    lines = ["# make lock"]
    for item in sorted(items, key=lambda item: item["metadata"]["name"].lower()):
        meta, sha256 = item["metadata"], item["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{meta['name'].lower().replace('_', '-')}=={meta['version']} --hash=sha256:{sha256}")
    out = requirements.with_suffix(".txt")
    out.write_text("\n".join(lines) + "\n")
    print(f"{out.name}: {len(items)} wheels")


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    interpreters.locked()  # pip evaluates environment markers for the Python that runs it
    with isolated_apt(debian_mirrors()[0]) as apt:
        for packages in sorted(LOCKS.glob("debian-*.txt")):
            lock_debian(apt, packages)
        for source in PYTHON_SOURCES:
            lock_python_source(apt, *source)
        lock_cuda(apt)
    for name, (suite, architecture) in OTHERS.items():
        with isolated_apt(debian_mirrors()[0], suite, architecture) as apt:
            lock_debian(apt, LOCKS / f"{name}.txt", suite, LOCKS / BELOW[name] if name in BELOW else None)
    for requirements in sorted(LOCKS.glob("requirements-*.in")):
        lock_python(requirements)
    # torch for ARM names CUDA's packages, which nothing here opens: the lists are complete without what they depend on.
    for requirements in sorted(LOCKS.glob("aarch64*/requirements-*.in")):
        lock_python(requirements, "aarch64", ("--no-deps",))


if __name__ == "__main__":
    main_guard(main)
