"""``python -m customops``: what is installed, how it was built, what it found on this machine.

``python -m customops explain depthwise_conv2d ...``: which kernels it chooses for a problem, and why; --help lists the options of both.
"""

import argparse
import json
import sys

import customops
from customops import _explain, _report


def main() -> None:
    before, explain, after = sys.argv[1:], False, []
    if "explain" in before:
        place = before.index("explain")
        before, explain, after = before[:place], True, before[place + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m customops",
        description="Shows what is installed, how it was built, and what it finds on this machine.",
        epilog="python -m customops explain depthwise_conv2d ...: which kernels it chooses for a problem, and why; explain --help says more",
    )
    parser.add_argument("--version", action="version", version=f"customops {customops.__version__}")
    parser.add_argument("--json", action="store_true", help="the same for programs")
    parser.add_argument("--compile", action="store_true", help="compile just in time where no library is prebuilt")
    args = parser.parse_args(before)
    if explain:
        if not {"-h", "--help"} & set(after):
            try:
                _report.open_library(args.compile)
            except (ImportError, RuntimeError, ValueError) as error:
                sys.exit(f"error: {error}")
        _explain.main(after)
        return
    facts = _report.collect(args.compile)
    print(json.dumps(facts, indent=1, sort_keys=True) if args.json else "\n".join(_report.lines(facts)))


if __name__ == "__main__":
    main()
