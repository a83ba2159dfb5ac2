"""The wheel's tag, the sources that travel in it, and the beginning of its build record; setup.py uses it."""

import json
from pathlib import Path

import sources
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py


class Sources(build_py):
    """A build_py that puts csrc/ into the package, as customops/csrc; an editable install finds it in the checkout."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for source, target in self.copies().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def copies(self) -> dict[str, str]:
        """Source -> target, in an order that no file system decides."""
        found = [path.as_posix() for path in sources.packaged(Path("csrc"))]
        return {path: f"{self.build_lib}/customops/{path}" for path in found}

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), *self.copies().values()]


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
