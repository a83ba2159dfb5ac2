"""The record, the SBOM and the canonical packing of a wheel."""

import json
import os
import shutil
import subprocess
import zipfile

import check_wheel
import common
import provenance
import pytest
import record
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="the library of the test wheel is made with g++")

NAME = "customops-0.1.0+cpu-py3-none-manylinux_2_28_x86_64.whl"
INFO = "customops-0.1.0+cpu.dist-info"


@pytest.fixture
def raw_wheel(tmp_path):
    """raw_wheel(folder, order, umask, date) -> a wheel as auditwheel leaves it: the same contents, packed differently."""
    # The name that type information of a static libstdc++ leaves.
    (tmp_path / "cxx.c").write_text(
        '__attribute__((used, visibility("hidden"))) const char name[] = "N10__cxxabiv117__class_type_infoE";\n'
    )
    for name, source in (("lib", tmp_path / "cxx.c"), ("plain_c", "/dev/null")):
        subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "c", source, "-o", tmp_path / f"{name}.so"], check=True)
    contents = {
        "customops/__init__.py": b"",
        "customops/_cpu.so": (tmp_path / "lib.so").read_bytes(),
        f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: customops\nVersion: 0.1.0+cpu\n",
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-manylinux_2_28_x86_64\n",
        f"{INFO}/RECORD": b"stale",
    }

    def build(folder, backwards=False, mode=0o644, year=2026, level=6, flags=None, library="lib"):
        contents["customops/_cpu.so"] = (tmp_path / f"{library}.so").read_bytes()
        facts = {"torch": "2.13.0+cpu", "compiler": "g++"} | (flags or {})
        contents[f"{INFO}/build.json"] = json.dumps(facts).encode()
        path = tmp_path / folder / NAME
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.mkdir("customops")
            for name in sorted(contents, reverse=backwards):
                entry = zipfile.ZipInfo(name, (year, 1, 2, 3, 4, 6))
                entry.external_attr = mode << 16
                archive.writestr(entry, contents[name], zipfile.ZIP_DEFLATED, level)
        return path

    return build


@pytest.fixture(autouse=True)
def facts(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("SOURCE_COMMIT", "c0ffee")
    monkeypatch.setenv("SOURCE_DIRTY", "0")
    monkeypatch.delenv("CUSTOMOPS_BUILD_IMAGE", raising=False)


def read(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read(f"{INFO}/{name}"))


def test_packing_forgets_order_modes_times_and_compression(raw_wheel):
    one, two = raw_wheel("one"), raw_wheel("two", backwards=True, mode=0o600, year=2031, level=1)
    assert one.read_bytes() != two.read_bytes()
    record.complete(one)
    old = os.umask(0o077)
    try:
        record.complete(two)
    finally:
        os.umask(old)
    assert one.read_bytes() == two.read_bytes()
    assert check_wheel.check(one)[0] == []


def test_record(raw_wheel):
    wheel = raw_wheel("one")
    record.complete(wheel)
    found = read(wheel, "build.json")
    assert found["source"] == {"commit": "c0ffee", "dirty": False, "date_epoch": 1700000000}
    assert (found["base"], found["torch"]) == ("host", "2.13.0+cpu")


def test_plain_c_holds_no_libstdcxx(raw_wheel):
    wheels = raw_wheel("one"), raw_wheel("two", library="plain_c")
    for wheel in wheels:
        record.complete(wheel)
    assert [bool(read(wheel, "build.json")["linked_statically"]) for wheel in wheels] == [True, False]


def test_an_unknown_source_counts_as_dirty(raw_wheel, monkeypatch):
    monkeypatch.delenv("SOURCE_COMMIT")
    monkeypatch.delenv("SOURCE_DIRTY")
    wheel = raw_wheel("one")
    record.complete(wheel)
    assert read(wheel, "build.json")["source"] == {"commit": None, "dirty": True, "date_epoch": 1700000000}


def test_sbom_names_what_is_linked_statically_with_the_locks_hash(raw_wheel, root, tmp_path, monkeypatch):
    """In the image the packages and their hashes come from the lock."""
    major = subprocess.check_output(["g++", "-dumpversion"], text=True).split(".")[0].strip()
    lock = tmp_path / "debian-build.lock"
    lock.write_text(
        f"# make lock\n{'ef' * 32} 10 libc6-dev 2.0 pool/z.deb\n{'ab' * 32} 10 libstdc++-{major}-dev 1.2-3 pool/x.deb\n{'cd' * 32} 10 libgcc-{major}-dev 1.2-3 pool/y.deb\n"
    )
    monkeypatch.setattr(record, "BASE_LOCK", lock)
    monkeypatch.setattr(record, "DOC", tmp_path / "doc")
    (tmp_path / "doc/gcc-base").mkdir(parents=True)
    (tmp_path / "doc/gcc-base/copyright").write_text("terms")
    for package in (f"libstdc++-{major}-dev", f"libgcc-{major}-dev", "libc6-dev"):
        (tmp_path / "doc" / package).symlink_to("gcc-base")
    monkeypatch.setenv("CUSTOMOPS_BUILD_IMAGE", "debian")
    wheel = raw_wheel("one")
    record.complete(wheel)
    bom = read(wheel, "sboms/customops.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom)) is None
    components = {component["name"]: component for component in bom["components"]}
    assert components[f"libstdc++-{major}-dev"]["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert set(components) == {f"libstdc++-{major}-dev", f"libgcc-{major}-dev", "libc6-dev", "torch"}
    assert "debian-build.lock sha256" in read(wheel, "build.json")["base"]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{INFO}/licenses/gcc-base/copyright") == b"terms"


def test_the_validator_does_complain(raw_wheel):
    wheel = raw_wheel("one")
    record.complete(wheel)
    bom = read(wheel, "sboms/customops.cdx.json")
    del bom["components"][0]["name"]
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom)) is not None


def test_provenance_says_that_objects_came_from_a_shared_cache(raw_wheel, root):
    """No lock names them. The wheel itself does not say so: it is the same file with and without the cache."""
    wheel = raw_wheel("one")
    record.complete(wheel)
    said = [
        json.loads(provenance.write(wheel, root / "docker/locks", kind).read_text())["predicate"]["buildDefinition"]
        for kind in ("", "redis")
    ]
    assert said[1]["internalParameters"].pop("shared_cache") == "redis"
    assert said[0] == said[1]


def test_provenance_follows_from_wheel_and_locks(raw_wheel, root):
    wheel = raw_wheel("one")
    record.complete(wheel)
    statement = json.loads(provenance.write(wheel, root / "docker/locks").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": NAME, "digest": {"sha256": common.sha256_of(wheel)}}]
    found = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert found[0] == {"name": "source", "digest": {"gitCommit": "c0ffee"}}
    assert found[1:] == provenance.materials(root / "docker/locks", "host", False)


def test_materials_are_all_that_the_locks_name(root):
    found = provenance.materials(root / "docker/locks", "Debian 11 packages", False)
    assert all(len(item["digest"]["sha256"]) == 64 for item in found)
    names = {item["name"] for item in found}
    assert {"torch==2.13.0+cpu", "python3.11_3.11.2.orig.tar.gz", "libstdc++-10-dev_10.2.1-6_amd64.deb"} <= names


def test_another_base_is_one_image_by_digest(root):
    found = provenance.materials(root / "docker/locks", f"registry/manylinux@sha256:{'ab' * 32}", False)
    assert found[0]["digest"] == {"sha256": "ab" * 32}
    assert not any(item["uri"].startswith("pkg:deb") for item in found)
    assert not any(
        item["uri"].startswith("pkg:deb") for item in provenance.materials(root / "docker/locks", "host", False)
    )


def test_a_cuda_wheel_names_its_compilers_and_its_runtimes(raw_wheel, root, tmp_path, monkeypatch):
    names = {item["name"] for item in provenance.materials(root / "docker/locks", "host", True)}
    assert {"nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-toolkit_12.4.131~12.4.1-2_amd64.deb"} <= names
    terms = tmp_path / "cuda12/licenses/nvidia-cuda-runtime-cu12/License.txt"
    terms.parent.mkdir(parents=True)
    terms.write_text("EULA")
    monkeypatch.setenv("CUDA12_HOME", str(tmp_path / "cuda12"))
    wheel = raw_wheel("one", flags={"cuda": {"cuda12": {"nvcc": "12.4.131", "architectures": ["90"]}}})
    record.complete(wheel)
    bom = read(wheel, "sboms/customops.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom)) is None
    runtime = next(c for c in bom["components"] if c["name"] == "nvidia-cuda-runtime-cu12")
    assert (runtime["version"], runtime["purl"]) == ("12.9.79", "pkg:pypi/nvidia-cuda-runtime-cu12@12.9.79")
    assert runtime["hashes"][0]["content"] in (root / "docker/locks/requirements-cudart12.txt").read_text()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"{INFO}/licenses/nvidia-cuda-runtime-cu12/License.txt") == b"EULA"


@pytest.mark.parametrize("content", [b"no zip", None, {"source": {"commit": None, "dirty": True}}])
def test_a_wheel_without_a_complete_record(tmp_path, content):
    wheel = tmp_path / NAME
    if isinstance(content, bytes):
        wheel.write_bytes(content)
    else:
        name, body = ("build.json", json.dumps(content).encode()) if content else ("WHEEL", b"")
        record.pack(wheel, {f"{INFO}/{name}": body}, 0)
    with pytest.raises(provenance.NoRecord, match=r"customops.*carries no complete build record"):
        provenance.read_record(wheel)


def git(folder, *arguments):
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def facts_of(root, tmp_path):
    """facts_of(project) -> what the record would say of it after staging, and the sources that were staged."""

    def run(project, **environment):
        staged = tmp_path / "staged"
        env = {k: v for k, v in os.environ.items() if not k.startswith("SOURCE_")} | environment
        subprocess.run(["bash", root / "docker/image/stage-source.sh", project, staged], check=True, env=env)
        command = ["bash", root / "docker/image/source-facts.sh", project, staged]
        text = subprocess.check_output(command, text=True, env=env)
        return dict(line.split("=", 1) for line in text.splitlines()), sorted(p.name for p in staged.rglob("*.c"))

    return run


@pytest.fixture
def checkout(tmp_path):
    project = tmp_path / "checkout"
    project.mkdir()
    (project / "a.c").write_text("int a;\n")
    (project / ".gitignore").write_text("ignored.c\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    return project


def test_a_clean_checkout(checkout, facts_of):
    (checkout / "ignored.c").write_text("int b;\n")
    facts, files = facts_of(checkout)
    assert facts["SOURCE_DIRTY"] == "0"
    assert len(facts["SOURCE_COMMIT"]) == 40
    assert files == ["a.c"]
    assert facts_of(checkout, SOURCE_DATE_EPOCH="5")[0]["SOURCE_DATE_EPOCH"] == "5"


@pytest.mark.parametrize(
    "change", ["edit", "edit, hidden from git status", "new file", "new file, hidden from git status", "deleted"]
)
def test_every_change_counts_as_dirty(checkout, facts_of, change):
    if change.startswith("edit"):
        if "hidden" in change:
            git(checkout, "update-index", "--assume-unchanged", "a.c")
        (checkout / "a.c").write_text("int changed;\n")
    elif change.startswith("new"):
        if "hidden" in change:
            git(checkout, "config", "status.showUntrackedFiles", "no")
        (checkout / "new.c").write_text("int c;\n")
    else:
        (checkout / "a.c").unlink()
    assert facts_of(checkout)[0]["SOURCE_DIRTY"] == "1"


def test_a_folder_inside_another_repository_has_no_commit(checkout, facts_of):
    inner = checkout / "inner"
    inner.mkdir()
    (inner / "b.c").write_text("int b;\n")
    assert facts_of(inner) == ({"SOURCE_COMMIT": "", "SOURCE_DIRTY": "1", "SOURCE_DATE_EPOCH": "315532800"}, ["b.c"])
