"""The images themselves. Skipped where no engine answers or the images were not built (`make image`)."""

import subprocess

import check_wheel
import engine
import images
import pytest

ENGINE = engine.choose("auto")[0]
BUILD, TEST = (images.image_name(target, "cpu") for target in images.TARGETS)
pytestmark = pytest.mark.skipif(
    ENGINE == "host"
    or images.inspect(ENGINE, BUILD, "{{.Id}}") is None
    or images.inspect(ENGINE, TEST, "{{.Id}}") is None,
    reason="no container engine, or no images yet: make image",
)


def container(image, *command, mounts=()):
    volumes = [f"--volume={source}:{target}" for source, target in mounts]
    return subprocess.run(
        [ENGINE, "run", "--rm", "--network=none", *volumes, image, *command],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_build_image_holds_what_the_dockerfile_pins(root):
    pins = dict(
        line.split()[1].split("=") for line in (root / "Dockerfile.cpu").read_text().splitlines() if "_VERSION=" in line
    )
    code = "import platform, importlib.metadata as m; print(platform.python_version(), m.version('torch'))"
    found = container(BUILD, "bash", "-c", f'gcc -dumpfullversion; python -c "{code}"').stdout.split()
    assert found == [pins["GCC_VERSION"], pins["PYTHON_VERSION"], pins["TORCH_VERSION"]]


def test_the_test_image_has_no_compiler():
    run = container(TEST, "bash", "-c", "for c in cc gcc g++ c++ ld as make; do command -v $c; done; true")
    assert (run.returncode, run.stdout) == (0, "")


def test_docker_run_leaves_a_checked_wheel_to_the_folders_owner(root, tmp_path):
    project = tmp_path / "project"
    subprocess.run(["bash", root / "docker/stage-source.sh", root, project], check=True)
    before = sorted(p.relative_to(project) for p in project.rglob("*"))
    subprocess.run(["chown", "-R", "12345:23456", project], check=False)  # only root can; otherwise it is ours
    owner = (project.stat().st_uid, project.stat().st_gid)

    run = container(BUILD, mounts=[(project, "/project")])

    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = (project / "dist").glob("*.whl")
    assert wheel.name == "customops-0.1.0+cpu-py3-none-manylinux_2_28_x86_64.whl"
    assert [p.name for p in wheel.parent.iterdir() if p != wheel] == [f"{wheel.name}.provenance.json"]
    assert {(p.stat().st_uid, p.stat().st_gid) for p in (wheel.parent, *wheel.parent.iterdir())} == {owner}
    after = sorted(p.relative_to(project) for p in project.rglob("*") if "dist" not in p.parts)
    assert after == before
    assert wheel.stat().st_size < 700_000
    problems, facts = check_wheel.check(wheel)
    assert problems == []
    assert facts[1].startswith("customops/_cpu.so: libtorch_cpu.so, libgcc_s.so.1, ")


def test_a_mount_without_a_project(tmp_path):
    run = container(BUILD, mounts=[(tmp_path, "/project")])
    assert run.returncode == 1
    assert run.stderr == 'error: /project holds no project: mount one with -v "$PWD":/project\n'
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 2])
def test_the_test_stage_wants_exactly_one_wheel(root, tmp_path, count):
    for number in range(count):
        (tmp_path / f"customops-{number}.whl").touch()
    run = container(TEST, mounts=[(tmp_path, "/dist"), (root / "tests", "/tests")])
    assert run.returncode == 1
    assert f"must hold exactly one wheel of customops, found {count}" in run.stderr
