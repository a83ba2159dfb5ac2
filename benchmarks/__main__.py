"""Every op's benchmark: `make bench`, or python benchmarks [--device=cpu] [--output=FOLDER]. `make figures` draws them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NEEDED = ("torch", "customops")


def main() -> None:
    if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        sys.exit(
            f"error: {sys.executable} has no {' and no '.join(lacking)}: pip install torch dist/*.whl into a virtual environment, "
            "then make bench PYTHON=path/to/its/python"
        )
    from customops import OPS

    for op in OPS:
        if subprocess.run([sys.executable, HERE / f"{op}.py", *sys.argv[1:]], check=False).returncode:
            sys.exit(f"error: {op}.py failed, see above")
    print("`make figures` brings tables and plots of README.md and docs/ up to date")


if __name__ == "__main__":
    main()
