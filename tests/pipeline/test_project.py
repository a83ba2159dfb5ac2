"""What the factory reads of a project: its table, its pairs, its locks, cibuildwheel's settings."""

import json
import os
import re
import subprocess
import sys

import common
import lock_project
import project as projects
import project_run
import pytest
from project import BadProject, Pair, Project


@pytest.fixture
def project(tmp_path):
    """project(text of pyproject.toml) -> Project"""

    def make(text=""):
        (tmp_path / "pyproject.toml").write_text(text)
        return Project(tmp_path)

    return make


def test_every_key_has_a_default_that_it_accepts():
    for key, known in projects.KEYS.items():
        assert known.accepts(known.default), key


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('polcy = "strict"', "has no key polcy: did you mean policy?"),
        ("zzz = 1", "has no key zzz: there are policy, pythons"),
        ('policy = "lax"', "policy: expected strict or torch-pinned, got 'lax'"),
        ('pythons = "3.11"', "pythons: expected a list such as"),
        ('locks = "../outside"', "locks: expected a folder below the project"),
        ('locks = "/etc"', "locks: expected a folder below the project"),
        ('build-requires = ["torch @ https://host/x.whl"]', "build-requires: expected a list"),
        ('build-requires = ["--index-url=x"]', "build-requires: expected a list"),
        ('build-requires = ["a\\n--index-url=x"]', "build-requires: expected a list"),
        ('tests = [".."]', "tests: expected a list of files and folders"),
        ("max-megabytes = true", "max-megabytes: expected a whole number"),
        ('cuda-archs = "hopper"', "cuda-archs: expected"),
    ],
)
def test_a_wrong_table_is_one_line(project, line, message):
    with pytest.raises(BadProject, match="tool") as raised:
        project(f"[tool.customops-build]\n{line}\n")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[build-system]\nrequires = ['torch', '-r x']\n", "requires: expected a list of names and versions"),
        ("not toml", "pyproject.toml: "),
    ],
)
def test_a_wrong_pyproject_is_one_line(project, text, message):
    with pytest.raises(BadProject) as raised:
        _ = project(text).build_requires
    assert message in str(raised.value)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_a_container_left_for_a_message_is_not_followed(tmp_path, monkeypatch, kind):
    """A hostile build wrote a link there: the first lines of a file of the host became the last line of make."""
    monkeypatch.setattr(common, "CACHE", tmp_path)
    (tmp_path / "secret").write_text("secret\n")
    failed = subprocess.CalledProcessError(1, ["docker"])
    with pytest.raises(subprocess.CalledProcessError), project_run.own_error() as error:
        {
            "link": lambda: error.symlink_to(tmp_path / "secret"),
            "pipe": lambda: os.mkfifo(error),
            "folder": error.mkdir,
        }[kind]()
        raise failed


def test_what_a_container_left_for_a_message_is_printable_and_short(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "CACHE", tmp_path)
    with pytest.raises(common.Failure) as failure, project_run.own_error() as error:
        error.write_text("no é \x1b]0;title\x07\u202etxt\nsecond" + "x" * 10_000_000)
        raise subprocess.CalledProcessError(1, ["docker"])
    first, second = str(failure.value).split("\n")
    assert first == "no é ?]0;title??txt"
    assert second.startswith("secondxxx") and len(second) < 2000


@pytest.mark.parametrize("name", ["dist", "locks", "pyproject.toml", "locks/requirements-build.txt"])
def test_links_out_of_a_project_are_refused(project, tmp_path, name):
    """`dist` in a stranger's repository led to ours: make wheel replaced our wheel by theirs. Locks are shown in errors."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inner = tmp_path / "inner"
    (inner / name).parent.mkdir(parents=True)
    (inner / "setup.py").touch()
    (inner / name).symlink_to(elsewhere)
    with pytest.raises(common.Failure, match=rf"{name} is a link out of the project, to {elsewhere}: remove it"):
        loaded = project_run.load(inner)
        project_run.check_lock(loaded, "build", loaded.pairs[0])


def test_a_link_inside_a_project_is_not(tmp_path):
    (tmp_path / "output").mkdir()
    (tmp_path / "setup.py").touch()
    (tmp_path / "dist").symlink_to("output")
    assert project_run.load(tmp_path).dist == tmp_path / "dist"


@pytest.mark.parametrize("name", ["MY_TOKEN", "AWS_SECRET_ACCESS_KEY", "TWINE_PASSWORD", "GIT_AUTHOR_NAME"])
def test_a_project_does_not_get_the_callers_secrets(root, tmp_path, name):
    tools = common.virtual_environment("tools")
    (tmp_path / "pyproject.toml").write_text(f'[tool.cibuildwheel]\nenvironment-pass = ["{name}"]\n')
    command = [tools / "python", root / "docker/image/settings.py", tmp_path, "cp311"]
    run = subprocess.run(command, env=os.environ | {name: "hidden"}, capture_output=True, text=True, check=False)
    if name == "GIT_AUTHOR_NAME":
        assert json.loads(run.stdout)["passed"] == {name: "hidden"}
        return
    assert run.returncode == 1 and "hidden" not in run.stdout + run.stderr
    assert f"asks for {name}, which is set here and looks like a secret" in run.stderr


def test_a_folder_without_a_project(tmp_path):
    with pytest.raises(BadProject, match="holds no project"):
        Project(tmp_path)


def test_pairs():
    assert projects.pair_up(["3.11", "3.13"], ["2.13.0"], "x") == [Pair("3.11", "2.13.0"), Pair("3.13", "2.13.0")]
    assert (Pair("3.14t", "2.15.0").tag, Pair("3.14t", "2.15.0").interpreter) == ("cp314t", "cp314-cp314t")
    for wrong in ((["3.11", "3.12"], ["2.10.0", "2.11.0", "2.13.0"]), ([], ["2.13.0"]), (["3"], ["2.13.0"])):
        with pytest.raises(BadProject):
            projects.pair_up(*wrong, "x")


def test_each_pair_has_a_lock_of_its_own(project):
    found = project('[tool.customops-build]\npythons = ["3.11", "3.13"]\ntorches = ["2.13.0", "2.15.0"]\n')
    names = [found.lock("build", pair).name for pair in found.pairs]
    assert names == ["requirements-build.txt", "requirements-build-cp313-torch2.15.0.txt"]


def test_a_lock_is_as_new_as_pyproject(project):
    found = project('[build-system]\nrequires = ["setuptools"]\n')
    (pair,) = found.pairs
    with pytest.raises(common.Failure, match=r"has no lock for CPython 3\.11.*make lock PROJECT="):
        project_run.check_lock(found, "build", pair)
    found.locks.mkdir()
    found.lock("build", pair).write_text(f"# make lock\n# CPython 3.11; inputs {found.inputs_digest(pair)}\n")
    project_run.check_lock(found, "build", pair)
    changed = project('[build-system]\nrequires = ["setuptools", "torch"]\n')
    with pytest.raises(common.Failure, match="have changed since"):
        project_run.check_lock(changed, "build", pair)


@pytest.mark.parametrize(
    ("commands", "named"),
    [
        (["pip install cython 'numpy>=2' && make prepare"], ["cython", "numpy>=2"]),
        (["{python} -m pip install -U --no-deps -r {project}/needed.txt ."], ["pybind11>=3; python_version>'3'", "cffi"]),
        (["CC=gcc FLAGS='-O2 -g' python -m pip install cffi", "A=1 pip install 'numpy<3'"], ["cffi", "numpy<3"]),
        (["A=1 echo pip install cffi", "uv pip install --index-url https://host/simple ninja"], ["ninja"]),
    ],
)  # fmt: skip
def test_what_a_command_before_the_build_installs_is_locked(project, tmp_path, commands, named):
    (tmp_path / "needed.txt").write_text(
        "# why\npybind11>=3; python_version>'3' \\\n  --hash=sha256:aa\n-r more.txt\n--only-binary=:all:\n"
    )
    (tmp_path / "more.txt").write_text("cffi  # because\n")
    assert lock_project.installed_by(project(), commands, "before-build") == named


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "absent.txt"], "test-requires of [tool.cibuildwheel] names absent.txt, which is not in"),
        (["-r", "../outside.txt"], "names ../outside.txt, which is not in"),
        (["--target=x"], "pip's option --target=x has no place in a lock"),
    ],
)
def test_what_no_lock_can_hold_is_one_line(project, words, said):
    with pytest.raises(common.Failure) as raised:
        lock_project.words_of(project(), words, "test-requires")
    assert said in str(raised.value)


def test_extras_of_pyproject_and_of_setup_py(project):
    static = project(
        "[project]\nname = 'My_Ops'\n[project.optional-dependencies]\ntest = ['pytest']\nall = ['my-ops[test]', 'ninja']\n"
    )
    assert lock_project.extras_of(static, ["all"], []) == ["ninja", "pytest"]
    with pytest.raises(
        common.Failure, match="names docs, which the project's optional dependencies lack: there are test"
    ):
        lock_project.extras_of(static, ["docs"], [])
    told = ["scipy; python_version < '4' and extra == 'test'", 'pytest>=7; extra == "test"', "sphinx; extra == 'docs'"]
    assert lock_project.extras_of(project(), ["test"], told) == ["scipy; python_version < '4'", "pytest>=7"]


def reported(**archive_info):
    item = {"metadata": {"name": "Some_thing", "version": "1.0"}, "download_info": {"archive_info": archive_info}}
    return {"pip_version": "23.0.1", "install": [item]}


def test_the_hash_of_a_wheel_in_reports_of_old_and_new_pips():
    digest = "5" * 64
    for info in ({"hash": f"sha256={digest}"}, {"hashes": {"sha256": digest}, "hash": f"sha256={digest}"}):
        assert lock_project.lines_of(lock_project.with_hashes(reported(**info))) == [
            f"some-thing==1.0 --hash=sha256:{digest}"
        ]
    for info in ({}, {"hash": f"md5={digest}"}, {"hashes": {"sha256": "5"}}):
        with pytest.raises(common.Failure, match=r"pip 23\.0\.1 does not say the sha256 of Some_thing: upgrade pip"):
            lock_project.with_hashes(reported(**info))


@pytest.mark.parametrize(
    "line",
    [
        "x @ https://host/${HOME}/x-1-py3-none-any.whl",
        "x\n--index-url=https://host",
        "--index-url=https://host",
        "x --config-settings=a=b",
        "./folder",
        "x; python_version > '${HOME}'",
        "x" + " " * 1900 + "$",
        {"x": 1},
    ],
)
def test_pip_is_asked_for_names_alone(monkeypatch, line):
    """A build backend answers what it likes: pip would put the caller's variables into an address, and go there."""
    monkeypatch.setattr(lock_project.children, "run", lambda *_, **__: pytest.fail("pip was started"))
    with pytest.raises(common.Failure, match="is not a name with versions") as failure:
        lock_project.resolve(["numpy", line], Pair("3.11", "2.13.0"))
    assert str(failure.value).isprintable()


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy (>=1.0,<3)",
        "a.b_c-d[x, y] ~=1.*; extra == 'x' and python_version < \"3.12\"",
        "x==2.0+cpu",
        "x===1.0-dev",
    ],
)
def test_what_requirements_look_like(line):
    assert lock_project.is_asked(line)


@pytest.mark.parametrize("said", ["nonsense", "[" * 100_000, "[1]", "", "{}"])
def test_a_backend_that_answers_nonsense_is_one_line(project, monkeypatch, tmp_path, said):
    monkeypatch.setattr(common, "CACHE", tmp_path / "cache")
    for name in ("fetch_lock", "stage"):
        monkeypatch.setattr(project_run, name, lambda *_: None)
    (tmp_path / "cache/asked").mkdir(parents=True)
    monkeypatch.setattr(project_run, "make_environment", lambda *_: tmp_path)
    monkeypatch.setattr(project_run, "host_interpreter", lambda pair: "python")
    monkeypatch.setattr(project_run, "network_library", lambda: tmp_path / "none")
    monkeypatch.setattr(project_run.children, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, said + "\n"))
    loaded = project("")
    with pytest.raises(common.Failure, match="the build backend does not say what it requires"):
        project_run.ask_backend(loaded, loaded.pairs[0], "host", {})


@pytest.mark.parametrize(("variant", "homes"), [("cuda", ["/opt/cuda12"]), ("cpu", [])])
def test_setup_py_is_asked_where_cudas_compiler_is(project, monkeypatch, tmp_path, variant, homes):
    """torch's CUDAExtension looks for CUDA_HOME before anything is compiled."""
    found, asked = project('[tool.customops-build]\ncuda = "12"\n'), []
    (pair,) = found.pairs

    def container(engine, image, *command, options=(), **_):
        asked.append((image, command, options))
        return subprocess.CompletedProcess([], 0, '{"requires": [], "dependencies": []}\n')

    (tmp_path / "cache/asked").mkdir(parents=True)
    monkeypatch.setattr(common, "CACHE", tmp_path / "cache")
    for name in ("fetch_lock", "stage", "make_environment"):
        monkeypatch.setattr(project_run, name, lambda *_: None)
    monkeypatch.setattr(project_run.images, "fetch_inputs", lambda *_: None)
    monkeypatch.setattr(project_run.images, "ensure", lambda engine, which, base: {"build": f"image:{which}"})
    monkeypatch.setattr(project_run.children, "run_container", container)
    project_run.ask_backend(found, pair, "docker", lock_project.compilers(found, "docker", variant), variant)
    ((image, (_, _, script, *_), options),) = asked
    assert image == f"image:{variant}"
    assert [o.removeprefix("--env=CUDA_HOME=") for o in options if o.startswith("--env=CUDA_HOME=")] == homes
    env = {"PATH": "/usr/bin:/bin"} | dict.fromkeys(["CUDA_HOME"] * len(homes), "".join(homes))
    path = subprocess.check_output(["sh", "-c", script, "sh", "printenv", "PATH"], env=env, text=True).strip()
    assert path == ":".join(["/environment/bin", *(f"{home}/bin" for home in homes), "/usr/bin:/bin"])


def test_a_lock_that_cannot_be_completed_leaves_the_old_ones(project, monkeypatch):
    """The lock of the build is written before the backend is asked; the one of the tests, after that."""
    found = project('[build-system]\nrequires = ["setuptools"]\n')
    (pair,) = found.pairs
    build, test = found.lock("build", pair), found.lock("test", pair)
    found.locks.mkdir()
    build.write_text("# the old one\n")

    def ask(*_):
        assert "some-thing==1.0" in build.read_text()
        return {"missing": "nobody_knows"}

    monkeypatch.setattr(
        lock_project, "resolve", lambda *_: lock_project.with_hashes(reported(hash=f"sha256={'5' * 64}"))
    )
    monkeypatch.setattr(lock_project.project_run, "ask_backend", ask)
    monkeypatch.setattr(sys, "argv", ["lock_project.py", "--engine=host", f"--project={found.folder}"])
    with pytest.raises(common.Failure, match="the build imports nobody_knows"):
        lock_project.main()
    assert (build.read_text(), test.exists()) == ("# the old one\n", False)


def test_usual_names_bring_what_tests_need(project, monkeypatch, capsys):
    found = project(
        "[project]\nname = 'x'\n[project.optional-dependencies]\ntests = ['psutil']\n"
        "[dependency-groups]\ntest = ['pytest>=8', {include-group = 'more'}]\nmore = ['psutil', {include-group = 'test'}]\n"
    )
    assert lock_project.customary_tests(found, []) == ["pytest>=8", "psutil"]

    def resolve(lines, pair):
        if "psutil" in lines:
            raise common.Failure("no wheel of psutil")
        return lines

    monkeypatch.setattr(lock_project, "resolve", resolve)
    assert lock_project.resolve_tests(["numpy"], ["psutil"], found.pairs[0]) == ["numpy"]
    assert "not taken: no wheel of psutil" in capsys.readouterr().out


def test_our_own_project_is_one_like_any_other(root):
    """No step may know our name except through the project."""
    own = Project(root)
    assert (own.policy, own.table["max-megabytes"]) == ("strict", 40)
    for kind in ("build", "test"):
        assert own.lock(kind, own.pairs[0]).is_file()
    # Our own library in three more ways to compile it; names that are taken.
    ours = ("ways.py", "emulated.py", "cpu_library.py", "sanitize_cpu.py", "new_extension.py")
    for script in [*root.glob("docker/*.py"), *root.glob("docker/image/*")]:
        if script.is_file() and script.name not in ours:
            # The images and the folder in them are the factory's own.
            text = re.sub(r"customops-(base|build|\{)|/opt/customops", "", script.read_text())
            assert '"customops' not in text, script
            assert "customops-*" not in text, script
            assert "import customops" not in text, script


def test_help_shows_the_table(root):
    sample = root / "tests/projects/pybind11-aten"
    run = subprocess.run(
        [sys.executable, root / "docker/image/project.py", sample], capture_output=True, text=True, check=True
    )
    for key in projects.KEYS:
        assert f"\n  {key} = " in run.stdout


def test_cibuildwheels_settings_hold(root, tmp_path):
    tools = common.virtual_environment("tools")
    (tmp_path / "pyproject.toml").write_text("""
[tool.cibuildwheel]
enable = ["cpython-freethreading"]  # of an earlier cibuildwheel
skip = "cp313-*"
test-command = ["one", "two"]
test-requires = "a b"
[[tool.cibuildwheel.overrides]]
select = "cp312-*"
test-command = "other"
""")

    def settings(code):
        script = f"import sys; sys.path.insert(0, {str(root / 'docker/image')!r}); import settings, pathlib; {code}"
        return subprocess.run([tools / "python", "-c", script], capture_output=True, text=True, check=False)

    run = settings(
        f"print([settings.of_host(pathlib.Path({str(tmp_path)!r}), t)['command'] for t in ('cp311', 'cp312')])"
    )
    assert run.stdout.strip() == "['one && two', 'other']", run.stderr
    run = settings(f"settings.read(pathlib.Path({str(tmp_path)!r}), 'cp313')")
    assert "skip of [tool.cibuildwheel], leaves out cp313-manylinux_x86_64: choose other pythons" in run.stderr


@pytest.mark.parametrize(("table", "built"), [("", False), ('[tool.customops-build]\npythons = ["3.11"]\n', True)])
def test_a_build_selector_yields_to_a_cpython_that_was_asked_for(root, tmp_path, table, built):
    """Limited-API projects select the oldest CPython, which containers need not have."""
    tools = common.virtual_environment("tools")
    (tmp_path / "pyproject.toml").write_text(
        '[tool.cibuildwheel]\nbuild = "cp310-*"\ntest-skip = "cp311-*"\ntest-command = "x"\n'
        f'test-extras = "one,two"\nenvironment-pass = ["SHOWN", "ABSENT"]\nenvironment = {{ A = "1", B = "$PATH" }}\n{table}'
    )
    command = [tools / "python", root / "docker/image/settings.py", tmp_path, "cp311"]
    run = subprocess.run(command, env=os.environ | {"SHOWN": "5"}, capture_output=True, text=True, check=False)
    if not built:
        assert run.stderr.count("\n") == 1
        assert 'it selects cp310-*: say pythons = ["3.11"] in [tool.customops-build] to build that one' in run.stderr
        return
    said = json.loads(run.stdout)
    assert (said["command"], said["extras"], said["passed"]) == ("", ["one", "two"], {"SHOWN": "5"})
    assert said["environment"] == {"A": "1", "SHOWN": "5"}


def test_setuptools_compiles_as_cpython_does_and_a_project_has_the_last_word(root, tmp_path, host_environment):
    """setuptools takes CFLAGS of the environment in place of CPython's own, and ours only map paths."""
    toy = tmp_path / "toy"
    toy.mkdir()
    (toy / "setup.py").write_text(
        "from setuptools import Extension, setup\n"
        "setup(name='toy', ext_modules=[Extension('fast', ['fast.c'], extra_compile_args=['-O1'])])\n"
    )
    (toy / "fast.c").write_text(
        '#include <Python.h>\nstatic struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "fast"};\n'
        "PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&d); }\n"
    )
    command = ["bash", root / "docker/image/build-wheel.sh", toy, tmp_path / "out"]
    run = subprocess.run(command, env=host_environment(toy, V="1"), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (line,) = [line.split() for line in run.stdout.splitlines() if " -c fast.c" in line]
    assert [word for word in line if word.startswith("-O")] == ["-O3", "-O1"]
    assert {"-DNDEBUG", "-fwrapv"} <= set(line)


@pytest.mark.parametrize(
    ("backend", "optimised"),
    [("setuptools.build_meta", True), ("own_backend", True), ("scikit_build_core.build", False), ("mesonpy", False)],
)
def test_build_backends_with_a_build_type_choose_their_own_level(root, project, tmp_path, backend, optimised):
    project(f'[build-system]\nrequires = []\nbuild-backend = "{backend}"\n')
    code = (
        "import sys, build_project as b, pathlib as p; here = p.Path(sys.argv[1]);"
        "found = b.build_variables(b.Project(here), here, here, p.Path(sys.executable), here / 'log');"
        "print(found['CFLAGS']); print(found['CXXFLAGS'])"
    )
    command = [common.virtual_environment("tools") / "python", "-c", code, tmp_path]
    env = os.environ | {"PYTHONPATH": str(root / "docker/image"), "CFLAGS": "-O1", "CXXFLAGS": "-O1"}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    level = "-DNDEBUG -fwrapv -O3 -O1 " if optimised else "-O1 "
    assert [line.partition("-ffile-prefix-map")[0] for line in said] == [level, level]
