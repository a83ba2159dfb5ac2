"""The signed provenance of a release, and the scan of an SBOM: what is asked of sigstore and pip-audit, and what their answers mean.

Neither signs nor asks a database here: programs that stand for them note their options and answer.
"""

import json
import stat

import attestation
import audit
import common
import pytest
import record
import verify
from test_publish import NAME, make_wheel

COMMIT = "c0ffee"
INFO = "customops-0.1.0+cpu.dist-info"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """program(name, output, status): a tool of the environment `audit`; returns the file with its options."""

    def make(name, output="", status=0):
        (tmp_path / name).write_text(
            f'#!/bin/bash\nprintf "%s\\n" "$@" >{tmp_path}/options\ncat <<"END"\n{output}\nEND\nexit {status}\n'
        )
        (tmp_path / name).chmod(stat.S_IRWXU)
        for module in (attestation, audit):
            monkeypatch.setattr(module, "virtual_environment", lambda name: tmp_path)
        return tmp_path / "options"

    return make


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "bundle.json").write_text("{}")
    return tmp_path / "bundle.json"


def test_who_may_have_signed(program, bundle, tmp_path):
    """The workflow of the repository, on the tag of the wheel's version, on the commit that the wheel records, for these bytes."""
    options = program("sigstore")
    wheel = make_wheel(tmp_path / "dist", commit=COMMIT)
    attestation.check(wheel, bundle, "owner/name")
    asked = options.read_text().splitlines()
    assert asked[:3] == ["verify", "github", "--offline"]
    assert asked[-1] == str(wheel)
    assert set(asked[3:-1]) == {
        f"--bundle={bundle}", "--repository=owner/name", "--ref=refs/tags/v0.1.0", f"--sha={COMMIT}", "--trigger=push",
        "--cert-identity=https://github.com/owner/name/.github/workflows/release.yml@refs/tags/v0.1.0",
    }  # fmt: skip


def test_a_wheel_that_nobody_signed(program, bundle, tmp_path):
    program("sigstore", "FAIL: x\nFailure reason: no subject for digest", 1)
    wheel = make_wheel(tmp_path / "dist", commit=COMMIT)
    with pytest.raises(
        common.Failure, match=r"is not what owner/name released and signed: x Failure reason: no subject for digest"
    ):
        attestation.check(wheel, bundle, "owner/name")


@pytest.mark.parametrize(
    ("repository", "options", "message"),
    [
        ("owner/name --staging", {}, "is not OWNER/NAME"),
        ("-owner/name", {}, "is not OWNER/NAME"),
        ("owner/name", {"commit": None}, "built from uncommitted changes"),
        ("owner/name", {"bundle": "absent"}, "there is no attestation"),
    ],
)
def test_what_is_not_asked(program, bundle, tmp_path, repository, options, message):
    asked = program("sigstore")
    wheel = make_wheel(tmp_path / "dist", commit=options.get("commit", COMMIT))
    with pytest.raises(common.Failure, match=message):
        attestation.check(wheel, tmp_path / options.get("bundle", "bundle.json"), repository)
    assert not asked.exists()


def test_verify_checks_the_signature_before_it_builds(program, bundle, tmp_path, monkeypatch):
    program("sigstore", "FAIL: no", 1)
    wheel = make_wheel(tmp_path / "dist", commit=COMMIT)
    command = ["verify.py", "--attestation", str(bundle), "--repository", "owner/name", str(wheel)]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(common.Failure, match="released and signed"):
        verify.main()
    monkeypatch.setattr("sys.argv", [command[0], *command[3:]])
    with pytest.raises(common.Failure, match="belong together"):
        verify.main()


@pytest.fixture
def listed(tmp_path):
    """listed(*components): a wheel whose SBOM has these (name, version, purl)."""

    def build(*components):
        make_wheel(tmp_path / "dist")
        with_sbom = {
            f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: customops\nVersion: 0.1.0+cpu\n",
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
            f"{INFO}/sboms/customops.cdx.json": json.dumps(
                {"components": [dict(zip(("name", "version", "purl"), c, strict=True)) for c in components]}
            ).encode(),
        }
        record.pack(tmp_path / "dist" / NAME, with_sbom, 0)
        return tmp_path / "dist" / NAME

    return build


TORCH, LIBC = (
    ("torch", "2.13.0+cpu", "pkg:pypi/torch@2.13.0%2Bcpu"),
    ("libc6-dev", "2.31", "pkg:deb/debian/libc6-dev@2.31"),
)


def answer(**facts):
    return json.dumps({"dependencies": [{"name": "torch"} | facts], "fixes": []})


@pytest.mark.parametrize(
    ("output", "status", "expected"),
    [
        (
            answer(version="2.13.0", vulns=[]),
            0,
            ["torch 2.13.0+cpu: no known vulnerability", "1 of 2 components scanned"],
        ),
        (answer(skip_reason="not found"), 0, ["torch 2.13.0+cpu: not scanned: not found", "0 of 2 components scanned"]),
        ("", 1, ["torch 2.13.0+cpu: not scanned: no database could be reached", "0 of 2"]),
    ],
)
def test_what_was_scanned_and_what_was_not(program, listed, capsys, output, status, expected):
    """pip-audit calls it `no known vulnerabilities` when it could not look a package up."""
    program("pip-audit", output, status)
    audit.audit(listed(TORCH, LIBC))
    said = capsys.readouterr().out
    for line in [*expected, "libc6-dev 2.31: not scanned: no database for this kind of package"]:
        assert line in said


def test_a_known_vulnerability_is_an_error(program, listed, capsys):
    program("pip-audit", answer(version="2.13.0", vulns=[{"id": "PYSEC-1"}]), 1)
    with pytest.raises(common.Failure, match=r"holds torch 2\.13\.0\+cpu, see above: update the pin"):
        audit.audit(listed(TORCH, LIBC))
    assert "VULNERABLE: PYSEC-1" in capsys.readouterr().out


def test_a_wheel_without_an_sbom(listed):
    with pytest.raises(common.Failure, match="has no SBOM with components"):
        audit.audit(listed())
