"""The test stage: installs the one wheel of a folder beside what the project's lock names, and runs the project's tests.

    python docker/image/test_project.py DIST PROJECT

Runs in the test image, which has no compiler, or with a Python of a host. Only the tests are copied out of the project (`tests`
in its table, test-sources of cibuildwheel), so that nothing is imported from a source tree. What runs is test-command of
[tool.cibuildwheel], or pytest if the lock holds it; without either, importing the package is the test.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import failures
import settings
import target
from build_project import environment_folder, interpreter, pair_of
from cibuildwheel.util.helpers import prepare_command
from packaging.tags import cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from project import BadProject, Pair, Project

CONFIGURATION = ("pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini", "conftest.py")
COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "nvcc")
RUN_NONE = ", or tests = [] in [tool.customops-build] runs none"
HINT = "; test-requires of [tool.cibuildwheel] brings what tests import" + RUN_NONE
IMPORT = """
import importlib, importlib.util, pathlib, sys
site, *modules = sys.argv[1:]
if importlib.util.find_spec("torch"):
    import torch
    with_torch = f" with torch {torch.__version__},"
else:
    with_torch = " with"
for name in modules:
    module = importlib.import_module(name)
    places = [pathlib.Path(p).resolve() for p in ([module.__file__] if module.__file__ else module.__path__)]
    if not any(pathlib.Path(site).resolve() in place.parents for place in places):
        sys.exit(f"error: {name} was imported from {places[0]}, not from the wheel")
print(f"{', '.join(modules)}:{with_torch} Python {sys.version.split()[0]}")
"""


def wheel_for(dist: Path, pair: Pair) -> Path:
    """The one wheel of a folder that this Python and torch can use."""
    numbers = tuple(int(part) for part in pair.python.rstrip("t").split("."))
    abi = [f"{pair.tag}"] + ([] if pair.tag.endswith("t") else ["abi3"])
    usable = {(tag.interpreter, tag.abi) for tag in cpython_tags(numbers, [*abi, "none"], ["any"])} | {
        (f"py{n}", "none") for n in ("3", *(f"3{minor}" for minor in range(numbers[1] + 1)))
    }
    found = []
    for wheel in sorted(dist.glob("*.whl")):
        try:
            _, version, _, tags = parse_wheel_filename(wheel.name)
        except InvalidWheelFilename as error:
            raise BadProject(f"{wheel}: {error}") from error
        other = ".torch" in f".{version.local or ''}" and f".torch{pair.torch}." not in f".{version.local}."
        here = [tag for tag in tags if tag.platform == "any" or tag.platform.endswith(f"_{target.machine()}")]
        if not other and any((tag.interpreter, tag.abi) in usable for tag in here):
            found.append(wheel)
    if len(found) != 1:
        raise BadProject(
            f"{dist} must hold exactly one wheel for CPython {pair.python}, found {len(found)}: run `make clean wheel`"
        )
    return found[0]


def modules_of(names: list[str]) -> list[str]:
    """What a wheel with these files makes importable, without what its packages hold: also packages and modules of a namespace."""
    found = set()
    for name in names:
        *folders, file = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", name).split("/")
        stem = file.split(".")[0]
        behind = (
            file.endswith(".so") and "/".join([*folders, f"{stem.removeprefix('lib')}.py"]) in names
        )  # of aten_stable
        if not file.endswith((".py", ".so")) or behind or not all(map(str.isidentifier, [*folders, stem])):
            continue
        parts = [*folders, stem]
        for depth in range(1, len(folders) + 1):
            if "/".join([*folders[:depth], "__init__.py"]) in names:
                parts = folders[:depth]
                break
        found.add(".".join(parts))
    return sorted(found)


def run(command: list, message: str, **options) -> None:
    if subprocess.run(command, check=False, **options).returncode:
        raise BadProject(message)


ABSENT_FILE = re.compile(r"(?:FileNotFoundError|NotADirectoryError|No such file or directory)[^\n]*?: ?'([^'\n]+)'")
KEPT = 5000  # lines of the output of tests, the last ones


def run_tests(command: list, message: str, tests: Path, project: Project, **options) -> None:
    """Runs tests, shows what they say, and adds to the message what they looked for in the checkout and did not find."""
    kept = collections.deque(maxlen=KEPT)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options) as process:
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            kept.append(line)
    if status := process.returncode:
        collecting = status == 2 and "pytest" in str(command)  # pytest's own number for tests that cannot be read
        said = b"".join(kept).decode(errors="replace")
        hint = missing_files(said, tests, project.folder)
        if not hint and (module := failures.MISSING_MODULE.search(said)):
            hint = f"; they import {module[1]}, which no lock holds: test-requires of [tool.cibuildwheel] brings it, after make lock PROJECT=..."
            if target.is_another():
                hint += f"; for {target.machine()}, only what is pure Python or in docker/locks/{target.machine()}"
            hint += RUN_NONE * collecting
        raise BadProject(message + (hint or HINT * collecting))


def missing_files(said: str, tests: Path, folder: Path) -> str:
    """What the output of tests names as absent and the checkout has: the test stage sees little of it. "" if there is none."""
    for path in dict.fromkeys(ABSENT_FILE.findall(said)):
        inside = os.path.normpath(path)
        if os.path.isabs(inside):
            inside = os.path.relpath(inside, tests)
        if inside.startswith("..") or not (folder / inside).exists():
            continue
        if (tests / inside).exists():
            return f'; they look for {inside} in the folder they run in, which is empty: test-command = "cd {{project}} && ..."'
        return f"; they read {inside} of the checkout, which the test stage does not see: name it in tests of [tool.customops-build]"
    return ""


def copy_tests(project: Project, sources: list[str], target: Path) -> bool:
    target.mkdir()
    found = False
    for name in dict.fromkeys([*project.table["tests"], *sources]):
        path = (project.folder / name).resolve()
        if project.folder not in path.parents or not path.exists():
            continue
        found = True
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if path.is_dir() else shutil.copyfile
        copy(path, target / name)
    for name in CONFIGURATION:
        if (project.folder / name).is_file():
            shutil.copyfile(project.folder / name, target / name)
    return found


def isolated(python: Path, folders: list[Path], venv: Path) -> Path:
    """The folder of a `python` that imports from these folders even if a test command says -I, which drops PYTHONPATH."""
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.check_output([python, "-c", code], text=True).strip()  # its pip
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "test_stage.pth").write_text("".join(f"{folder}\n" for folder in (*folders, own)))
    return venv / "bin"


def test(dist: Path, project: Project, work: Path) -> None:
    pair = pair_of(project)
    wheel = wheel_for(dist, pair)
    if os.environ.get("CUSTOMOPS_TEST_IMAGE"):  # set by the Dockerfiles
        for compiler in COMPILERS:
            if shutil.which(compiler):
                raise BadProject(f"the test image holds a compiler, {compiler}")
    python, options = interpreter(pair), settings.read(project.folder, pair.tag, to_build=False)
    environment, site = environment_folder(project, "test", pair, work), work / "site"
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("BUILD_", "PIP_", "PYTHON"))} | {
        "PYTHONPATH": f"{site}{os.pathsep}{environment}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "PIP_NO_INDEX": "1",
    }
    # An emulated Python has no pip; this one installs what it would not use itself.
    platform = wheel.name.removesuffix(".whl").rsplit("-", 1)[1].split(".")[-1]
    tags = ("--only-binary=:all:", f"--python-version={pair.python}", "--implementation=cp", f"--abi={pair.tag}", "--abi=abi3", "--abi=none", f"--platform={platform}")  # fmt: skip
    across = target.is_another()
    pip = [sys.executable if across else python, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    own = [] if across else [isolated(python, [site, environment], work / "venv")]
    programs = (site / "bin", environment / "bin", *own, python.parent)
    variables["PATH"] = os.pathsep.join([*map(str, programs), os.environ["PATH"]])
    install = [
        *pip,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--root-user-action=ignore",
        f"--target={site}",
        *(tags if across else ()),
    ]
    run([*install, wheel], f"pip does not install {wheel.name}, see above", env=os.environ | {"PYTHONPATH": ""})
    if not across:
        unmet = f"{wheel.name} requires what the test lock does not hold: make lock PROJECT=..."
        run([*pip, "check"], unmet, env=variables)
    empty = work / "empty"
    empty.mkdir()
    modules = project.table["modules"] or modules_of(zipfile.ZipFile(wheel).namelist())
    print(f"testing {wheel.name}", flush=True)
    run([python, "-c", IMPORT, site, *modules], f"{wheel.name} cannot be imported, see above", env=variables, cwd=empty)
    tests = work / "project"
    has_tests = copy_tests(project, options.test_sources, tests)
    command = options.test_command
    if not command and has_tests and (environment / "pytest").exists():
        command = "python -m pytest -q " + " ".join(
            f"{{project}}/{name}" for name in project.table["tests"] if (tests / name).exists()
        )
    if not command:
        print(
            "no test-command in [tool.cibuildwheel], and no tests with pytest in the lock: the import is the test; test-command and "
            "test-requires there run more",
            flush=True,
        )
        return
    variables = options.environment.as_dictionary(variables)
    variables = options.test_environment.as_dictionary(variables)
    before = "before-test of [tool.cibuildwheel] failed, see above; a test has no network: test-requires brings what it installs"
    for step, message in ((options.before_test, before), (command, f"the tests of {wheel.name} failed, see above")):
        if step:
            step = prepare_command(" ".join(step.split()), project=tests, package=tests, wheel=wheel)
            run_tests(["sh", "-c", step], message, tests, project, env=variables, cwd=empty)


def main() -> None:
    dist, folder = (Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as work:
        try:
            test(dist, Project(folder), Path(work))
        except BadProject as error:
            sys.exit(failures.say_last(error))
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)  # it has said why


if __name__ == "__main__":
    main()
