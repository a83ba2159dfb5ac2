"""The wheel's tag, and the beginning of its build record; setup.py uses it."""

import json
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel


class Wheel(bdist_wheel):
    """Tags the wheel py3-none: the libraries have no Python symbol, torch.ops.load_library opens them."""

    record: dict = {}  # noqa: RUF012
    hidden_paths: dict[str, str] = {}  # noqa: RUF012

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]

    def egg2dist(self, egginfo_path, distinfo_path):
        """Begins the build record with what setup.py knows; docker/record.py completes it."""
        super().egg2dist(egginfo_path, distinfo_path)
        text = json.dumps(self.record, indent=1)
        for path, name in self.hidden_paths.items():
            text = text.replace(path, name)
        Path(distinfo_path, "build.json").write_text(text + "\n")
