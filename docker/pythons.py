"""CPythons beside the image's own, for `make wheel PYTHONS="3.11 3.13"`: built in the build image from a locked release tarball
when a project first asks for one, kept in .cache/pythons, and mounted where the image's own is."""

import shutil

import children
import fetch
import interpreters
from common import CACHE, IMAGE_SCRIPTS, LOCKS, Failure, Locked, read_debian_lock, sha256_of
from image.project import Pair

LOCK = LOCKS / "debian-pythons.lock"


def sources() -> dict[str, Locked]:
    """CPython -> its release tarball: {"3.13": ...}."""
    return {entry.package.removeprefix("python"): entry for entry in read_debian_lock(LOCK)}


def check_all(pairs: list[Pair], engine: str, base: str = "debian") -> None:
    """Refuses a CPython that no step will have, before anything is downloaded or built. PyPA's image has all."""
    for pair in pairs:
        if engine == "host":
            check_host(pair)
        elif base == "debian":
            check(pair)


def check_host(pair: Pair) -> None:
    if pair.python != interpreters.LOCKED and interpreters.find_python(pair.python) is None:
        held = [p for p in (f"3.{minor}" for minor in range(9, 20)) if interpreters.find_python(p)]
        raise Failure(
            f"ENGINE=host: there is no python{pair.python} on the PATH or under pyenv, only {', '.join(held) or 'none'}: choose "
            "PYTHONS of these, or install it"
        )


def check(pair: Pair) -> None:
    """Refuses a CPython that no container can have."""
    held = [interpreters.LOCKED, *sources()]
    if pair.python not in held:
        raise Failure(
            f"containers have CPython {', '.join(held)}, not {pair.python}: choose PYTHONS of these, or use ENGINE=host where "
            f"python{pair.python} is on the PATH or under pyenv"
        )


def mounts(engine: str, image: str, pair: Pair) -> list[str]:
    """Options of a container that lacks this CPython below /opt/python; the build image builds it if the cache does not hold it."""
    place = f"/opt/python/{pair.interpreter}"
    if pair.python == interpreters.LOCKED:
        return []
    if children.run_container(engine, image, "test", "-x", f"{place}/bin/python", check=False).returncode == 0:
        return []  # PyPA's image has all
    check(pair)
    fetch.fetch_debian_set("pythons")
    entry = sources()[pair.python]
    made_from = (entry.sha256, sha256_of(IMAGE_SCRIPTS / "install-python.sh"), sha256_of(LOCKS / "debian-build.lock"))
    folder = CACHE / "pythons" / "-".join([pair.interpreter, *(digest[:8] for digest in made_from)])
    if not folder.exists():
        print(f"building CPython {entry.version}, once; a few minutes", flush=True)
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        tarball = CACHE / "debian" / entry.path.rsplit("/", 1)[1]
        options = (f"--volume={LOCK}:/lock:ro", f"--volume={tarball}:/inputs/{tarball.name}:ro",
                   f"--volume={partial}:{place}")  # fmt: skip
        script = ("bash", "/opt/customops/install-python.sh", "/lock", "/inputs", place)
        children.run_container(engine, image, *script, options=(*options, "--env=PYTHONPATH=", *children.AS_OWNER))
        partial.rename(folder)
    return [f"--volume={folder}:{place}:ro"]
