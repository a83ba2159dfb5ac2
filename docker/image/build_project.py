"""Builds the wheel of a staged project: build_project.py SOURCE FOLDER. The wheel appears in FOLDER; the next step repairs it.

The same in a container and on a host, started by build-wheel.sh or by cibuildwheel (backend.py). SOURCE is a copy that may be
written to. Variables, all of them optional:

    BUILD_PAIR          Python and torch, such as "3.11 2.13.0"; by default the project's first pair
    BUILD_ENVIRONMENT   a folder that environment.py made, or will make from the project's lock
    BUILD_INTERPRETER   the Python to build with, on a host
    BUILD_MEMORY        a file with the peak memory of each source, read and written
    BUILD_ERROR         a file for the one line that says why the build failed: whoever named it prints it
    CUSTOMOPS_VARIANT, CUDA_ARCHS, MAX_JOBS, TORCH_CUDA_ARCH_LIST
    CUSTOMOPS_TARGET, CUSTOMOPS_TARGET_SITE     another machine to compile for, and torch's package for it: target.py
"""

import itertools
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import architectures
import failures
import memory
import settings
import stable_aten
import stable_cuda
import target
from cibuildwheel.options import BuildOptions
from cibuildwheel.util.helpers import prepare_command
from project import BadProject, Pair, Project
from wheelfile import Wheel

HERE = Path(__file__).resolve().parent
LOCKS = HERE.parent / "locks"
NETWORK = Path(os.environ.get("BUILD_NETWORK") or HERE / "network.so")
# The environments of our own project, which the images hold: what a lock has in common with them need not be installed.
HELD = {"build": "/opt/build-tools", "test": "/opt/test-tools"}
WHEELS = (Path("/wheels"),)
# Of CPython's own flags, what decides the code: setuptools takes CFLAGS of the environment in place of all of them.
LIKE_CPYTHON = "-DNDEBUG -fwrapv -O3"
CHOOSE_THEIR_OWN = ("scikit_build_core", "mesonpy")  # build backends that have a build type instead


def pair_of(project: Project) -> Pair:
    given = os.environ.get("BUILD_PAIR", "").split()
    return Pair(*given) if len(given) == 2 else project.pairs[0]


def interpreter(pair: Pair) -> Path:
    path = Path(os.environ.get("BUILD_INTERPRETER") or f"/opt/python/{pair.interpreter}/bin/python")
    if not path.exists():
        held = ", ".join(
            sorted(p.name.partition("-")[2] for p in Path("/opt/python").glob("cp*-cp*") if not p.is_symlink())
        )
        raise BadProject(f"there is no CPython {pair.python} here, only {held or 'none'}: choose pythons of the image")
    return path


def environment_folder(project: Project, kind: str, pair: Pair, work: Path) -> Path:
    """What the build or the test may import."""
    target = Path(os.environ.get("BUILD_ENVIRONMENT") or work / f"{kind}-environment")
    if target.exists():
        return target
    held = LOCKS / f"requirements-{kind}.txt"
    command = [interpreter(pair), HERE / "environment.py", project.lock(kind, pair), target, "--held", held, HELD[kind]]
    subprocess.run(
        [*command, *(f"--wheels={path}" for path in WHEELS)], check=True, env=os.environ | {"PYTHONPATH": ""}
    )
    return target


def linker(python: Path) -> dict[str, str]:
    """LDSHARED without search paths: a Python that was built from source (pyenv) puts its own folder into every library."""
    code = "import sysconfig; print(sysconfig.get_config_var('LDSHARED'))"
    words = shlex.split(subprocess.check_output([python, "-c", code], text=True))
    kept = [word for word in words if not word.startswith(("-Wl,-rpath", "-Wl,-R"))]
    return {"LDSHARED": shlex.join(kept)} if kept != words else {}


def build_variables(project: Project, source: Path, environment: Path, python: Path, log: Path) -> dict[str, str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith(("BUILD_", "PYTHON", "PIP_"))}
    maps = f"-ffile-prefix-map={source}=. -ffile-prefix-map={environment.resolve()}=environment"
    cuda, cross = architectures.cuda_variables(project.table, base), target.variables(python)
    described = log.with_name("target")
    there = target.describe_python(python, described)
    path = [environment / "bin", python.parent, *([Path(cuda["CUDA_HOME"], "bin")] if "CUDA_HOME" in cuda else [])]
    # First ours, which corrects what libfaketime makes of a sleep.
    preload = [word for word in (str(NETWORK) if NETWORK.exists() else "", base.get("LD_PRELOAD")) if word]

    optimised = "" if project.backend.startswith(CHOOSE_THEIR_OWN) else LIKE_CPYTHON

    def flags(name: str, *own: str) -> str:
        """The last word on one subject holds: the caller's, and after these, the project's."""
        return " ".join(word for word in (cross.get(name, ""), base.get(name, ""), *own) if word)

    return base | linker(python) | cuda | cross | there | {
        "PATH": os.pathsep.join([*map(str, path), base["PATH"]]),
        "PYTHONPATH": os.pathsep.join(map(str, (environment, described) if there else (environment,))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PIP_NO_INDEX": "1",
        "CFLAGS": f"{optimised} {flags('CFLAGS', maps)}".strip(),
        "CXXFLAGS": f"{optimised} {flags('CXXFLAGS', maps)}".strip(),
        **({"LDFLAGS": flags("LDFLAGS")} if cross else {}),
        "NVCC_APPEND_FLAGS": f"{base.get('NVCC_APPEND_FLAGS', '')} -objtemp".strip(),
        "LD_PRELOAD": " ".join(preload),
        "NETWORK_LOG": str(log),
    }  # fmt: skip


def run(command: list, log: Path, **options) -> int:
    """Runs a command, shows its output and keeps it in the log."""
    with (
        log.open("ab") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process,
    ):
        for line in process.stdout:
            file.write(line)
            if shown := line if os.environ.get("V") == "1" else failures.progress(line):
                sys.stdout.buffer.write(shown)
                sys.stdout.flush()
    return process.returncode


def run_steps(
    python: Path, source: Path, out: Path, options: BuildOptions, variables: dict[str, str], log: Path
) -> str:
    """before-all, before-build and the project's build backend, whose wheel appears in out; returns which failed, or ""."""
    for name, command in (("before-all", options.before_all), ("before-build", options.before_build)):
        if command:
            command = prepare_command(command, project=source, package=source)
            if run(["sh", "-c", command], log, cwd=source, env=variables):
                return f"{name} of [tool.cibuildwheel]"
    told = target.config_settings(Project(source).backend, variables["PATH"], log.with_name("target"))
    config = [f"--config-setting={item}" for item in [*told, *shlex.split(options.config_settings)]]
    frontend = [python, "-m", "build", "--wheel", "--no-isolation", f"--outdir={out}", *config, str(source)]
    return "the project's build backend" if run(frontend, log, cwd=source, env=variables) else ""


def only_wheel(folder: Path) -> Path:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise BadProject(f"the project's build backend left {len(wheels)} wheels, expected one")
    return wheels[0]


def build(source: Path, out: Path, work: Path) -> None:
    project = Project(source)
    pair = pair_of(project)
    python, options = interpreter(pair), settings.read(source, pair.tag)
    environment = environment_folder(project, "build", pair, work)
    stable = project.table["aten"] == "stable"
    log, attempts = work / "log", work / "network"
    attempts.touch()
    log.touch()
    variables = build_variables(project, source, environment, python, attempts)
    variables = options.environment.as_dictionary(
        variables, lambda command, env: subprocess.check_output(command, env=env, text=True)
    )
    toolkits: list[stable_cuda.Toolkit] = []
    if stable:
        torch, headers = (target.site() or environment) / "torch", source.with_name("aten_stable")
        own = stable_aten.variables(stable_aten.name_of(project), headers, torch)
        given, variables = variables, stable_aten.before(own, variables)
        if os.environ.get("CUSTOMOPS_VARIANT") == "cuda":
            toolkits = stable_cuda.toolkits(project.table, given)
    record = Path(os.environ["BUILD_MEMORY"]) if os.environ.get("BUILD_MEMORY") else None
    before = memory.read(record)
    count, why = memory.jobs(before, variables.get("MAX_JOBS", ""))
    variables |= {"MAX_JOBS": str(count), "CMAKE_BUILD_PARALLEL_LEVEL": str(count)}
    print(f"{count} compile job{'s' * (count > 1)} ({why})", flush=True)

    watch = memory.Watch()
    watch.start()
    failed, folders = "", [work / one.name for one in toolkits] or [out]
    if len(toolkits) > 1:
        shutil.copytree(source, work / "before", symlinks=True)
    for toolkit, folder in itertools.zip_longest(toolkits, folders):
        if toolkit and not failed:
            if toolkit != toolkits[0]:
                stable_cuda.restore(work / "before", source)
            print(f"{toolkit.name}: nvcc {toolkit.version()} for {' '.join(toolkit.architectures)}", flush=True)
            variables |= stable_cuda.variables(toolkit, own, given, headers, source)
        failed = failed or run_steps(python, source, folder, options, variables, log)
    watch.stop()
    watch.keep(record, before)
    reached = list(dict.fromkeys(attempts.read_text(errors="replace").splitlines()))
    if failed:
        raise BadProject(failures.explain(log.read_text(errors="replace"), reached, failed))
    if reached:
        print(f"warning: the build tried to reach {', '.join(reached)}, and went on without", flush=True)
    wheels = list(map(only_wheel, folders))
    if stable:
        by_toolkit = {one.name: Wheel(wheel) for one, wheel in zip(toolkits, wheels, strict=False)}
        cuda = stable_cuda.Built(by_toolkit, toolkits, stable_cuda.label(toolkits, given)) if toolkits else None
        made = stable_aten.convert(wheels[0], int(os.environ.get("SOURCE_DATE_EPOCH", "0")), cuda)
        shutil.move(made, out / made.name)
    for name, peak in sorted(watch.peaks.items(), key=lambda item: -item[1])[:3]:
        print(f"{name}: {peak / 1e9:.2f} GB of memory to compile", flush=True)


def main() -> None:
    source, out = (Path(argument).resolve() for argument in sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        try:
            build(source, out, Path(work))
        except BadProject as error:
            sys.exit(failures.say_last(error))
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)  # it has said why


if __name__ == "__main__":
    main()
