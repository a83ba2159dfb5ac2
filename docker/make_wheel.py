"""Builds, repairs, checks and tests a wheel: `make wheel`.

With docker or podman: fetch, build the images, run cibuildwheel in the build image, run the test stage in the test image.
No container has a network. With ENGINE=host: the same locked tools in virtual environments under .cache/, this machine's
compiler, and the manylinux tag that this compiler allows. dist/ changes only if every step succeeds.
"""

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import children
import engine as engines
import fetch
import images
import interpreters
from common import (
    CACHE,
    DIST,
    IMAGE_SCRIPTS,
    LOCKS,
    ROOT,
    Failure,
    environment,
    fresh_folder,
    main_guard,
    read_record,
    replacing,
    sha256_of,
    virtual_environment,
)
from image import provenance

NEWEST_GCC_FOR_CUDA = 13


class Steps:
    """Prints each step, how long it took here the last time, and the time since the first one."""

    FILE = "durations.json"  # in .cache/: step -> seconds

    def __init__(self, *names: str):
        self.names, self.done, self.started = names, 0, time.monotonic()
        self.began = self.started
        try:
            known = json.loads((CACHE / self.FILE).read_text())
            self.seconds = {name: float(took) for name, took in known.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            self.seconds = {}

    def next(self) -> None:
        self.end_step()
        notes = [f"{time.monotonic() - self.started:.0f} s so far"] if self.done else []
        name = self.names[self.done]
        self.done += 1
        if name in self.seconds:
            notes.append(f"last time {self.seconds[name]:.0f} s")
        said = f"  ({', '.join(notes)})" if notes else ""
        print(f"==> [{self.done}/{len(self.names)}] {name}{said}", flush=True)

    def end_step(self) -> None:
        now = time.monotonic()
        if self.done:
            self.seconds[self.names[self.done - 1]] = round(now - self.began, 1)
        self.began = now

    def finish(self, text: str) -> None:
        self.end_step()
        with replacing(CACHE / self.FILE) as partial:
            partial.write_text(json.dumps(self.seconds, indent=1) + "\n")
        print(f"==> {text}  ({time.monotonic() - self.started:.0f} s)", flush=True)


class Staged(NamedTuple):
    """A copy of the sources of a project."""

    facts: dict[str, str]  # commit, dirty flag and time, for the build record
    hashes: dict[str, str]  # of every file, taken before the facts

    def check(self, folder: Path) -> None:
        """Refuses what was built from a copy that somebody changed meanwhile: the facts would not be about it."""
        now = hashes_of(folder)
        changed = sorted(name for name in self.hashes | now if self.hashes.get(name) != now.get(name))
        if changed:
            raise Failure(f"{folder / changed[0]} changed during the build: nothing may write there; run this again")


def hashes_of(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_file():
            found[str(path.relative_to(folder))] = sha256_of(path)
    return found


def stage(project: Path, staged: Path) -> Staged:
    subprocess.run(["bash", IMAGE_SCRIPTS / "stage-source.sh", project, staged], check=True)
    hashes = hashes_of(staged)
    command = ["bash", IMAGE_SCRIPTS / "source-facts.sh", project, staged]
    text = subprocess.check_output(command, text=True, env=environment())
    return Staged(dict(line.split("=", 1) for line in text.splitlines()), hashes)


def cuda_architectures(variant: str, wanted: str) -> dict[str, str]:
    """CUDA_ARCHS as an environment variable of the build; a wrong value fails here, before anything is built."""
    if not wanted:
        return {}
    if variant != "cuda":
        raise Failure(f"CUDA_ARCHS={wanted} requires VARIANT=cuda, got VARIANT={variant}")
    sys.path.append(str(ROOT / "csrc"))
    import nvcc

    chosen = nvcc.architectures(wanted)
    return {"CUDA_ARCHS": ",".join(f"{name}:{arch}" for name, archs in chosen.items() for arch in archs)}


def run_cibuildwheel(engine: str, image: str, source: Path, out: Path, variables: dict[str, str], *create: str) -> None:
    """Runs cibuildwheel on a source folder, in the build image, without a network; sets the variables in the container."""
    tools = virtual_environment("host")
    settings = [f"--env={name}={value}" for name, value in (variables | verbosity()).items()]
    label = children.new_label()
    restrictions = [f"--label={label}", *children.RESTRICTED, *children.AS_OWNER]
    arguments = ["--network=none", *create, *restrictions, *settings]
    env = environment(
        tools,
        CIBW_MANYLINUX_X86_64_IMAGE=image,
        CIBW_CONTAINER_ENGINE=f"{engine}; create_args: {shlex.join(arguments)}; disable_host_mount: true",
        SOURCE_DATE_EPOCH=variables["SOURCE_DATE_EPOCH"],
    )
    command = [
        "bash",
        IMAGE_SCRIPTS / "short.sh",
        tools / "cibuildwheel",
        "--platform=linux",
        f"--output-dir={out}",
        ".",
    ]
    children.run(command, containers=(engine, label), cwd=source, env=env)


def verbosity() -> dict[str, str]:
    """V=1 as an environment variable of the build: every command is shown."""
    return {"V": "1"} if os.environ.get("V") == "1" else {}


def ccache(image: str) -> dict[str, str]:
    """Environment variables that enable ccache in a container of a build image, with its objects in /ccache."""
    return {
        "CCACHE_NODISABLE": "1",
        "CCACHE_DIR": "/ccache",
        "CCACHE_MAXSIZE": "2G",
        "CCACHE_COMPILERCHECK": f"string:{image}",  # the image's name is a digest of its inputs
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",  # copied headers are new; ccache compares hashes
    }


def build_in_container(engine: str, image: str, out: Path, archs: dict[str, str]) -> None:
    """Builds with ccache: a source that has not changed is not compiled again, its object is in .cache/ccache.

    `make reproduce`, `make verify` and plain `docker run` compile everything.
    """
    source, objects = CACHE / "source", CACHE / "ccache"
    objects.mkdir(exist_ok=True)
    staged = stage(ROOT, source)
    variables = staged.facts | archs | ccache(image)
    run_cibuildwheel(engine, image, source, out, variables, f"--volume={objects}:/ccache")
    staged.check(source)
    shutil.rmtree(source)


def test_in_container(engine: str, image: str, out: Path) -> None:
    mounts = (f"--volume={out}:/dist:ro", f"--volume={ROOT / 'tests'}:/tests:ro")
    children.run_container(engine, image, options=(*mounts, *children.AS_OWNER))


def check_host() -> None:
    interpreters.locked()
    compiler = os.environ.get("CXX", "c++")
    if shutil.which(compiler) is None:
        raise Failure(f"ENGINE=host needs a C++17 compiler and {compiler} is not on the PATH: install g++, or set CXX")


def host_variant(variant: str) -> dict[str, str]:
    """Environment variables of a host build; for CUDA, installs the locked compilers in .cache/cuda."""
    if variant == "cpu":
        return {"CUSTOMOPS_VARIANT": "cpu"}
    compiler = os.environ.get("CXX", "c++")
    major = int(subprocess.check_output([compiler, "-dumpversion"], text=True).split(".")[0])
    if major > NEWEST_GCC_FOR_CUDA and "clang" not in subprocess.check_output([compiler, "--version"], text=True):
        raise Failure(
            f"VARIANT=cuda ENGINE=host: nvcc 12.4 supports GCC up to {NEWEST_GCC_FOR_CUDA}, and {compiler} is GCC {major}: "
            "set CXX to an older one, or use ENGINE=docker"
        )
    tools = virtual_environment("build")
    fetch.fetch_set(*images.CUDA_SETS)
    fetch.fetch_debian_set("cuda")
    folder, stamp = CACHE / "cuda", CACHE / "cuda/made-from"
    inputs = [
        IMAGE_SCRIPTS / "install-cuda.sh",
        LOCKS / "debian-cuda.lock",
        *(LOCKS / f"requirements-{n}.txt" for n in images.CUDA_SETS),
    ]
    expected = " ".join(map(sha256_of, inputs))
    if not stamp.exists() or stamp.read_text() != expected:
        script = ["bash", IMAGE_SCRIPTS / "install-cuda.sh", folder, LOCKS, CACHE / "wheels", CACHE / "debian"]
        children.run(script, env=environment(tools))
        stamp.write_text(expected)
    homes = {f"{name.upper()}_HOME": str(folder / name) for name in ("cuda12", "cuda13")}
    return {"CUSTOMOPS_VARIANT": "cuda"} | homes


def build_on_host(out: Path, variant: str, archs: dict[str, str]) -> None:
    tools = virtual_environment("build")
    temporary = str(fresh_folder("tmp"))  # what a killed build leaves there, the next one removes
    env = environment(tools, MANYLINUX="auto", TMPDIR=temporary, **host_variant(variant), **archs)
    children.run(["bash", IMAGE_SCRIPTS / "build-wheel.sh", ROOT, out], env=env)


def test_on_host(out: Path) -> None:
    tools = virtual_environment("test")
    children.run(["bash", IMAGE_SCRIPTS / "test-wheel.sh", out, ROOT / "tests"], env=environment(tools))


def publish(out: Path) -> Path:
    """Copies the wheel and its provenance to dist/, then removes earlier ones."""
    wheels = list(out.glob("*.whl"))
    if len(wheels) != 1:
        raise Failure(f"the build left {len(wheels)} wheels in {out}, expected one")
    files = [wheels[0], provenance.write(wheels[0], LOCKS)]
    DIST.mkdir(exist_ok=True)
    with contextlib.ExitStack() as both:  # appear together, after the last byte of both
        for file in files:
            shutil.copyfile(file, both.enter_context(replacing(DIST / file.name)))
    for old in [*DIST.glob("customops-*.whl*"), *DIST.glob(".customops-*.partial")]:  # the latter of killed runs
        if old.name not in {file.name for file in files}:
            old.unlink()
    return DIST / wheels[0].name


def make_wheel(engine: str, variant: str, base: str, archs: dict[str, str]) -> None:
    out = fresh_folder("out")
    if engine == "host":
        check_host()
        steps = Steps(
            "fetch the locked tools",
            f"build with this machine's compiler, repair, check VARIANT={variant}",
            "test in a clean environment",
        )
        steps.next()
        fetch.fetch_set("build", "test")
        steps.next()
        build_on_host(out, variant, archs)
        steps.next()
        test_on_host(out)
    else:
        steps = Steps(
            "fetch every input",
            f"images, VARIANT={variant} BASE={base}",
            f"cibuildwheel: build, repair, check VARIANT={variant}",
            f"test in a clean container VARIANT={variant}",
        )
        steps.next()
        images.fetch_inputs(variant)
        fetch.fetch_set("host")
        steps.next()
        names = images.ensure(engine, variant, base)
        steps.next()
        build_in_container(engine, names["build"], out, archs)
        steps.next()
        test_in_container(engine, names["test"], out)
    wheel = publish(out)
    steps.finish(f"{wheel.relative_to(ROOT)}, {wheel.stat().st_size / 1000:.0f} kB, sha256 {sha256_of(wheel)}")


def test_wheel(engine: str, variant: str, base: str, archs: dict[str, str]) -> None:
    """Runs the test stage on the wheel in dist/."""
    wheels = list(DIST.glob("customops-*.whl"))
    if not wheels:
        return make_wheel(engine, variant, base, archs)
    if engine == "host":
        check_host()
        test_on_host(DIST)
    else:
        for wheel in wheels:
            if read_record(wheel)["base"] == "host":
                raise Failure(f"{wheel.name} was built on a host: make test ENGINE=host, or make wheel ENGINE={engine}")
        images.fetch_inputs(variant)
        names = images.ensure(engine, variant, base)
        test_in_container(engine, names["test"], DIST)


def test_pipeline() -> None:
    """Runs the tests of the pipeline itself, which need the source tree."""
    tools = virtual_environment("pipeline")
    processes = ("--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile")  # tests of one file share folders
    pytest = (tools / "python", "-m", "pytest", "-q", *processes, "tests/pipeline")
    run = children.run(pytest, cwd=ROOT, env=environment(tools), check=False)
    if run.returncode:
        raise Failure("the tests of the pipeline failed, see above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("wheel", "test", "test-pipeline"))
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--base", default="debian")
    parser.add_argument("--cuda-archs", default="")
    args = parser.parse_args()
    if args.action == "test-pipeline":
        return test_pipeline()
    images.check_choices(args.variant, args.base)
    archs = cuda_architectures(args.variant, args.cuda_archs)
    engine, reason = engines.choose(args.engine)
    print(f"ENGINE={engine} ({reason})", flush=True)
    {"wheel": make_wheel, "test": test_wheel}[args.action](engine, args.variant, args.base, archs)


if __name__ == "__main__":
    main_guard(main)
