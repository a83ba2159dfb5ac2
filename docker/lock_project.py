"""Resolves what a project's build and tests require into hash-locked files in the project: `make lock PROJECT=...`.

The names come from [build-system] requires, from what the build backend asks for when it is called, from [project] dependencies
and from test-requires of [tool.cibuildwheel]. pip resolves them for the CPython and platform of the image, and prefers the
versions that the image holds; torch is the one that the project's table names. The backend is code of the project: it runs
without a network, in the build image or, with ENGINE=host, on this machine. Only this step resolves versions; the lock names no
host.
"""

import argparse
import contextlib
import json
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import children
import engine as engines
import host_build
import images
import interpreters
import project_run
import pythons
from common import LOCKS, ROOT, Failure, main_guard, pip_target, read_requirements, replacing
from image import architectures
from image.project import Pair, Project
from strict import one_line

# Modules that setup.py files import without saying so, and what brings them. Nothing else is added on a project's word.
KNOWN_MODULES = {name: name for name in ("torch", "numpy", "packaging", "pybind11", "wheel", "ninja", "setuptools")} | {
    "Cython": "cython", "pkg_resources": "setuptools<81",
}  # fmt: skip


# torch's BuildExtension compiles one source at a time without ninja, and importing torch warns without numpy.
WITH_TORCH = ["ninja", "numpy"]
BOUND = r"(===|[<>=!~]=|[<>]) ?[\w.*+!-]+"  # a space may be one, so that no line takes long to match
ASKED = re.compile(
    rf"[A-Za-z0-9][\w.-]*( ?\[[\w., -]*\])?( ?\(? ?{BOUND}( ?, ?{BOUND})* ?,? ?\)?)? ?(;[^\n\r$]*)?", re.ASCII
)


def is_asked(line: object) -> bool:
    """Whether a line is a name with versions and a marker."""
    return isinstance(line, str) and len(line) < 2000 and bool(ASKED.fullmatch(re.sub(" +", " ", line)))


TORCH = re.compile(r"torch\b(?![-_.])")


def versions_held() -> dict[str, str]:
    """What the images hold. A lock prefers it: a container that is started by hand then needs no other wheels."""
    locks = (LOCKS / f"requirements-{kind}.txt" for kind in ("test", "build"))
    return {entry.package: entry.version for lock in locks for entry in read_requirements(lock)}


def resolve(requirements: list[str], pair: Pair) -> list[dict]:
    """pip's choice, as the items of its report.

    Raises:
        Failure: pip has none; or a line, which a project or its build backend wrote, is more than a name with versions and a
            marker: pip would take options and addresses, and put variables of the caller (${NAME}) into these.
    """
    for line in requirements:
        if not is_asked(line):
            raise Failure(
                f"the requirement {one_line(line)} of the project is not a name with versions, which is what a lock can hold"
            )
    names = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in requirements}
    wanted = [*requirements, f"torch=={pair.torch}"] if "torch" in names else requirements
    python = interpreters.locked() if pair.python == interpreters.LOCKED else interpreters.find_python(pair.python)
    if python is None:
        raise Failure(
            f"locking for CPython {pair.python} needs one on the PATH or under pyenv: environment markers are its own"
        )
    with tempfile.TemporaryDirectory() as folder:
        asked, held, report, unused = (
            Path(folder, name) for name in ("asked.txt", "held.txt", "report.json", "unused")
        )
        asked.write_text("".join(f"{line}\n" for line in wanted))
        held.write_text("".join(f"{name}=={version}\n" for name, version in versions_held().items()))
        for preferred in ([f"--constraint={held}"], []):
            run = children.run(
                [interpreters.with_pip(), "-m", "pip", "--python", python, "install",
                 "--quiet", "--dry-run", "--ignore-installed", "--disable-pip-version-check", f"--target={unused}",
                 f"--report={report}", *pip_target(pair.python), f"--requirement={asked}", *preferred],
                stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            if run.returncode == 0:
                return with_hashes(json.loads(report.read_text()))
        errors = [line for line in run.stderr.splitlines() if line.startswith("ERROR: ")]
        raise Failure(
            f"pip cannot resolve {', '.join(wanted)}: {(errors or [run.stderr[-200:]])[-1].removeprefix('ERROR: ')}"
        )


def with_hashes(report: dict) -> list[dict]:
    """The items of a report of pip, each with its "sha256": pip 23.1 and later list `hashes`, earlier ones have one `hash`."""
    for item in report["install"]:
        info = item["download_info"].get("archive_info", {})
        name, _, only = info.get("hash", "").partition("=")
        item["sha256"] = info.get("hashes", {}).get("sha256") or (only if name == "sha256" else "")
        if not re.fullmatch("[0-9a-f]{64}", item["sha256"]):
            raise Failure(
                f"pip {report.get('pip_version', 'of an unknown version')} does not say the sha256 of "
                f"{item['metadata']['name']}: upgrade pip (python3 -m pip install --upgrade pip), or name another: make PYTHON=... lock"
            )
    return report["install"]


def lines_of(items: list[dict]) -> list[str]:
    found = []
    for item in items:
        meta = item["metadata"]
        found.append(f"{meta['name'].lower().replace('_', '-')}=={meta['version']} --hash=sha256:{item['sha256']}")
    return sorted(found)


@contextlib.contextmanager
def all_or_nothing(*paths: Path) -> Iterator[None]:
    """Puts files back as they were if anything fails: of a pair of locks, both are new or none is."""
    before = {path: path.read_bytes() if path.is_file() else None for path in paths}
    try:
        yield
    except BaseException:
        for path, content in before.items():
            if content is not None:
                path.write_bytes(content)
            else:
                path.unlink(missing_ok=True)
        raise


def write(path: Path, items: list[dict], pair: Pair, digest: str, own: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = "# make lock" + ("" if own else " PROJECT=...")
    with replacing(path) as partial:
        partial.write_text("\n".join([header, f"# CPython {pair.python}; inputs {digest}", *lines_of(items)]) + "\n")
    print(f"{path}: {len(items)} wheels", flush=True)


# Options of pip that say where from or how, which a lock decides: they take no value, or one.
PIP_FLAGS = {
    "--no-deps",
    "--pre",
    "--prefer-binary",
    "--upgrade",
    "-U",
    "-q",
    "--quiet",
    "--no-cache-dir",
    "--no-build-isolation",
    "--user",
}
PIP_VALUES = {
    "--only-binary",
    "--no-binary",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "-c",
    "--constraint",
}


def lines_of_file(project: Project, name: str, what: str) -> list[str]:
    """The requirements in a file of the project, without hashes: the lock has its own."""
    path = (project.folder / re.sub(r"^\{(project|package)\}/", "", name)).resolve()
    if project.folder not in path.parents or not path.is_file():
        raise Failure(
            f"{what} of [tool.cibuildwheel] names {name}, which is not in {project.folder}: bring the file (source distributions "
            f"often leave it out), or say in pyproject.toml what {what} needs"
        )
    text = path.read_text(errors="replace").replace("\\\n", " ")
    lines = [re.sub(r"(^|\s)#.*|\s--hash[= ]\S+", "", line).strip() for line in text.splitlines()]
    found = []
    for line in filter(None, lines):
        found += words_of(project, line.split(), what) if line.startswith("-") else [line]
    return found


def words_of(project: Project, words: list[str], what: str) -> list[str]:
    """The requirements among the arguments of a `pip install`."""
    found, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        if word.startswith("-") and name in ("-r", "--requirement"):
            found += lines_of_file(project, value or rest.pop(0), what)
        elif word in PIP_FLAGS or (word.startswith("-") and name in PIP_VALUES and value):
            continue
        elif word in PIP_VALUES:
            del rest[:1]
        elif word.startswith("-"):
            raise Failure(f"{what} of [tool.cibuildwheel]: pip's option {word} has no place in a lock: leave it out")
        elif not word.startswith((".", "/", "{")):  # a folder or wheel, which no registry has
            found.append(word)
    return found


# VAR=value before a command, also quoted.
ASSIGNMENTS = r"""(?:[A-Za-z_]\w*=(?:[^\s"']|"[^"]*"|'[^']*')*\s+)*"""


def installed_by(project: Project, commands: list[str], what: str) -> list[str]:
    """What `pip install` in a command of cibuildwheel's settings names: in the lock, it is there when the command runs."""
    found = []
    for command in commands:
        for part in re.split(r"&&|;|\n|\|\|", command):
            if match := re.match(rf"\s*{ASSIGNMENTS}(?:\S*python\S*\s+-m\s+)?(?:uv\s+)?pip3?\s+install\s+(.*)", part):
                found += words_of(project, shlex.split(match[1], comments=True), what)
    return found


def compilers(project: Project, engine: str, variant: str) -> dict[str, str]:
    """What tells setup.py where CUDA's compiler is: with VARIANT=cuda, the backend is asked where it will build."""
    base = host_build.host_variant(variant) if engine == "host" else {"CUSTOMOPS_VARIANT": variant}
    return architectures.cuda_variables(project.table, base)


def lock(project: Project, pair: Pair, engine: str, variant: str = "cpu") -> None:
    settings = project_run.settings_of(project, pair)
    wanted, asked = [*project.build_requires, *installed_by(project, settings["before_build"], "before-build")], None
    variables = compilers(project, engine, variant) | settings["environment"]
    if any(map(TORCH.match, wanted)):
        wanted = [*wanted, *WITH_TORCH]
    while True:
        items = resolve(wanted, pair)
        write(project.lock("build", pair), items, pair, project.inputs_digest(pair), project.folder == ROOT)
        asked = project_run.ask_backend(project, pair, engine, variables, variant)
        extra = asked.get("requires", [])
        if missing := asked.get("missing"):
            if missing not in KNOWN_MODULES:
                raise Failure(
                    f"the build imports {missing}, which no requirement brings: add it to build-requires in [tool.customops-build]"
                )
            print(
                f"{KNOWN_MODULES[missing]}: added, the build imports {missing} and [build-system] requires does not name it",
                flush=True,
            )
            extra = [KNOWN_MODULES[missing], *(WITH_TORCH if missing == "torch" else [])]
        new = [line for line in extra if line not in wanted]
        if not new:
            break
        wanted = [*wanted, *new]
    needed = [
        *asked.get("dependencies", []), *extras_of(project, settings["extras"], asked.get("optional", [])),
        *words_of(project, settings["requires"], "test-requires"), *installed_by(project, settings["before_test"], "before-test"),
    ]  # fmt: skip
    if any(item["metadata"]["name"] == "torch" for item in items) and not any(map(TORCH.match, needed)):
        needed.append("torch")
    if any(map(TORCH.match, needed)):
        needed.append("numpy")
    customary = []
    if not settings["command"] and any((project.folder / name).exists() for name in project.table["tests"]):
        needed.append("pytest")
        if not settings["extras"] and not settings["requires"]:
            customary = [line for line in customary_tests(project, asked.get("optional", [])) if line not in needed]
    write(
        project.lock("test", pair),
        resolve_tests(needed, customary, pair),
        pair,
        project.inputs_digest(pair),
        project.folder == ROOT,
    )


def customary_tests(project: Project, metadata: list[str]) -> list[str]:
    """What an extra or a dependency group with a usual name holds, for a project whose settings say nothing of tests."""
    found = []
    for name in ("test", "tests", "testing"):
        with contextlib.suppress(Failure):
            found += extras_of(project, [name], metadata)
        found += group_of(project, name)
    return list(dict.fromkeys(found))


def group_of(project: Project, name: str, within: tuple[str, ...] = ()) -> list[str]:
    groups = project.pyproject.get("dependency-groups", {})
    lines = groups.get(name, []) if name not in within else []
    parts = (
        [line] if isinstance(line, str) else group_of(project, line.get("include-group", ""), (*within, name))
        for line in lines
    )
    return [line for part in parts for line in part]


def resolve_tests(needed: list[str], customary: list[str], pair: Pair) -> list[dict]:
    """customary: what is left out if pip finds no wheels for it."""
    if customary:
        print(f"no test-requires in [tool.cibuildwheel]: taking {', '.join(customary)}", flush=True)
        try:
            return resolve([*needed, *customary], pair)
        except Failure as error:
            print(f"not taken: {error}", flush=True)
    return resolve(needed, pair) if needed else []


EXTRA = re.compile(r"""(?:;\s*|\s+and\s+)extra\s*==\s*["']([\w.-]+)["']""")


def extras_of(project: Project, extras: list[str], metadata: list[str]) -> list[str]:
    """What test-extras of cibuildwheel's settings names; metadata: Requires-Dist of extras, if the build backend knows them."""
    own = project.pyproject.get("project", {})
    optional = {name: list(lines) for name, lines in own.get("optional-dependencies", {}).items()}
    for line in metadata if not optional else ():
        if match := EXTRA.search(line):
            optional.setdefault(match[1], []).append(EXTRA.sub("", line))
    found, seen, rest = [], set(), list(extras)
    while rest:
        if (extra := rest.pop(0)) in seen:
            continue
        seen.add(extra)
        if extra not in optional:
            raise Failure(
                f"test-extras of [tool.cibuildwheel] names {extra}, which the project's optional dependencies lack: "
                f"there are {', '.join(optional) or 'none'}"
            )
        for line in optional[extra]:
            nested = re.match(r"([\w.-]+)\[([\w., -]+)\]$", line.replace(" ", ""))  # all = ["this-project[test]"]
            if (
                nested
                and re.sub(r"[-_.]+", "-", nested[1]).lower() == re.sub(r"[-_.]+", "-", own.get("name", "")).lower()
            ):
                rest += nested[2].split(",")
            else:
                found.append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--variant", default="cpu", help="cuda: setup.py asks for CUDA's compiler")
    parser.add_argument("--project", type=Path, default=ROOT)
    parser.add_argument("--pythons", default="")
    parser.add_argument("--torches", default="")
    args = parser.parse_args()
    images.check_choices(args.variant, "debian")
    project = project_run.load(args.project)
    engine, reason = engines.choose(args.engine)
    print(f"ENGINE={engine} ({reason})", flush=True)
    pairs = project_run.pairs(project, args.pythons, args.torches)
    pythons.check_all(pairs, engine)
    for pair in pairs:
        with all_or_nothing(project.lock("build", pair), project.lock("test", pair)):
            lock(project, pair, engine, args.variant)


if __name__ == "__main__":
    main_guard(main)
