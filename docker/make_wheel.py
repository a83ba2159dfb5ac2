"""Builds, repairs, checks and tests a wheel: `make wheel`.

The project is PROJECT, by default this repository; every step below learns what it is about from docker/image/project.py alone.
With docker or podman: fetch, build the images, run cibuildwheel in the build image, run the test stage in the test image.
No container has a network. With ENGINE=host: the same locked tools in virtual environments under .cache/, this machine's
compiler, and the manylinux tag that this compiler allows. The project's dist/ changes only if every step succeeds.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import build_cache
import children
import divided
import emulated
import engine as engines
import fetch
import host_build
import images
import native
import object_store
import project_run
import pythons
import trust
from common import (
    CACHE,
    IMAGE_SCRIPTS,
    ROOT,
    Failure,
    built_wheels,
    environment,
    fresh_folder,
    main_guard,
    read_record,
    replacing,
    sha256_of,
    virtual_environment,
)
from image import architectures, memory, provenance
from image.project import Pair, Project
from project_run import memory_file, pair_variables
from staging import stage
from steps import Steps


def cuda_architectures(variant: str, wanted: str) -> dict[str, str]:
    """CUDA_ARCHS as an environment variable of the build; a wrong value fails here, before anything is built."""
    if not wanted.strip():
        return {}
    if variant != "cuda":
        raise Failure(f"CUDA_ARCHS={wanted} requires VARIANT=cuda, got VARIANT={variant}")
    try:
        return {"CUDA_ARCHS": architectures.one_spelling(wanted)}
    except architectures.BadArchitecture as error:
        raise Failure(f"CUDA_ARCHS: {error}") from error


def check_jobs() -> None:
    """A wrong MAX_JOBS fails here, before anything is built."""
    try:
        memory.jobs({}, os.environ.get("MAX_JOBS", ""))
    except memory.BadProject as error:
        raise Failure(str(error)) from error


PROXY = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[tool.cibuildwheel]
build = "cp311-manylinux_x86_64"
build-frontend = { name = "build", args = ["--no-isolation"] }
repair-wheel-command = "bash /opt/customops/repair-wheel.sh {wheel} {dest_dir}"
audit-command = ""
"""
NO_REPAIR = re.sub("repair-wheel-command = .*", 'repair-wheel-command = ""', PROXY)


def run_cibuildwheel(
    engine: str,
    image: str,
    source: Path,
    out: Path,
    variables: dict[str, str],
    *create: str,
    part: divided.Pass | None = None,
) -> None:
    """Runs cibuildwheel on a source folder, in the build image, without a network; sets the variables in the container.

    cibuildwheel sees a project of ours whose build backend is docker/image/backend.py: so the same step builds here and in a
    container that is started by hand, whatever CPython it is for.
    """
    tools = virtual_environment("tools")
    proxy = fresh_folder("proxy")
    (proxy / "pyproject.toml").write_text(NO_REPAIR if part else PROXY)
    backend = ROOT / "docker" / divided.BACKEND if part else IMAGE_SCRIPTS / "backend.py"
    shutil.copyfile(backend, proxy / "backend.py")
    shutil.copytree(source, proxy / "project", symlinks=True)
    variables = variables | {"BUILD_SOURCE": "/project/project", "BUILD_ERROR": "/answers/error"}
    settings = [f"--env={name}={value}" for name, value in (variables | verbosity()).items()]
    label = children.new_label()
    program = (tools / "cibuildwheel", "--platform=linux", f"--output-dir={out}", ".")
    with project_run.own_error() as error:
        restrictions = [
            f"--label={label}",
            *children.RESTRICTED,
            *children.AS_OWNER,
            f"--volume={error.parent}:/answers",
        ]
        arguments = ["--network=none", *create, *restrictions, *settings]
        env = environment(
            tools,
            CIBW_MANYLINUX_X86_64_IMAGE=image,
            CIBW_CONTAINER_ENGINE=f"{engine}; create_args: {shlex.join(arguments)}; disable_host_mount: true",
            SOURCE_DATE_EPOCH=variables["SOURCE_DATE_EPOCH"],
        )
        children.run(["bash", IMAGE_SCRIPTS / "short.sh", *program], containers=(engine, label), cwd=proxy, env=env)


def passed_on() -> dict[str, str]:
    """Variables of the caller that people use to this end: they hold in a container, too."""
    names = ("MAX_JOBS", "TORCH_CUDA_ARCH_LIST", "FORCE_CUDA")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def test_options() -> dict[str, str]:
    """TEST_OPTIONS, which pytest gets beside the project's own; they may leave tests out, so this says so."""
    if not (options := os.environ.get("TEST_OPTIONS")):
        return {}
    print(f"TEST_OPTIONS={options}: not necessarily all tests", flush=True)
    return {"PYTEST_ADDOPTS": options}


def verbosity() -> dict[str, str]:
    """V=1 as an environment variable of the build: every command is shown."""
    return {"V": "1"} if os.environ.get("V") == "1" else {}


def ccache(compilers: str) -> dict[str, str]:
    """Environment variables that enable ccache in a container, with its objects in /ccache; compilers: images.compilers."""
    return {
        "CCACHE_NODISABLE": "1",
        "CCACHE_DIR": "/ccache",
        "CCACHE_MAXSIZE": "2G",
        "CCACHE_COMPILERCHECK": f"string:{compilers}",
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",  # copied headers are new; ccache compares hashes
    }


@contextlib.contextmanager
def own_cache(project: Project, compilers: str) -> Iterator[tuple[dict[str, str], list[str]]]:
    """(variables, options) of a container that builds with the cache that this checkout has for a project.

    Each has its own: whose code is built can write any object into it.
    """
    objects = CACHE / "ccache" / project_run.key(project)
    objects.mkdir(parents=True, exist_ok=True)
    yield ccache(compilers), [f"--volume={objects}:/ccache"]


def build_in_container(
    project: Project,
    pair: Pair,
    engine: str,
    image: str,
    python: list[str],
    out: Path,
    archs: dict[str, str],
    cache: object_store.Store | None = None,
    part: divided.Pass | None = None,
    compilers: str = "",
) -> None:
    """Builds with ccache: a source that has not changed is not compiled again, its object is in CACHE, or else in .cache/ccache,
    for the compilers of images.compilers.

    With a part, there are objects of it in the cache afterwards, and no wheel. `make reproduce`, `make verify` and plain `docker run`
    compile everything.
    """
    source = CACHE / "source"
    staged = stage(project.folder, source)
    folder = project_run.make_environment(project, "build", pair, engine, image, python)
    passed = passed_on() | project_run.settings_of(project, pair)["passed"]
    mounts = [
        f"--volume={folder}:/environment:ro",
        f"--volume={memory_file(project)}:/memory.json",
        "--env=BUILD_MEMORY=/memory.json",
    ]
    with (
        build_cache.shared(cache, build_cache.project_name(project.pyproject), image, part, memory_file(project))
        if cache
        else own_cache(project, compilers) as (caching, options)
    ):
        variables = staged.facts | archs | caching | passed | pair_variables(pair, "/environment")
        run_cibuildwheel(engine, image, source, out, variables, *options, *mounts, *python, part=part)
    staged.check(source)
    shutil.rmtree(source)


def test_in_container(project: Project, pair: Pair, engine: str, image: str, python: list[str], out: Path) -> None:
    folder = project_run.make_environment(project, "test", pair, engine, image, python)
    mounts = (
        f"--volume={out}:/dist:ro",
        f"--volume={project.folder}:/project:ro",
        f"--volume={folder}:/environment:ro",
    )
    variables = pair_variables(pair, "/environment") | test_options()
    settings = [f"--env={name}={value}" for name, value in variables.items()]
    with project_run.own_error() as error:
        answer = (f"--volume={error.parent}:/answers", "--env=BUILD_ERROR=/answers/error")
        children.run_container(engine, image, options=(*mounts, *python, *settings, *answer, *children.AS_OWNER))


def publish(project: Project, out: Path, shared_cache: str = "") -> list[Path]:
    """Copies the wheels and their provenance to dist/, then removes earlier ones of the same distribution and machine."""
    wheels = built_wheels(out)
    if not wheels:
        raise Failure(f"the build left no wheel in {out}")
    files = [file for wheel in wheels for file in (wheel, provenance.write(wheel, native.locks(), shared_cache))]
    project.dist.mkdir(exist_ok=True)
    with contextlib.ExitStack() as all_of_them:  # appear together, after the last byte of all
        for file in files:
            shutil.copyfile(file, all_of_them.enter_context(replacing(project.dist / file.name)))
    name, machine = wheels[0].name.split("-")[0], images.machine_of(wheels[0].name)
    for old in [
        *project.dist.glob(f"{name}-*.whl*"),
        *project.dist.glob(f".{name}-*.partial"),
    ]:  # the latter of killed runs
        if old.name not in {file.name for file in files} and images.machine_of(old.name) == machine:
            old.unlink()
    return [project.dist / wheel.name for wheel in wheels]


def serves(wheel: Path, pair: Pair, built: Pair) -> bool:
    """Whether a wheel that was built for one pair is also the one for another: by its tag, and unless it requires one torch."""
    _, version, python, abi, _ = wheel.name.removesuffix(".whl").rsplit("-", 4)
    any_python = (abi == "none" and python.startswith("py3")) or (abi == "abi3" and not pair.python.endswith("t"))
    any_torch = not re.search(r"[+.]torch\d", version)
    return (any_python or pair.python == built.python) and (any_torch or pair.torch == built.torch)


def make_wheel(
    project: Project,
    pairs: list[Pair],
    engine: str,
    variant: str,
    base: str,
    archs: dict[str, str],
    machine: str,
    cache: object_store.Store | None = None,
) -> None:
    out = fresh_folder("out")
    if why := trust.no_history(project.folder):
        print(f"note: {why}", flush=True)
    name = project.folder.name
    building = "build with this machine's compiler" if engine == "host" else "cibuildwheel: build"
    across = machine != images.OWN
    building += f", repair, check {name} VARIANT={variant}{f' ARCH={machine}' * across}"
    if across:
        testing = f"test {name} under qemu"
    elif engine == "host":
        testing = f"test {name} in a clean environment"
    else:
        testing = f"test {name} in a clean container VARIANT={variant}"
    per_pair = [
        f"{what}{f' (CPython {p.python}, torch {p.torch})' * (len(pairs) > 1)}"
        for p in pairs
        for what in (building, testing)
    ]
    names = {}
    if engine == "host":
        host_build.check_host(machine, variant)
        steps = Steps("fetch the locked tools", *per_pair)
    else:
        which = f"images, VARIANT={variant} BASE={base}{f' ARCH={machine}' * across}"
        steps = Steps("fetch every input", which, *per_pair)
    steps.next()
    for pair in pairs:
        for kind in ("build", "test"):
            project_run.check_lock(project, kind, pair)
    fetch.fetch_set("tools")
    for pair in pairs:
        project_run.fetch_locks(project, pair, "build", "test")
    if across:
        emulated.fetch_inputs()
    if engine != "host":
        images.fetch_inputs(variant, machine=machine)
        steps.next()
        names = images.ensure(engine, variant, base, machine=machine)
        python = {pair: pythons.mounts(engine, names["build"], pair) for pair in pairs}
    made: list[tuple[Path, Pair]] = []
    for pair in pairs:
        steps.next()
        if earlier := next((wheel for wheel, built in made if serves(wheel, pair, built)), None):
            print(f"{earlier.name} serves CPython {pair.python} and torch {pair.torch}, too", flush=True)
        else:
            own = fresh_folder("out-of-pair")
            if engine == "host":
                host_build.build(project, pair, own, variant, archs, machine)
            else:
                compilers = images.compilers(base, machine)
                build_in_container(
                    project, pair, engine, names["build"], python[pair], own, archs, cache, compilers=compilers
                )
            (built,) = built_wheels(own)
            made.append((built.rename(out / built.name), pair))
        steps.next()
        if across:
            emulated.test_wheel(project, pair, out, test_options())
        elif engine == "host":
            host_build.test(project, pair, out, test_options())
        else:
            test_in_container(project, pair, engine, names["test"], python[pair], out)
    for wheel in publish(project, out, type(cache).__name__.lower() if cache else ""):
        shown = wheel.relative_to(ROOT) if ROOT in wheel.parents else wheel
        steps.finish(f"{shown}, {wheel.stat().st_size / 1000:.0f} kB, sha256 {sha256_of(wheel)}")


def test_wheel(
    project: Project,
    pairs: list[Pair],
    engine: str,
    variant: str,
    base: str,
    archs: dict[str, str],
    machine: str = images.OWN,
) -> None:
    """Runs the test stage on the wheel in dist/; builds it if there is none for the machine."""
    wheels = images.own_wheels(project.dist, machine)
    if not wheels:
        return make_wheel(project, pairs, engine, variant, base, archs, machine)
    if machine != images.OWN:
        return test_across(project, pairs)
    if engine == "host":
        host_build.check_host()
    for wheel in wheels if engine != "host" else ():
        if read_record(wheel)["base"] == "host":
            raise Failure(f"{wheel.name} was built on a host: make test ENGINE=host, or make wheel ENGINE={engine}")
    fetch.fetch_set("tools")
    for pair in pairs:
        project_run.fetch_locks(project, pair, "build", "test")
    if engine != "host":
        images.fetch_inputs(variant)
        names = images.ensure(engine, variant, base)
    for pair in pairs:
        if engine == "host":
            host_build.test(project, pair, project.dist, test_options())
        else:
            python = pythons.mounts(engine, names["build"], pair)
            test_in_container(project, pair, engine, names["test"], python, project.dist)


def test_across(project: Project, pairs: list[Pair]) -> None:
    fetch.fetch_set("tools")
    for pair in pairs:
        project_run.fetch_locks(project, pair, "build", "test")
        emulated.test_wheel(project, pair, project.dist, test_options())


def test_pipeline() -> None:
    """Runs the tests of the pipeline itself, which need the source tree."""
    tools = virtual_environment("pipeline")
    processes = ("--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile")  # tests of one file share folders
    pytest = (tools / "python", "-m", "pytest", "-q", *processes, "tests/pipeline")
    run = children.run(pytest, cwd=ROOT, env=environment(tools), check=False)
    if run.returncode:
        raise Failure("the tests of the pipeline failed, see above")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is built, as the Makefile names it to every script that builds."""
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--base", default="debian")
    parser.add_argument("--arch", default=images.OWN, help="the machine of the wheel")
    parser.add_argument("--cuda-archs", default="")
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    parser.add_argument(
        "--cache", default="", help="a folder, redis://host or s3://bucket/prefix of objects that builds share"
    )


def read_options(args: argparse.Namespace) -> dict:
    """Arguments of make_wheel(). Whatever is wrong with them is a Failure here, before anything is built."""
    machine = args.arch or images.OWN
    images.check_choices(args.variant, args.base, machine)
    archs = cuda_architectures(args.variant, args.cuda_archs)
    check_jobs()
    project = project_run.load(args.project)
    pairs = project_run.pairs(project, args.pythons, args.torches)
    engine, reason = engines.choose(args.engine)
    print(f"ENGINE={engine} ({reason})", flush=True)
    pythons.check_all(pairs, engine, args.base)
    if machine == images.ACROSS:
        emulated.check_pairs(pairs)
    cache = object_store.parse(args.cache)
    if cache and engine == "host":
        raise Failure("CACHE needs docker or podman: ENGINE=host compiles everything")
    if cache:
        cache.durations()  # a server that cannot be used is named now, not after the images
    return {
        "project": project,
        "pairs": pairs,
        "engine": engine,
        "variant": args.variant,
        "base": args.base,
        "archs": archs,
        "machine": machine,
        "cache": cache,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("wheel", "test", "test-pipeline"))
    add_options(parser)
    args = parser.parse_args()
    if args.action == "test-pipeline":
        return test_pipeline()
    options = read_options(args)
    if args.action == "wheel":
        return make_wheel(**options)
    del options["cache"]
    test_wheel(**options)


if __name__ == "__main__":
    main_guard(main)
