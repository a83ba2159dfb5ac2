"""Checks the signed provenance of a released wheel: `make verify` does so first if ATTESTATION=... and REPOSITORY=... are given.

    python3 docker/attestation.py WHEEL --attestation BUNDLE --repository OWNER/NAME

BUNDLE is the Sigstore bundle that the release workflow uploads beside the wheel. It counts if it is about these bytes, is in
Sigstore's public log, and was signed by release.yml of that repository, run by a push of the wheel's tag v*, on the commit that
the wheel records. No network: the keys of Sigstore's root come with the locked client.
"""

import argparse
import re
import subprocess
from pathlib import Path

from common import Failure, environment, main_guard, read_record, read_wheel, virtual_environment
from strict import one_line

WORKFLOW = ".github/workflows/release.yml"
MAX_BUNDLE_BYTES = 10_000_000


def command(wheel: Path, bundle: Path, repository: str) -> list[str]:
    """The options of `sigstore` that say who may have signed."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", repository):
        raise Failure(f"REPOSITORY={repository!a} is not OWNER/NAME")
    if not bundle.is_file() or bundle.stat().st_size > MAX_BUNDLE_BYTES:
        raise Failure(
            f"there is no attestation {bundle}, or it is too large: download it from the release of the wheel"
        )
    commit = read_record(wheel)["source"]["commit"]
    if not commit:
        raise Failure(f"{wheel.name} was built from uncommitted changes: no release is")
    ref = f"refs/tags/v{read_wheel(wheel).version.partition('+')[0]}"
    identity = f"https://github.com/{repository}/{WORKFLOW}@{ref}"
    return ["verify", "github", "--offline", f"--bundle={bundle}", f"--cert-identity={identity}", f"--repository={repository}",
            f"--ref={ref}", f"--sha={commit}", "--trigger=push", str(wheel.resolve())]  # fmt: skip


def check(wheel: Path, bundle: Path, repository: str) -> None:
    options = command(wheel, bundle, repository)
    sigstore = virtual_environment("audit") / "sigstore"
    run = subprocess.run([sigstore, *options], capture_output=True, text=True, env=environment(), check=False)
    if run.returncode:
        text = " ".join((run.stdout + run.stderr).split())
        said = re.search(r"(?:ERROR|FAIL)\b:? *(.*)", text)
        raise Failure(
            f"{wheel.name} is not what {repository} released and signed: {one_line(said[1] if said else text, 300)}"
        )
    print(f"signed by {WORKFLOW} of {repository}: {wheel.name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--attestation", type=Path, required=True)
    parser.add_argument("--repository", required=True)
    args = parser.parse_args()
    check(args.wheel, args.attestation, args.repository)


if __name__ == "__main__":
    main_guard(main)
