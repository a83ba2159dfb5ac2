"""Chooses what builds the wheel: docker, podman, or the host itself. `python3 docker/engine.py auto` prints the choice."""

import argparse
import shutil
import subprocess

import native
from common import Failure, main_guard

ENGINES = ("auto", "docker", "podman", "host")


def why_not(engine: str) -> str | None:
    """None if the engine answers, otherwise the reason in a few words."""
    if shutil.which(engine) is None:
        return f"{engine} is not installed"
    # `docker info` may exit with 0 when only the client answered; the server's version comes from the server.
    question = ["version", "--format", "{{.Server.Version}}"] if engine == "docker" else ["info"]
    try:
        run = subprocess.run([engine, *question], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return f"{engine} does not answer within a minute"
    if run.returncode:
        if engine == "podman":
            return f"podman is installed but `podman info` fails: {(run.stderr.strip().splitlines() or ['?'])[-1]}"
        if "permission denied" in run.stderr.lower():
            return f"this user may not use {engine}: add it to the group docker, or run as root"
        return f"{engine} is installed but its daemon does not answer: start it (systemctl start docker, or dockerd)"
    return None


def choose(requested: str) -> tuple[str, str]:
    """(engine, reason). `auto` takes docker, then podman, then the host; a named engine that does not work is an error."""
    if requested not in ENGINES:
        raise Failure(f"ENGINE must be one of {', '.join(ENGINES)}, got {requested!r}")
    native.check_engine(requested)
    if requested == "host":
        return "host", "asked for"
    if native.is_arm():
        return "host", f"this machine is {native.ARM}"
    reasons = []
    for engine in ("docker", "podman") if requested == "auto" else (requested,):
        reason = why_not(engine)
        if reason is None:
            return engine, "asked for" if requested != "auto" else "; ".join([*reasons, f"{engine} answers"])
        reasons.append(reason)
    if requested != "auto":
        raise Failure(f"ENGINE={requested}: {reasons[0]}; or use ENGINE=host")
    return "host", "; ".join(reasons)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", nargs="?", default="auto", help=f"one of {', '.join(ENGINES)}")
    engine, reason = choose(parser.parse_args().engine)
    print(f"{engine}: {reason}")


if __name__ == "__main__":
    main_guard(main, alone=False)
