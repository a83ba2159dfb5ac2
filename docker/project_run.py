"""What the steps on the host share about a project: its pairs, locks and environments, and what its own code says when asked.

An environment is the folder of what a lock names, in .cache/environments/; a container mounts it read-only, so that no build
installs torch again.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import children
import fetch
import images
import interpreters
import native
import pythons
from common import (
    CACHE,
    IMAGE_SCRIPTS,
    ROOT,
    Failure,
    environment,
    fresh_folder,
    read_left,
    read_requirements,
    sha256_of,
    virtual_environment,
)
from image import failures
from image import project as projects
from image.project import Pair, Project
from staging import stage

WHEELS = (CACHE / "project-wheels").resolve()
HELD = {"build": "/opt/build-tools", "test": "/opt/test-tools"}


def load(folder: Path) -> Project:
    for name in ("pyproject.toml", "setup.py"):
        check_inside(Path(folder), Path(folder, name))
    try:
        project = Project(folder)
    except projects.BadProject as error:
        raise Failure(str(error)) from error
    for path in (project.locks, project.dist):
        check_inside(project.folder, path)
    return project


def check_inside(folder: Path, path: Path) -> None:
    """Refuses what a project has as a link to somewhere else: its steps read and write that outside of any container."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise Failure(f"{path} is a link out of the project, to {os.path.realpath(path)}: remove it")


def pairs(project: Project, pythons: str = "", torches: str = "") -> list[Pair]:
    """PYTHONS and TORCHES, or the project's own; one of them alone is paired with the project's first other."""
    try:
        if not pythons and not torches:
            return project.pairs
        first = project.pairs[0]
        return projects.pair_up(
            pythons.split() or [first.python], torches.split() or [first.torch], "PYTHONS and TORCHES"
        )
    except projects.BadProject as error:
        raise Failure(str(error)) from error


def command_for(project: Project) -> str:
    return "make lock" if project.folder == ROOT else f"make lock PROJECT={project.folder}"


def check_lock(project: Project, kind: str, pair: Pair) -> Path:
    """The lock, if it is there and as new as pyproject.toml."""
    path = project.lock(kind, pair)
    check_inside(project.folder, path)
    if not path.is_file():
        raise Failure(
            f"{project.folder} has no lock for CPython {pair.python} ({path.name}): {command_for(project)}"
            + ("" if pair == project.pairs[0] else f' PYTHONS="{pair.python}" TORCHES="{pair.torch}"')
        )
    stamp = next((line.rpartition("inputs ")[2] for line in path.read_text().splitlines() if "; inputs " in line), "")
    if stamp and stamp != project.inputs_digest(pair):
        raise Failure(
            f"the requirements in {project.folder}/pyproject.toml have changed since {path.name}: {command_for(project)}"
        )
    return path


def fetch_lock(lock: Path, pair: Pair, project: Project) -> None:
    """Downloads what a project's lock names: into a folder of its own, because the images are made from .cache/wheels."""
    lock = native.here(lock)
    WHEELS.mkdir(parents=True, exist_ok=True)
    for entry in read_requirements(lock):
        here = fetch.find_wheel(CACHE / "wheels", entry.path, entry.sha256)
        if here and not (WHEELS / here.name).exists() and sha256_of(here) == entry.sha256:
            shutil.copyfile(here, WHEELS / here.name)
    fetch.fetch_wheels(lock, WHEELS, pair.python, whose=project.folder.name)


def fetch_locks(project: Project, pair: Pair, *kinds: str) -> None:
    for kind in kinds:
        fetch_lock(check_lock(project, kind, pair), pair, project)


def key(project: Project) -> str:
    """Names what is kept for a project, by its folder."""
    return hashlib.sha256(str(project.folder).encode()).hexdigest()[:16]


def memory_file(project: Project) -> Path:
    """Where the peaks of a project's compilers are kept; an empty one to begin with."""
    folder = CACHE / "memory"
    folder.mkdir(exist_ok=True)
    path = folder / f"{key(project)}.json"
    if not path.exists():
        path.write_text("{}\n")
    return path


@contextlib.contextmanager
def own_error() -> Iterator[Path]:
    """A file for the line that says why a build failed, in a folder that a container may write to; it becomes the failure."""
    folder = fresh_folder("answers")
    folder.chmod(0o777)
    try:
        yield folder / "error"
    except subprocess.CalledProcessError as error:
        if said := read_left(folder / "error", 2000).strip():
            shown = ("".join(c if c.isprintable() else "?" for c in line) for line in said.splitlines())
            raise Failure("\n".join(shown)) from error
        raise


def pair_variables(pair: Pair, environment: str | Path) -> dict[str, str]:
    return {"BUILD_PAIR": " ".join(native.pair_here(pair)), "BUILD_ENVIRONMENT": str(environment)}


def network_library() -> Path:
    """docker/image/network.c, compiled for this machine; without a C compiler, the file is not there."""
    source, library = IMAGE_SCRIPTS / "network.c", CACHE / "network.so"
    if shutil.which("gcc") and (not library.exists() or library.stat().st_mtime < source.stat().st_mtime):
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, env=environment())
    return library


def locks(project: Project, pairs: list[Pair]) -> list[Path]:
    return [project.lock(kind, pair) for pair in pairs for kind in ("build", "test")]


def host_interpreter(pair: Pair) -> Path:
    """A Python of this machine without any package but pip."""
    python = interpreters.locked() if pair.python == interpreters.LOCKED else interpreters.find_python(pair.python)
    if python is None:
        raise Failure(f"ENGINE=host: there is no python{pair.python} on the PATH or under pyenv")
    folder = (CACHE / "venv").resolve() / f"bare-{pair.tag}"
    if not (folder / "bin/python").exists():
        children.run([python, "-m", "venv", folder], stdout=subprocess.DEVNULL)
    return folder / "bin/python"


def make_environment(
    project: Project, kind: str, pair: Pair, engine: str, image: str, python: Sequence[str] = ()
) -> Path:
    """The environment of a lock, made if it is missing; its wheels must have been fetched. python: see pythons.mounts()."""
    lock = native.here(project.lock(kind, pair))
    where = image if engine != "host" else str(host_interpreter(pair))
    digest = hashlib.sha256(
        f"{where} {pair.python}\n".encode() + lock.read_bytes() + (IMAGE_SCRIPTS / "environment.py").read_bytes()
    )
    folder = (CACHE / "environments").resolve()
    target = folder / f"{kind}-{pair.tag}-{digest.hexdigest()[:16]}"
    folder.mkdir(exist_ok=True)
    if target.exists():
        return target
    if engine == "host":
        script = [host_interpreter(pair), IMAGE_SCRIPTS / "environment.py", lock, target, "--wheels", WHEELS]
        children.run(script, env=environment())
        return target
    script = ["/opt/customops/environment.py", f"/lock/{lock.name}", f"/environments/{target.name}", "--wheels", "/wheels",
              "--held", f"/opt/locks/requirements-{kind}.txt", HELD[kind]]  # fmt: skip
    mounts = [f"--volume={lock.parent}:/lock:ro", f"--volume={WHEELS}:/wheels:ro",
              f"--volume={folder}:/environments", "--env=PYTHONPATH=", *python]  # fmt: skip
    children.run_container(
        engine, image, f"/opt/python/{pair.interpreter}/bin/python", *script, options=(*mounts, *children.AS_OWNER)
    )
    return target


def settings_of(project: Project, pair: Pair) -> dict:
    """What [tool.cibuildwheel] of the project says; see docker/image/settings.py."""
    tools = virtual_environment("tools")
    run = subprocess.run(
        [tools / "python", IMAGE_SCRIPTS / "settings.py", project.folder, pair.tag],
        capture_output=True, text=True, check=False, env=environment(),
    )  # fmt: skip
    if run.returncode:
        raise Failure(run.stderr.strip().removeprefix("error: "))
    return json.loads(run.stdout)


def ask_backend(project: Project, pair: Pair, engine: str, variables: dict[str, str], variant: str = "cpu") -> dict:
    """What the project's build backend requires beyond its lock so far: its own code, run without a network."""
    fetch_lock(project.lock("build", pair), pair, project)
    source = fresh_folder("asked") / "source"
    stage(project.folder, source)
    attempts = source.with_name("network")
    attempts.touch()
    if engine == "host":
        folder = make_environment(project, "build", pair, engine, "")
        preload = {"LD_PRELOAD": str(library)} if (library := network_library()).exists() else {}
        nvcc = [Path(variables["CUDA_HOME"], "bin")] if "CUDA_HOME" in variables else []
        env = variables | environment(
            folder / "bin", *nvcc, PYTHONPATH=str(folder), NETWORK_LOG=str(attempts), **preload
        )
        command = [host_interpreter(pair), IMAGE_SCRIPTS / "ask_backend.py", source]
        run = children.run(command, env=env, check=False, text=True, stdout=subprocess.PIPE)
    else:
        images.fetch_inputs(variant)
        image = images.ensure(engine, variant, "debian")["build"]
        python = pythons.mounts(engine, image, pair)
        folder = make_environment(project, "build", pair, engine, image, python)
        mounts = (f"--volume={source}:/source", f"--volume={attempts}:/network", f"--volume={folder}:/environment:ro",
                  "--env=PYTHONPATH=/environment", "--env=LD_PRELOAD=/opt/customops/network.so", "--env=NETWORK_LOG=/network")  # fmt: skip
        path = "/environment/bin${CUDA_HOME:+:$CUDA_HOME/bin}:$PATH"
        script = (f'export PATH={path}; exec "$@"', "sh", f"/opt/python/{pair.interpreter}/bin/python")
        settings = (f"--env={name}={value}" for name, value in variables.items())
        run = children.run_container(
            engine, image, "sh", "-c", *script, "/opt/customops/ask_backend.py", "/source",
            options=(*settings, *mounts, *python, *children.AS_OWNER), check=False, text=True, stdout=subprocess.PIPE,
        )  # fmt: skip
    try:
        answer = json.loads((run.stdout.strip() or "{}").splitlines()[-1])
    except (ValueError, RecursionError):  # the project's own code wrote there, too
        answer = {}
    answer = answer if isinstance(answer, dict) else {}
    if reached := attempts.read_text(errors="replace").splitlines():
        raise Failure(failures.tried_to_reach(reached))
    if "requires" not in answer and "missing" not in answer:
        said = (answer.get("said") or "no answer").strip()
        print(said, flush=True)
        raise Failure(
            f"the build backend does not say what it requires: {failures.remedy(said) or said.splitlines()[-1]}"
        )
    return answer
