"""What is in a wheel, ours or not, and where it works: `make report WHEEL=...`. docker/report/ is the program.

python docker/wheel_report.py some.whl --require "torch>=2.10 glibc<=2.28 sm_90"
"""

import subprocess
import sys

from common import ROOT, environment, given_wheel, main_guard, virtual_environment


def main() -> None:
    wheel = given_wheel("".join(sys.argv[1:2]), "report")
    tools = virtual_environment("report")
    env = environment(tools, PYTHONPATH=str(ROOT / "docker/report"), PYTHONDONTWRITEBYTECODE="1")
    sys.exit(
        subprocess.run([tools / "python", "-m", "wheel_report", wheel, *sys.argv[2:]], env=env, check=False).returncode
    )


if __name__ == "__main__":
    main_guard(main, alone=False)
