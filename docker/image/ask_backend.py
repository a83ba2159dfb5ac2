"""Asks a project's build backend what it requires: ask_backend.py SOURCE. Prints one line of JSON, the last one on stdout.

Run by the Python of an environment that holds the static requirements. {"missing": module} if the backend, or setup.py, imports
what is not there.
"""

import json
import os
import re
import sys
import tempfile
from email.parser import BytesParser
from pathlib import Path

import tomllib


def main() -> None:
    from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller, quiet_subprocess_runner

    source = Path(sys.argv[1]).resolve()
    file = source / "pyproject.toml"
    pyproject = tomllib.loads(file.read_text()) if file.exists() else {}
    system = pyproject.get("build-system", {})
    backend = system.get("build-backend", "setuptools.build_meta:__legacy__")
    hooks = BuildBackendHookCaller(source, backend, system.get("backend-path"), quiet_subprocess_runner)
    if pyproject.get("tool", {}).get("customops-build", {}).get("aten") == "stable" and "CUDA_HOME" in os.environ:
        import stable_cuda

        hook = tempfile.TemporaryDirectory()  # until this process ends
        os.environ["PYTHONPATH"] = stable_cuda.python_path(Path(hook.name), os.environ["PYTHONPATH"])
    answer = {}
    try:
        answer["requires"] = hooks.get_requires_for_build_wheel()
        project = pyproject.get("project", {})
        if "name" in project and "dependencies" not in project.get("dynamic", ()):
            answer["dependencies"] = project.get("dependencies", [])
        elif not answer["requires"] or all("[" not in line for line in answer["requires"]):
            with tempfile.TemporaryDirectory() as folder:
                info = hooks.prepare_metadata_for_build_wheel(folder, _allow_fallback=False)
                metadata = BytesParser().parsebytes(Path(folder, info, "METADATA").read_bytes(), headersonly=True)
                lines = metadata.get_all("Requires-Dist") or []
                answer["dependencies"] = [line for line in lines if not re.search(r"\bextra\s*==", line)]
                answer["optional"] = [line for line in lines if re.search(r"\bextra\s*==", line)]
    except BackendUnavailable as error:
        answer["missing"] = backend.partition(".")[0]
        answer["said"] = str(error)
    except Exception as error:  # whatever the project's own code raises
        said = getattr(error, "output", b"") or str(error).encode()
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        if found := re.search(r"No module named '([\w]+)", said):
            answer["missing"] = found[1]
        answer["said"] = said[-2000:]
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
