"""The images themselves. Skipped where no engine answers or the images were not built (`make image`)."""

import os
import subprocess

import check_wheel
import engine
import images
import make_wheel
import pytest

ENGINE = engine.choose("auto")[0]
BUILD, TEST = images.digest_names("cpu", "debian").values()
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


def build_image(variant):
    """The name of a variant's build image, and a mark for the tests that need it."""
    name = images.digest_names(variant, "debian")["build"]
    missing = ENGINE == "host" or images.inspect(ENGINE, name, "{{.Id}}") is None
    return name, pytest.mark.skipif(missing, reason=f"no such image yet: make image VARIANT={variant}")


CUDA, with_cuda = build_image("cuda")


@with_cuda
def test_the_cuda_image_holds_what_its_dockerfile_pins(root):
    pins = dict(
        line.split()[1].split("=")
        for line in (root / "Dockerfile.cuda").read_text().splitlines()
        if "_VERSION=" in line
    )
    nvcc = "/opt/cuda{}/bin/nvcc --version | sed -n 's/.*, V//p'"
    code = "import importlib.metadata as m; print(m.version('torch'))"
    script = f'gcc -dumpfullversion; python -c "{code}"; {nvcc.format(12)}; {nvcc.format(13)}'
    found = container(CUDA, "bash", "-c", script).stdout.split()
    assert found == [pins[f"{name}_VERSION"] for name in ("GCC", "TORCH", "CUDA12", "CUDA13")]


@with_cuda
def test_our_reading_of_device_code_agrees_with_cuobjdump(root):
    """A kernel for several architectures by both compilers."""
    script = """
        cd /tmp && echo '__global__ void k(float* x) { x[threadIdx.x] += 1; }' >k.cu
        flags='-shared -cudadevrt none -Xcompiler -fPIC -Xfatbin=-compress-all'
        /opt/cuda12/bin/nvcc $flags -gencode arch=compute_70,code=sm_70 \\
          -gencode 'arch=compute_90,code=[sm_90,compute_90]' -L/opt/cuda12/lib k.cu -o k12.so
        /opt/cuda13/bin/nvcc $flags -gencode arch=compute_103,code=sm_103 \\
          -gencode 'arch=compute_120,code=[sm_120,compute_120]' -L/opt/cuda13/lib k.cu -o k13.so
        for library in k12.so k13.so; do
          /opt/cuda12/bin/cuobjdump -lelf -lptx $library 2>&1 | sed -nE 's/.*sm_([0-9]+)\\.(cubin|ptx)$/\\2 \\1/p' | sort | xargs
          PYTHONPATH=/opt/customops:/opt/build-tools python -c '
import sys, elf, fatbin
images = sum(fatbin.units(elf.read(open(sys.argv[1], "rb").read())), [])
names = {"ptx": "ptx", "machine_code": "cubin"}
print(*sorted(f"{names[i.kind]} {i.architecture}" for i in images), "compressed" if all(i.compressed for i in images) else "plain")
' $library
        done"""
    run = container(CUDA, "bash", "-c", script)
    lines = run.stdout.splitlines()
    assert len(lines) == 4, run.stdout + run.stderr
    for theirs, ours in zip(lines[::2], lines[1::2], strict=True):
        assert sorted(ours.split()) == sorted([*theirs.split(), "compressed"])


@with_cuda
def test_unchanged_cuda_sources_are_not_compiled_again(root, tmp_path):
    """What a header says for one architecture only counts, and which CUDA's nvcc it is: ccache by itself sees neither."""
    for folder in ("project/csrc/cuda", "objects"):
        (tmp_path / folder).mkdir(parents=True)
    header, source = tmp_path / "project/csrc/cuda/k.cuh", tmp_path / "project/csrc/cuda/k.cu"
    source.write_text('#include "k.cuh"\n__global__ void k(int* x) { *x = VALUE; }\n')
    (tmp_path / "build.py").write_text("""
import os, subprocess, sys, types
sys.path.insert(0, "/csrc")
os.environ["PATH"] += ":/opt/build-tools/bin"  # for ninja, as build_project.py does
import nvcc
from pathlib import Path
extension = types.SimpleNamespace(
    sources=["csrc/cuda/k.cu"], extra_compile_args=[], include_dirs=[], library_dirs=[], libraries=[], extra_link_args=[]
)
name = sys.argv[1]
text = nvcc.ninja_file(extension, name, ("80", "90"), Path("/tmp/k.so"), Path("/tmp"))
Path("/tmp/k.ninja").write_text(text)
subprocess.run(["ninja", "-f", "/tmp/k.ninja", f"/tmp/{name}/cuda/k.o"], check=True, stdout=subprocess.DEVNULL)
print(subprocess.check_output(["sha256sum", f"/tmp/{name}/cuda/k.o"], text=True).split()[0])
stats = subprocess.check_output(["ccache", "--print-stats"], text=True)
print(*(line.split()[1] for line in stats.splitlines() if line.startswith(("direct_cache_hit", "cache_miss\t"))))
""")
    mounts = [(root / "csrc", "/csrc"), (tmp_path / "project", "/project"), (tmp_path / "objects", "/ccache")]
    volumes = [f"--volume={source}:{target}" for source, target in [*mounts, (tmp_path / "build.py", "/build.py")]]
    variables = [f"--env={name}={value}" for name, value in make_wheel.ccache(CUDA).items()]

    def build(*variables, library="cuda12"):
        command = [ENGINE, "run", "--rm", "--network=none", "--workdir=/project", *variables, *volumes, CUDA]
        run = subprocess.run([*command, "python", "/build.py", library], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout.split()

    def header_says(value):
        header.write_text(f"#if __CUDA_ARCH__ == 900\n#define VALUE {value}\n#else\n#define VALUE 1\n#endif\n")

    header_says(2)
    first = build(*variables)
    second = build(*variables)
    header_says(3)
    third = build(*variables)
    newer = build(*variables, library="cuda13")
    assert [run[1:] for run in (first, second, third, newer)] == [["0", "1"], ["1", "1"], ["1", "2"], ["1", "3"]]
    assert first[0] == second[0]
    assert third[0] == build()[0] != first[0]
    assert newer[0] == build(library="cuda13")[0] != third[0]


@pytest.mark.parametrize(("limits", "expected"), [(["--cpus=1"], 1), (["--memory=4200m"], 2), (["--memory=2200m"], 1)])
def test_jobs_follow_the_limits_of_the_container(root, limits, expected):
    code = "import sys; sys.path.insert(0, '/csrc'); import jobs; print(jobs.jobs())"
    command = [ENGINE, "run", "--rm", "--network=none", f"--volume={root / 'csrc'}:/csrc:ro", *limits, BUILD]
    run = subprocess.run([*command, "python", "-c", code], capture_output=True, text=True, check=False)
    assert int(run.stdout) == min(expected, len(os.sched_getaffinity(0))), run.stderr


def test_the_cpu_image_never_makes_a_cuda_build_a_cpu_wheel(root, tmp_path):
    project = tmp_path / "project"
    subprocess.run(["bash", root / "docker/image/stage-source.sh", root, project], check=True)
    command = [ENGINE, "run", "--rm", "--network=none", "--env=CUSTOMOPS_VARIANT=cuda", f"--volume={project}:/project"]
    run = subprocess.run([*command, BUILD], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "error: a CUDA build needs nvcc of CUDA 12, and /opt/cuda12/bin/nvcc is not there" in run.stdout + run.stderr
    assert not (project / "dist").exists()


def test_the_test_image_has_no_compiler():
    run = container(TEST, "bash", "-c", "for c in cc gcc g++ c++ ld as make; do command -v $c; done; true")
    assert (run.returncode, run.stdout) == (0, "")


def test_docker_run_leaves_a_checked_wheel_to_the_folders_owner(root, tmp_path):
    project = tmp_path / "project"
    subprocess.run(["bash", root / "docker/image/stage-source.sh", root, project], check=True)
    # A fifth of the compiler's time: make wheel and make verify compile all of it.
    instructions = project / "csrc/cpu/simd.h"
    instructions.write_text(f"#define CUSTOMOPS_ONLY_BASELINE\n{instructions.read_text()}")
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
    problems, facts = check_wheel.check(wheel)
    assert problems == []
    assert facts[1].startswith("customops/_cpu.so: libtorch_cpu.so, libdl.so.2, libm.so.6, libgcc_s.so.1, ")


def test_a_mount_without_a_project(tmp_path):
    run = container(BUILD, mounts=[(tmp_path, "/project")])
    assert run.returncode == 1
    assert run.stderr == 'error: /project holds no project: mount one with -v "$PWD":/project\n'
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [0, 2])
def test_the_test_stage_requires_exactly_one_wheel(root, tmp_path, count):
    for number in range(count):
        (tmp_path / f"customops-{number}-py3-none-any.whl").touch()
    run = container(TEST, mounts=[(tmp_path, "/dist"), (root, "/project")])
    assert run.returncode == 1
    assert f"must hold exactly one wheel for CPython 3.11, found {count}" in run.stderr
