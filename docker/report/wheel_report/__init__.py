"""What a wheel holds, where it works, and what in it decides that."""

import sys
from pathlib import Path

# The readers of archives, ELF and device code are docker/image/'s, which checks our own wheels with them: in the
# repository they lie there; setup.py copies them into `image` beside this file. They name one another without a package.
_HERE = Path(__file__).resolve().parent
sys.path.append(str(next(p for p in (_HERE / "image", _HERE.parents[1] / "image") if p.is_dir())))
