"""Fuzzes what reads files of others, guided by coverage (atheris): `make fuzz [SECONDS=60] [TARGET=...]`, two at a time.

Targets: wheel, elf, fatbin, deb, lock, index (tests/fuzz/targets.py). Prints the executions of each. A finding is an error, and
is added to tests/fuzz/corpus, which tests/pipeline/test_fuzz.py runs as ordinary tests: commit it with the fix.
"""

import argparse
import concurrent.futures
import re
import subprocess
from pathlib import Path

from common import CACHE, ROOT, Failure, environment, main_guard, virtual_environment

TARGETS = ("wheel", "elf", "fatbin", "deb", "lock", "index")


def fuzz(tools: Path, target: str, seconds: int) -> tuple[str, bool]:
    """(a line of the report, whether nothing was found)."""
    folder = CACHE / "fuzz" / target
    folder.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    command = [
        tools / "python",
        ROOT / "tests/fuzz/run.py",
        target,
        folder,
        f"-max_total_time={seconds}",
        "-max_len=16384",
    ]
    with log.open("w") as out:
        run = subprocess.run(
            [*command, "-print_final_stats=1"], stdout=out, stderr=subprocess.STDOUT, env=environment(), check=False
        )
    text = log.read_text(errors="replace")
    executed = re.findall(r"^stat::number_of_executed_units: +(\d+)|^Done (\d+) runs", text, re.MULTILINE)
    covered = re.findall(r"cov: (\d+)", text)
    count = max((int(a or b) for a, b in executed), default=0)
    if run.returncode or not count:
        said = re.findall(r"^(?:ERROR|SUMMARY|Traceback|\w*Error).*", text, re.MULTILINE)
        return f"{target}: a finding after {count} executions: {said[0] if said else 'see the log'}; {log}", False
    return f"{target}: {count} executions in {seconds} s, {covered[-1] if covered else '?'} branches, 0 findings", True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--target", default="", help="one of them; all by default")
    args = parser.parse_args()
    if args.target and args.target not in TARGETS:
        raise Failure(f"TARGET={args.target} is none of {', '.join(TARGETS)}")
    tools = virtual_environment("fuzz")
    wanted = [args.target] if args.target else TARGETS
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(fuzz, tools, target, args.seconds) for target in wanted]
        found = []
        for run in concurrent.futures.as_completed(runs):
            line, clean = run.result()
            print(line, flush=True)
            found += [] if clean else [line.partition(":")[0]]
    if found:
        raise Failure(f"{', '.join(found)}: see above; the input is in tests/fuzz/corpus, `make test` runs it again")


if __name__ == "__main__":
    main_guard(main)
