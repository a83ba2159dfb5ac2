"""Which engine builds, and what is said when none can."""

import common
import engine
import pytest

ANSWERS = "#!/bin/sh\nexit 0\n"
NO_DAEMON = "#!/bin/sh\necho 'ERROR: Cannot connect to the daemon' >&2\nexit 1\n"
FORBIDDEN = "#!/bin/sh\necho 'permission denied while trying to connect' >&2\nexit 1\n"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """install(docker=SCRIPT, ...) makes these the only programs on the PATH, beside the shell."""
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))

    def install(**programs):
        for name, script in programs.items():
            (tmp_path / name).write_text(script)
            (tmp_path / name).chmod(0o755)

    return install


@pytest.mark.parametrize(
    ("programs", "expected"),
    [
        ({"docker": ANSWERS, "podman": ANSWERS}, "docker"),
        ({"docker": NO_DAEMON, "podman": ANSWERS}, "podman"),
        ({"podman": ANSWERS}, "podman"),
        ({"docker": NO_DAEMON}, "host"),
        ({}, "host"),
    ],
)
def test_auto(install, programs, expected):
    install(**programs)
    assert engine.choose("auto")[0] == expected


def test_auto_says_why(install):
    install(docker=NO_DAEMON)
    assert engine.choose("auto")[1] == (
        "docker is installed but its daemon does not answer: start it (systemctl start docker, or dockerd); "
        "podman is not installed"
    )


@pytest.mark.parametrize(
    ("requested", "programs", "message"),
    [
        ("docker", {}, "docker is not installed; or use ENGINE=host"),
        ("docker", {"docker": NO_DAEMON}, "daemon does not answer: start it"),
        ("docker", {"docker": FORBIDDEN}, "may not use docker: add it to the group docker"),
        ("podman", {"docker": ANSWERS}, "podman is not installed"),
        ("dokcer", {}, "ENGINE must be one of auto, docker, podman, host, got 'dokcer'"),
    ],
)
def test_a_named_engine_never_falls_back(install, requested, programs, message):
    install(**programs)
    with pytest.raises(common.Failure, match=message):
        engine.choose(requested)


def test_host_is_taken_when_asked_for(install):
    install(docker=ANSWERS)
    assert engine.choose("host")[0] == "host"
