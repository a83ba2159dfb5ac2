"""Every op's benchmark, then the plots: `make bench`, or python benchmarks [--device=cpu] [--output=FOLDER]"""

import importlib.util
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {"__main__", "counters", "elementwise", "harness", "layers", "load", "models", "overhead", "plot"}
HELPERS |= {"sweep", "sweep_cases", "sweep_timing"}


NEEDED = ("torch", "customops")


def main() -> None:
    if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        sys.exit(
            f"error: {sys.executable} has no {' and no '.join(lacking)}: pip install torch dist/*.whl into a virtual environment, "
            "then make bench PYTHON=path/to/its/python"
        )
    for script in sorted(path for path in HERE.glob("*.py") if path.stem not in HELPERS):
        if subprocess.run([sys.executable, script, *sys.argv[1:]], check=False).returncode:
            sys.exit(f"error: {script.name} failed, see above")
    # The scripts share their options; the plots need only the folder.
    output = [argument for argument in sys.argv[1:] if argument.startswith("--output=")]
    subprocess.run([sys.executable, HERE / "plot.py", *output], check=False)


if __name__ == "__main__":
    main()
