"""A project's own git configuration names programs; no step of ours runs them."""

import os
import shutil
import subprocess
import sys

import common
import pytest
import staging
import trust


@pytest.fixture
def project(tmp_path):
    """A checkout of one commit whose configuration, hooks and attributes all start a script that leaves a file `ran`."""
    folder = tmp_path / "project"
    folder.mkdir()
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    script.chmod(0o755)

    def git(*arguments):
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)

    git("init", "--quiet")
    (folder / "pyproject.toml").write_text("[project]\n")
    (folder / "a file").write_text("text\n")
    (folder / ".gitignore").write_text("ignored\n")
    (folder / "ignored").write_text("ignored\n")
    git("add", ".")
    git("commit", "--quiet", "--message=first")
    (folder / ".git/config").open("a").write(
        f"""
[core]
  fsmonitor = {script}
  hooksPath = {tmp_path}
  pager = {script}
  sshCommand = {script}
  alternateRefsCommand = {script}
[include]
  path = {tmp_path}/more
[filter "x"]
  clean = {script}
  smudge = {script}
[diff]
  external = {script}
[log]
  showSignature = true
[gpg]
  program = {script}
[extensions]
  partialClone = far
[remote "far"]
  promisor = true
  url = ext::{script}
[protocol "ext"]
  allow = always
"""
    )
    (tmp_path / "more").write_text(f"[core]\n  fsmonitor = {script}\n")
    (folder / ".git/info/attributes").write_text("* filter=x diff=x\n")
    os.utime(folder / "a file", (1, 1))  # so that git has to look into it
    return folder


def test_git_itself_would_run_it(project, tmp_path):
    subprocess.run(["git", "-C", project, "ls-files", "--others"], check=True, capture_output=True)
    assert (tmp_path / "ran").exists()


def test_staging_and_facts_run_nothing(project, tmp_path):
    import staging

    staged = staging.stage(project, tmp_path / "staged")
    assert not (tmp_path / "ran").exists()
    assert sorted(staged.hashes) == [".gitignore", "a file", "pyproject.toml"]
    assert staged.facts["SOURCE_DIRTY"] == "0"
    assert len(staged.facts["SOURCE_COMMIT"]) == 40
    (project / "a file").write_text("changed\n")
    assert staging.stage(project, tmp_path / "staged").facts["SOURCE_DIRTY"] == "1"


def test_reproduce_runs_nothing(root, project, tmp_path):
    """Ends at the first build, for lack of an engine; by then the source was staged."""
    (tmp_path / "bin").mkdir()
    for name in ("bash", "git", "tar", "env"):
        (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    env = os.environ | {"CUSTOMOPS_CACHE": str(tmp_path / "cache"), "CXX": "/nowhere/c++"}
    command = [sys.executable, root / "docker/reproduce.py", "--engine=host", "--project", project]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "/nowhere/c++ is not on the PATH" in run.stderr
    assert (tmp_path / "cache/reproduce/staged/a file").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",),
        ("log", "-1", "--format=%H"),
        ("cat-file", "-e", "1" * 40),  # a missing object of a partial clone is fetched
        ("diff", "HEAD"),
        ("for-each-ref", "--contains=HEAD"),
        ("checkout", "--force", "HEAD", "--", "."),
    ],
)
def test_no_command_runs_anything(project, tmp_path, arguments):
    (project / "a file").write_text("changed\n")
    common.git(project, *arguments)
    assert not (tmp_path / "ran").exists()


def test_variables_of_the_caller_do_not_lead_elsewhere(project, tmp_path, monkeypatch):
    """As in a hook of another repository."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(tmp_path / "script"))
    assert common.git(project, "ls-files").stdout.split("\n") == [".gitignore", "a file", "pyproject.toml", ""]
    assert not (tmp_path / "ran").exists()


def test_a_worktree_and_a_sha256_repository(tmp_path):
    main = tmp_path / "main"
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", "init", "--quiet", "--object-format=sha256", main], check=True)
    subprocess.run(["git", "-C", main, *identity, "commit", "--quiet", "--allow-empty", "--message=x"], check=True)
    subprocess.run(["git", "-C", main, "worktree", "add", "--quiet", "-b", "other", tmp_path / "other"], check=True)
    for folder in (main, tmp_path / "other"):
        found = common.git(folder, "rev-parse", "HEAD")
        assert len(found.stdout.strip()) == 64, found.stderr
    assert common.git(tmp_path / "other", "rev-parse", "--abbrev-ref", "HEAD").stdout == "other\n"


def test_a_folder_inside_a_repository_is_not_its_top(project):
    (project / "below").mkdir()
    run = common.git(project / "below", "rev-parse", "HEAD")
    assert (run.returncode, run.stderr) == (128, f"error: {project}/below is not the top of a git checkout\n")


def test_a_folder_without_history_is_told_so(project, tmp_path):
    assert trust.no_history(project) == ""
    (project / "below").mkdir(exist_ok=True)
    assert f"is a folder of the repository {project}" in trust.no_history(project / "below")
    (tmp_path / "unpacked").mkdir()
    assert trust.no_history(tmp_path / "unpacked").startswith("no git history here: the wheel names no commit")


def version_of(folder):
    """As setuptools-scm asks; None if git knows no version there."""
    command = ["git", "-C", folder, "describe", "--dirty", "--tags", "--long", "--match", "*[0-9]*"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return run.stdout.strip() if run.returncode == 0 else None


@pytest.mark.parametrize("shallow", [False, True])
def test_a_version_from_git_is_the_same_in_the_staged_copy(root, tmp_path, shallow):
    origin = tmp_path / "origin"

    def git(*arguments, folder=origin):
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)

    origin.mkdir()
    git("init", "--quiet")
    (origin / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools", "setuptools_scm[toml]"]\n')
    for message, tag in (("first", "v1.2"), ("second", ""), ("third", "")):
        (origin / "file").write_text(message)
        git("add", ".")
        git("commit", "--quiet", f"--message={message}")
        if tag:
            git("tag", "--annotate", "--message=release", tag)
    git("branch", "other", "HEAD~2")
    checkout = tmp_path / "checkout"
    subprocess.run(
        ["git", "clone", "--quiet", *(["--depth=3"] if shallow else []), f"file://{origin}", checkout], check=True
    )
    (checkout / ".git/hooks").mkdir(exist_ok=True)
    (checkout / ".git/hooks/post-checkout").write_text("#!/bin/sh\n")
    staged = staging.stage(checkout, tmp_path / "staged")
    assert version_of(tmp_path / "staged") == version_of(checkout)
    assert version_of(checkout).startswith("v1.2-2-g")
    assert staged.facts["SOURCE_DIRTY"] == "0"
    assert not [name for name in staged.hashes if ".git/" in name]
    assert not list((tmp_path / "staged/.git").glob("hooks/*"))
    assert "origin" not in (tmp_path / "staged/.git/config").read_text()
    shutil.copytree(tmp_path / "staged", tmp_path / "again")  # plain docker run stages the staged copy
    staging.stage(tmp_path / "again", tmp_path / "twice")
    assert version_of(tmp_path / "twice") == version_of(checkout)
    (checkout / "file").write_text("changed")
    assert staging.stage(checkout, tmp_path / "dirty").facts["SOURCE_DIRTY"] == "1"
    assert version_of(tmp_path / "dirty") == f"{version_of(tmp_path / 'staged')}-dirty"


def test_other_projects_get_no_repository(root, project, tmp_path):
    staging.stage(project, tmp_path / "staged")
    assert not (tmp_path / "staged/.git").exists()


@pytest.mark.parametrize("is_distribution", [True, False])
def test_a_source_distribution_keeps_its_list_of_data_files(tmp_path, is_distribution):
    """setuptools reads SOURCES.txt there; in a working folder it is the output of an earlier build."""
    project = tmp_path / "project"
    (project / "x.egg-info").mkdir(parents=True)
    (project / "x.egg-info/SOURCES.txt").write_text("x/data.csv\n")
    (project / "setup.py").write_text("")
    if is_distribution:
        (project / "PKG-INFO").write_text("Name: x\n")
    staging.stage(project, tmp_path / "staged")
    assert (tmp_path / "staged/x.egg-info/SOURCES.txt").exists() == is_distribution
