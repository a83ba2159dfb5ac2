"""The wheel's tag, and the beginning of its build record; setup.py uses it."""

import json
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel


def command(record: dict, hidden_paths: dict[str, str]) -> type[bdist_wheel]:
    """A bdist_wheel that tags the wheel py3-none: its libraries have no Python symbol, torch.ops.load_library opens them.

    Args:
        record: what setup.py knows of the build; docker/record.py completes it.
        hidden_paths: paths of this machine, and what stands for them in the record.
    """

    class Wheel(bdist_wheel):
        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

        def egg2dist(self, egginfo_path, distinfo_path):
            super().egg2dist(egginfo_path, distinfo_path)
            text = json.dumps(record, indent=1)
            for path, name in hidden_paths.items():
                text = text.replace(path, name)
            Path(distinfo_path, "build.json").write_text(text + "\n")

    return Wheel
