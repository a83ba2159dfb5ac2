"""Builds the build and test image of a variant if they are missing: `make image`. The builds use no network."""

import argparse
import hashlib
import shutil
import subprocess
from pathlib import Path

import engine as engines
import fetch
import rootfs
from common import CACHE, IMAGE_SCRIPTS, LOCKS, ROOT, Failure, main_guard, sha256_of

BASES = ("debian", "manylinux")
VARIANTS = ("cpu", "cuda")
CUDA_SETS = ("cuda12", "cuda13", "cudart12")  # requirements-*.txt that docker/image/install-cuda.sh reads
# manylinux_2_28_x86_64:2026.10.26-1, PyPA's own image; the digest is the pin.
MANYLINUX = "quay.io/pypa/manylinux_2_28_x86_64@sha256:e0adf18521ad35192df733a6c62d35df7801957d24e0470238aacecfab2188a3"
TARGETS = ("build", "test")
GIGABYTES_NEEDED = 6


def check_choices(variant: str, base: str) -> None:
    """Refuses a wrong VARIANT or BASE before anything is downloaded."""
    if variant not in VARIANTS:
        raise Failure(f"VARIANT must be one of {', '.join(VARIANTS)}, got {variant!r}")
    if base not in BASES:
        raise Failure(f"BASE must be one of {', '.join(BASES)}, got {base!r}")
    if (variant, base) == ("cuda", "manylinux"):
        raise Failure(
            "VARIANT=cuda needs BASE=debian: nvcc 12.4 supports GCC up to 13, and manylinux_2_28 has a newer one"
        )


def dockerfile(variant: str) -> Path:
    return ROOT / f"Dockerfile.{variant}"


def image_name(target: str, variant: str) -> str:
    return f"customops-{target}:{variant}"


def inspect(engine: str, image: str, template: str) -> str | None:
    run = subprocess.run(
        [engine, "image", "inspect", "--format", template, image], capture_output=True, text=True, check=False
    )
    return run.stdout.strip() if run.returncode == 0 else None


def inputs_digest(base: str, *files: Path) -> str:
    digest = hashlib.sha256(base.encode())
    for path in files:
        digest.update(f"\n{path.name} {sha256_of(path)}".encode())
    return digest.hexdigest()


def debian_base(engine: str, target: str) -> str:
    """Name of the image of docker/locks/debian-<target>.lock; assembles and imports it if it is missing."""
    lock = LOCKS / f"debian-{target}.lock"
    image = f"customops-base:{target}-{inputs_digest('debian', lock, Path(rootfs.__file__))[:12]}"
    if inspect(engine, image, "{{.Id}}") is None:
        tar = CACHE / f"rootfs-{target}.tar"
        rootfs.assemble(lock, CACHE / "debian", tar)
        subprocess.run([engine, "import", tar, image], check=True, stdout=subprocess.DEVNULL)
        tar.unlink()
    return image


def manylinux_base(engine: str) -> str:
    if inspect(engine, MANYLINUX, "{{.Id}}") is None and subprocess.run([engine, "pull", MANYLINUX]).returncode:
        raise Failure(f"BASE=manylinux: {MANYLINUX} cannot be pulled from here; BASE=debian needs no registry")
    return MANYLINUX


def check_disk(engine: str) -> None:
    """Fails early, in one line: a full disk during an image build gives a long error."""
    template = "{{.DockerRootDir}}" if engine == "docker" else "{{.Store.GraphRoot}}"
    root = subprocess.run([engine, "info", "--format", template], capture_output=True, text=True, check=False)
    path = Path(root.stdout.strip() or "/")
    if path.exists() and (free := shutil.disk_usage(path).free / 1e9) < GIGABYTES_NEEDED:
        raise Failure(f"the images need about {GIGABYTES_NEEDED} GB, {path} has {free:.1f} GB left: free some space")


def fetch_inputs(variant: str) -> None:
    cuda = variant == "cuda"
    fetch.fetch_debian_set("build", "test", "source", *(("cuda",) if cuda else ()))
    fetch.fetch_set("build", "test", *(CUDA_SETS if cuda else ()))


def digest_names(variant: str, base: str) -> dict[str, str]:
    """Names of the build and test image of this working tree.

    A name ends in a digest of the image's inputs, so that two checkouts with one engine never use each other's images.
    """
    # What the Dockerfiles copy, and what makes the base images.
    copied = [*IMAGE_SCRIPTS.glob("*.sh"), *IMAGE_SCRIPTS.glob("*.py"), *LOCKS.glob("*.lock"), Path(rootfs.__file__)]
    sets = (*TARGETS, "host") if variant == "cpu" else (*TARGETS, "host", *CUDA_SETS)
    copied += [LOCKS / f"requirements-{name}.txt" for name in sets]
    if variant == "cuda":
        copied.append(dockerfile("cpu"))
    digest = inputs_digest(MANYLINUX if base == "manylinux" else base, dockerfile(variant), *sorted(copied))
    return {target: f"{image_name(target, variant)}-{digest[:12]}" for target in TARGETS}


def ensure(engine: str, variant: str, base: str) -> dict[str, str]:
    """Builds the missing images of `digest_names`, from inputs that must have been fetched; returns the names.

    Also tags the images customops-build:<variant> and customops-test:<variant>, for use by hand.
    """
    names = digest_names(variant, base)
    missing = [target for target in TARGETS if inspect(engine, names[target], "{{.Id}}") is None]
    if missing:
        check_disk(engine)
        below = bases(engine, base) if variant == "cpu" else below_cuda(engine, base)
        build(engine, dockerfile(variant), below, {target: names[target] for target in missing})
    for target, name in names.items():
        subprocess.run([engine, "tag", name, image_name(target, variant)], check=True)
        print(f"{name}: {'built' if target in missing else 'up to date'}", flush=True)
    return names


def bases(engine: str, base: str) -> dict[str, str]:
    """Build arguments of Dockerfile.cpu."""
    if base == "debian":
        return {f"{target.upper()}_BASE": debian_base(engine, target) for target in TARGETS}
    image = manylinux_base(engine)
    return {"BASE": MANYLINUX, "BUILD_BASE": image, "TEST_BASE": image, "GCC_VERSION": "any", "PYTHON_VERSION": "any"}


def below_cuda(engine: str, base: str) -> dict[str, str]:
    """Build arguments of Dockerfile.cuda: the CPU images that it starts from."""
    return {f"{target.upper()}_IMAGE": name for target, name in ensure(engine, "cpu", base).items()}


def build(engine: str, file: Path, arguments: dict[str, str], names: dict[str, str]) -> None:
    for target, name in names.items():
        print(f"building {name}", flush=True)
        subprocess.run(
            [engine, "build", "--network=none", f"--file={file}", f"--target={target}",
             *(f"--build-arg={key}={value}" for key, value in arguments.items()), f"--tag={name}", ROOT],
            check=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--base", default="debian")
    parser.add_argument("--shell", action="store_true", help="then open a shell in the build image")
    args = parser.parse_args()
    check_choices(args.variant, args.base)
    engine, _ = engines.choose(args.engine)
    if engine == "host":
        raise Failure("images need docker or podman: ENGINE=host has none")
    fetch_inputs(args.variant)
    ensure(engine, args.variant, args.base)
    if args.shell:
        mounts = (f"--volume={ROOT}:/project", "--workdir=/project")
        subprocess.run(
            [engine, "run", "--rm", "-it", "--network=none", *mounts, image_name("build", args.variant), "bash"],
            check=False,
        )


if __name__ == "__main__":
    main_guard(main)
