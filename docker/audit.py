"""Scans what is inside a wheel, by its SBOM, for known vulnerabilities: `make audit [WHEEL=...]`.

pip-audit asks the package index for Python packages. Prints a line for each component: `no known vulnerability`, the
vulnerabilities, which are an error, or `not scanned` and why. Debian packages are not scanned: pip-audit has no database of them;
the SBOM names them by package URL, for a scanner that has one.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from common import DIST, Failure, environment, main_guard, read_wheel, virtual_environment
from strict import Refused, json_object, one_line

SECONDS = 300


def components(path: Path) -> list[dict]:
    """The components that the SBOMs of a wheel name."""
    wheel = read_wheel(path)
    found = []
    for name in wheel.names:
        if name.startswith(f"{wheel.info}/sboms/"):
            try:
                listed = json_object(wheel.read(name), name).get("components", [])
            except Refused as error:
                raise Failure(f"{path.name}: {error}") from error
            texts = [c.get(key) for c in listed if isinstance(c, dict) for key in ("name", "version", "purl")]
            if len(texts) != 3 * len(listed) or not all(isinstance(text, str) for text in texts):
                raise Failure(f"{path.name}: {name} has a component without name, version and package URL")
            found += listed
    if not found:
        raise Failure(f"{path.name} has no SBOM with components: `make wheel` did not make it")
    return found


def ask(pins: list[str]) -> dict[str, str]:
    """pin -> verdict of pip-audit."""
    if not pins:
        return {}
    tool = virtual_environment("audit") / "pip-audit"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{pin}\n" for pin in pins))
        file.flush()
        command = [
            tool,
            "--disable-pip",
            "--no-deps",
            "--format=json",
            "--progress-spinner=off",
            "--requirement",
            file.name,
        ]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, env=environment(), check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return dict.fromkeys(pins, f"not scanned: no answer of the database within {SECONDS} s")
    return verdicts(pins, run.stdout)


def verdicts(pins: list[str], output: str) -> dict[str, str]:
    try:
        answers = {f"{a['name']}=={a.get('version', '')}": a for a in json.loads(output)["dependencies"]}
        skipped = {a["name"]: a["skip_reason"] for a in answers.values() if "skip_reason" in a}
    except (ValueError, KeyError, TypeError):
        return dict.fromkeys(pins, "not scanned: no database could be reached")
    found = {}
    for pin in pins:
        answer, name = answers.get(pin), pin.partition("==")[0]
        if answer is None or "vulns" not in answer:
            found[pin] = f"not scanned: {one_line(skipped.get(name, 'the database does not know it'))}"
        elif answer["vulns"]:
            found[pin] = "VULNERABLE: " + ", ".join(one_line(entry["id"], 40) for entry in answer["vulns"])
        else:
            found[pin] = "no known vulnerability"
    return found


def audit(path: Path) -> None:
    listed = components(path)
    # The database knows no local labels, such as +cpu.
    pins = {
        c["purl"]: f"{c['name']}=={c['version'].partition('+')[0]}" for c in listed if c["purl"].startswith("pkg:pypi/")
    }
    answers = ask(sorted(set(pins.values())))
    lines = {
        f"{c['name']} {c['version']}": answers.get(
            pins.get(c["purl"]), "not scanned: no database for this kind of package"
        )
        for c in listed
    }
    for name, verdict in lines.items():
        print(f"{one_line(name)}: {verdict}", flush=True)
    vulnerable = [name for name, verdict in lines.items() if verdict.startswith("VULNERABLE")]
    missed = sum(verdict.startswith("not scanned") for verdict in lines.values())
    if vulnerable:
        raise Failure(
            f"{path.name} holds {one_line(', '.join(vulnerable))}, see above: update the pin, `make lock`, rebuild"
        )
    print(f"{path.name}: {len(lines) - missed} of {len(lines)} components scanned, without a finding", flush=True)
    if missed:
        print(f"{path.name}: {missed} components were NOT scanned, see above", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?")
    wheel = parser.parse_args().wheel
    wheels = [wheel] if wheel else sorted(DIST.glob("*.whl"))
    if not wheels or not all(path.is_file() for path in wheels):
        raise Failure("there is no wheel to scan: make wheel, or make audit WHEEL=path/to/....whl")
    for path in wheels:
        audit(path)


if __name__ == "__main__":
    main_guard(main)
