"""Says what is in a wheel, where it works and what decides that; runs and extracts nothing of it.

Exit status: 0; 1 if --require or --against is not met; 2 if the file cannot be read.
"""

import argparse
import json
import sys
from pathlib import Path

import strict

from . import environment, report, require, table, wheel


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="wheel-report", description=__doc__.splitlines()[0], epilog=require.__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--require", metavar="TERMS", default="", help='such as "torch>=2.10 glibc<=2.28 sm_90"')
    parser.add_argument(
        "--against", metavar="PYTHON", help="an interpreter of this machine: does the wheel load there?"
    )
    given = parser.parse_args(arguments)
    try:
        opened = wheel.read(given.wheel)
        found = report.build(opened)
        failures = require.missed(found, given.require)
        if given.against:
            there = environment.read(given.against)
            reasons = environment.verdict(opened, there)
            found["against"] = {"environment": str(there), "works": not reasons, "why": reasons}
            failures += [f"{there}: {reason}" for reason in reasons]
    except strict.Refused as refused:
        print(f"error: {given.wheel.name}: {strict.one_line(refused, 400)}", file=sys.stderr)
        return 2
    except (OSError, require.Unclear) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.require:
        found["requirement"] = {"terms": given.require, "met": not failures, "missed": failures}
    print(json.dumps(found, indent=1) if given.json else table.render(found))
    if given.against and not given.json and found["against"]["works"]:
        print(f"\nWorks on {found['against']['environment']}.")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
