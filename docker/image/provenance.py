"""Writes a SLSA v1 provenance statement (in-toto, unsigned) beside a wheel: WHEEL.provenance.json.

    python docker/image/provenance.py dist/customops-....whl [--locks docker/locks]

The statement lists every input with its sha256: the source commit, every Debian package and every Python wheel of the
locks. It depends only on the wheel and the locks, so it is as reproducible as the wheel; but that it says so if `make wheel CACHE=`
took objects from a shared cache.
Format: in-toto Statement v1, SLSA provenance v1. Standard library only.
"""

import argparse
import hashlib
import json
import re
from pathlib import Path
from urllib.parse import quote

from lockfile import REQUIREMENT, Locked, read_debian, read_requirements
from strict import Refused, one_line
from wheelfile import Wheel

DEBIAN_LOCKS = ("debian-build.lock", "debian-source.lock")
CROSS_LOCKS = ("aarch64/debian-cross.lock",)
TORCH_LOCK = "aarch64/requirements-test.txt"  # its torch: headers and libraries for ARM
CUDART_LOCK = "aarch64/requirements-cudart.txt"  # the CUDA runtimes that are linked on ARM, instead of those for x86-64
CUDA_LOCKS = ("debian-cuda.lock", "requirements-cuda12.txt", "requirements-cuda13.txt", "requirements-cudart12.txt")

COMMIT, NVCC = re.compile("[0-9a-f]{6,64}"), re.compile(r"[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,5})?")
ARCHITECTURE = re.compile(r"[0-9]{2,3}(\+PTX)?")
LINE = re.compile("[ -~]{1,300}")
TEXTS = {
    "variant": re.compile("cpu|cuda"),
    "machine": re.compile("aarch64"),
    "base": LINE,
    "torch": LINE,
    "compiler": LINE,
    "python": LINE,
}


class NoRecord(Exception):
    """The file is not a wheel of this pipeline."""


def read_record(wheel: Path) -> dict:
    """dist-info/build.json of a wheel."""
    try:
        record = Wheel(wheel).build_record() or {}
        check_record(record)
        record["source"]["commit"], record["source"]["dirty"], record["base"]
    except (KeyError, Refused) as error:
        why = f" ({error})" if isinstance(error, Refused) else ""
        raise NoRecord(f"{wheel.name} carries no complete build record{why}: `make wheel` did not make it") from error
    return record


def machine_of(record: dict) -> str:
    """The machine that a wheel is for."""
    return record.get("machine", "x86_64")


def check_record(record: dict) -> None:
    """Refuses a build record whose entries are not what record.py writes; one may be missing."""
    source, cuda = record.get("source", {}), record.get("cuda", {})
    if not isinstance(source, dict) or not isinstance(cuda, dict):
        raise Refused("build.json: source and cuda have to be objects")
    for key, pattern in TEXTS.items():
        if key in record and not (isinstance(record[key], str) and pattern.fullmatch(record[key])):
            raise Refused(f"build.json: {key} is {one_line(record[key])}")
    lines = record.get("requirements", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) and REQUIREMENT.fullmatch(line) for line in lines):
        raise Refused("build.json: requirements has to be a list like `name==version --hash=sha256:...`")
    commit, epoch = source.get("commit"), source.get("date_epoch", 0)
    if commit is not None and not (isinstance(commit, str) and COMMIT.fullmatch(commit)):
        raise Refused(f"build.json: source.commit {one_line(commit)} is not a commit")
    if not isinstance(source.get("dirty", True), bool) or type(epoch) is not int or not 0 <= epoch < 1 << 40:
        raise Refused("build.json: source.dirty has to be true or false, source.date_epoch a time")
    for name, facts in cuda.items():
        if not re.fullmatch("cuda[0-9]{2}", name) or not isinstance(facts, dict):
            raise Refused(f"build.json: cuda.{one_line(name)} is no CUDA library")
        archs, nvcc = facts.get("architectures"), facts.get("nvcc")
        if not (isinstance(nvcc, str) and NVCC.fullmatch(nvcc)) or not isinstance(archs, list):
            raise Refused(f"build.json: cuda.{name} has to have an nvcc version and a list of architectures")
        if not all(isinstance(arch, str) and ARCHITECTURE.fullmatch(arch) for arch in archs):
            raise Refused(f"build.json: cuda.{name}.architectures has to be a list like 90, 90+PTX")


def purl(kind: str, name: str, version: str) -> str:
    """Package URL (https://github.com/package-url/purl-spec)."""
    return f"pkg:{kind}/{quote(name, safe='')}@{quote(version, safe=':')}"


def requirement(line: str) -> Locked:
    """A line of a lock that check_record has seen."""
    match = REQUIREMENT.fullmatch(line)
    package, _, version = match["path"].partition("==")
    return Locked(match["sha256"], match["path"], 0, package, version)


def materials(
    locks: Path, base: str, cuda: bool, requirements: list[str] | None = None, machine: str = "x86_64"
) -> list[dict]:
    """The inputs of the pipeline: Python tools and, for containers, the base, by package or by digest; and what the project's
    own lock names, which is our own project's by default."""
    image, _, digest = base.rpartition("@sha256:")
    found = [{"name": image, "uri": f"docker://{image}", "digest": {"sha256": digest}}] if image else []
    across = machine != "x86_64"
    debian = () if image or base == "host" else (*DEBIAN_LOCKS, *(CROSS_LOCKS if across else ()))
    python = ("requirements-tools.txt", "requirements-build.txt", *((TORCH_LOCK,) if across else ()))
    for lock in (*debian, *python, *(CUDA_LOCKS if cuda else ()), *((CUDART_LOCK,) if cuda and across else ())):
        if lock.endswith(".lock"):
            for entry in read_debian(locks / lock):
                uri = purl("deb/debian", entry.package, entry.version)
                found.append({"name": Path(entry.path).name, "uri": uri, "digest": {"sha256": entry.sha256}})
        else:
            own = requirements if lock == "requirements-build.txt" else None
            for entry in read_requirements(locks / lock) if own is None else map(requirement, own):
                if lock == TORCH_LOCK and entry.package != "torch":
                    continue
                uri = purl("pypi", entry.package, entry.version)
                found.append({"name": entry.path, "uri": uri, "digest": {"sha256": entry.sha256}})
    return found


def statement(wheel: Path, locks: Path, shared_cache: str = "") -> dict:
    """shared_cache: of which kind the cache was that objects may have come from (`make wheel CACHE=`): no lock names those."""
    record = read_record(wheel)
    container = record["base"] != "host"
    source = (
        [{"name": "source", "digest": {"gitCommit": record["source"]["commit"]}}] if record["source"]["commit"] else []
    )
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": wheel.name, "digest": {"sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://customops.invalid/make-wheel/v1",
                "externalParameters": {"source": record["source"], "engine": "container" if container else "host"},
                "internalParameters": {
                    key: record[key]
                    for key in ("base", "compiler", "cuda", "machine", "python", "torch")
                    if key in record
                }
                | ({"shared_cache": shared_cache} if shared_cache else {}),
                "resolvedDependencies": source
                + materials(
                    locks, record["base"], bool(record.get("cuda")), record.get("requirements"), machine_of(record)
                ),
            },
            "runDetails": {
                "builder": {"id": f"https://customops.invalid/builder/{'container' if container else 'host'}"}
            },
        },
    }


def write(wheel: Path, locks: Path, shared_cache: str = "") -> Path:
    path = wheel.with_name(wheel.name + ".provenance.json")
    path.write_text(json.dumps(statement(wheel, locks, shared_cache), indent=1) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--locks", type=Path, default=Path(__file__).resolve().parents[1] / "locks")
    args = parser.parse_args()
    write(args.wheel, args.locks)


if __name__ == "__main__":
    main()
