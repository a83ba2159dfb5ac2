"""Builds the build and test image of a variant if they are missing: `make image`. The builds use no network.

For another machine (ARCH=aarch64) the build image gets a cross compiler: docker/Dockerfile.aarch64.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import children
import engine as engines
import fetch
import native
import rootfs
from common import CACHE, ROOT, Failure, main_guard, sha256_of

BASES = ("debian", "manylinux")
VARIANTS = ("cpu", "cuda")
OWN, ACROSS = native.machine(), native.ARM
MACHINES = (native.X86, native.ARM)
CUDA_SETS = ("cuda12", "cuda13", "cudart12")  # requirements-*.txt that docker/image/install-cuda.sh reads
# manylinux_2_28_x86_64:2026.10.26-1, PyPA's own image; the digest is the pin.
MANYLINUX = "quay.io/pypa/manylinux_2_28_x86_64@sha256:e0adf18521ad35192df733a6c62d35df7801957d24e0470238aacecfab2188a3"
TARGETS = ("build", "test")
GIGABYTES_NEEDED = 6


def check_choices(variant: str, base: str, machine: str = OWN) -> None:
    """Refuses a wrong VARIANT, BASE or ARCH before anything is downloaded."""
    if machine not in MACHINES:
        raise Failure(f"ARCH must be one of {', '.join(MACHINES)}, got {machine!r}")
    native.check_choices(variant, machine)
    if machine == ACROSS and base != "debian":
        raise Failure(f"ARCH={ACROSS} needs BASE=debian, got BASE={base}: docs/aarch64.md")
    if variant not in VARIANTS:
        raise Failure(f"VARIANT must be one of {', '.join(VARIANTS)}, got {variant!r}")
    if base not in BASES:
        raise Failure(f"BASE must be one of {', '.join(BASES)}, got {base!r}")
    if (variant, base) == ("cuda", "manylinux"):
        raise Failure(
            "VARIANT=cuda needs BASE=debian: nvcc 12.4 supports GCC up to 13, and manylinux_2_28 has a newer one"
        )


def machine_of(name: str) -> str:
    """The machine that a wheel is for, by its file's name; also of the files beside it."""
    found = re.search(rf"_({'|'.join(MACHINES)})\.whl", name)
    return found[1] if found else OWN


def own_wheels(dist: Path, machine: str = OWN) -> list[Path]:
    """The wheels of a folder that are not for another machine."""
    return [wheel for wheel in sorted(dist.glob("*.whl")) if machine_of(wheel.name) == machine]


def dockerfile(variant: str, tree: Path = ROOT) -> Path:
    return tree / f"Dockerfile.{variant}"


def cross_dockerfile(tree: Path = ROOT) -> Path:
    return tree / f"docker/Dockerfile.{ACROSS}"


def cross_inputs(tree: Path = ROOT) -> list[Path]:
    """What the image for ARM is made from beside locks; an older commit has no toolchain file."""
    return [path for path in (cross_dockerfile(tree), tree / "docker/image/toolchain.cmake") if path.exists()]


def image_name(target: str, variant: str, machine: str = OWN) -> str:
    return f"customops-{target}:{variant}" + (f"-{machine}" if machine != OWN else "")


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


def debian_base(engine: str, target: str, tree: Path = ROOT) -> str:
    """Name of the image of docker/locks/debian-<target>.lock; assembles and imports it if it is missing."""
    return assembled(engine, tree / f"docker/locks/debian-{target}.lock", target)


def assembled(engine: str, lock: Path, target: str) -> str:
    image = f"customops-base:{target}-{inputs_digest('debian', lock, Path(rootfs.__file__))[:12]}"
    if inspect(engine, image, "{{.Id}}") is None:
        tar = CACHE / f"rootfs-{target}.tar"
        rootfs.assemble(lock, CACHE / "debian", tar)
        children.run([engine, "import", tar, image], stdout=subprocess.DEVNULL)
        tar.unlink()
    return image


def manylinux(tree: Path) -> str:
    """MANYLINUX of this file in a tree, read and not run."""
    found = re.search(
        r'^MANYLINUX = "(\S+@sha256:[0-9a-f]{64})"$', (tree / "docker/images.py").read_text(), re.MULTILINE
    )
    if not found:
        raise Failure(f"{tree}/docker/images.py pins no manylinux image: only BASE=debian can be built there")
    return found[1]


def manylinux_base(engine: str, tree: Path = ROOT) -> str:
    image = manylinux(tree)
    if inspect(engine, image, "{{.Id}}") is None and subprocess.run([engine, "pull", image]).returncode:
        raise Failure(f"BASE=manylinux: {image} cannot be pulled from here; BASE=debian needs no registry")
    return image


def check_disk(engine: str) -> None:
    """Fails early, in one line: a full disk during an image build gives a long error."""
    template = "{{.DockerRootDir}}" if engine == "docker" else "{{.Store.GraphRoot}}"
    root = subprocess.run([engine, "info", "--format", template], capture_output=True, text=True, check=False)
    path = Path(root.stdout.strip() or "/")
    if path.exists() and (free := shutil.disk_usage(path).free / 1e9) < GIGABYTES_NEEDED:
        raise Failure(f"the images need about {GIGABYTES_NEEDED} GB, {path} has {free:.1f} GB left: free some space")


def cross_locks(variant: str, tree: Path = ROOT) -> tuple[Path, ...]:
    """What the image for ARM has besides: packages of Debian, torch among what the emulated tests import, CUDA's runtimes."""
    names = ("debian-cross.lock", "requirements-test.txt", *(("requirements-cudart.txt",) if variant == "cuda" else ()))
    return tuple(tree / f"docker/locks/{ACROSS}" / name for name in names)


def fetch_inputs(variant: str, tree: Path = ROOT, machine: str = OWN) -> None:
    if machine == ACROSS:
        packages, *wheels = cross_locks(variant, tree)
        fetch.fetch_debian(packages, CACHE / "debian")
        for lock in wheels:
            fetch.fetch_wheels(lock, CACHE / f"wheels-{machine}", machine=machine, whose=f"the pipeline for {machine}")
    cuda, locks = variant == "cuda", tree / "docker/locks"
    fetch.fetch_debian_set("build", "test", "source", *(("cuda",) if cuda else ()), locks=locks)
    fetch.fetch_set(*requirement_sets(variant, tree), locks=locks)


def requirement_sets(variant: str, tree: Path) -> list[str]:
    """What the images install: of a commit before `tools` was a set of its own, what it had."""
    sets = ("tools", *TARGETS, "host", *(CUDA_SETS if variant == "cuda" else ()))
    return [name for name in sets if (tree / f"docker/locks/requirements-{name}.txt").is_file()]


def headers(tree: Path = ROOT) -> list[Path]:
    """aten_stable, as .dockerignore lets it pass: without what it writes when it is used."""
    folder = tree / "aten_stable"
    written = (folder / "include/ATen/ops", folder / "__pycache__")
    return [p for p in folder.rglob("*") if p.is_file() and not any(w in p.parents for w in written)]


def digest_names(variant: str, base: str, tree: Path = ROOT, machine: str = OWN) -> dict[str, str]:
    """Names of the build and test image of a tree, by default this one; the tests of another machine need no image.

    A name ends in a digest of the image's inputs, so that two checkouts with one engine never use each other's images.
    """
    if machine != OWN:
        below = digest_names(variant, base, tree)["build"]
        digest = inputs_digest(below, *cross_inputs(tree), *cross_locks(variant, tree), Path(rootfs.__file__))
        return {"build": f"{image_name('build', variant, machine)}-{digest[:12]}"}
    # What the Dockerfiles copy, and what makes the base images.
    scripts, locks = tree / "docker/image", tree / "docker/locks"
    copied = [
        *scripts.glob("*.sh"),
        *scripts.glob("*.py"),
        *scripts.glob("*.c"),
        *locks.glob("*.lock"),
        Path(rootfs.__file__),
    ]
    copied += headers(tree)
    copied += [locks / f"requirements-{name}.txt" for name in requirement_sets(variant, tree)]
    if variant == "cuda":
        copied.append(dockerfile("cpu", tree))
    digest = inputs_digest(manylinux(tree) if base == "manylinux" else base, dockerfile(variant, tree), *sorted(copied))
    return {target: f"{image_name(target, variant)}-{digest[:12]}" for target in TARGETS}


def compilers(base: str, machine: str = OWN) -> str:
    """A name of the compilers in the build images of both variants, for a compile cache that these share.

    It is the name of CUDA's image, which is the CPU's and nvcc: what it is a digest of says what each compiler is.
    """
    return digest_names("cuda", base, machine=machine)["build"]


def ensure(engine: str, variant: str, base: str, tree: Path = ROOT, machine: str = OWN) -> dict[str, str]:
    """Builds the missing images of `digest_names`, from inputs that must have been fetched; returns the names.

    Also tags this tree's images customops-build:<variant> and customops-test:<variant>, for use by hand.
    """
    names = digest_names(variant, base, tree, machine)
    missing = [target for target in names if inspect(engine, names[target], "{{.Id}}") is None]
    if missing:
        check_disk(engine)
        file = dockerfile(variant, tree) if machine == OWN else cross_dockerfile(tree)
        if machine != OWN:
            below = below_cross(engine, variant, base, tree)
        else:
            below = (bases if variant == "cpu" else below_cuda)(engine, base, tree)
        stages = "build-cuda" if (machine, variant) == (ACROSS, "cuda") else ""
        build(engine, file, below, {stages or target: names[target] for target in missing}, tree)
    for target, name in names.items():
        if tree == ROOT:
            subprocess.run([engine, "tag", name, image_name(target, variant, machine)], check=True)
        print(f"{name}: {'built' if target in missing else 'up to date'}", flush=True)
    return names


def bases(engine: str, base: str, tree: Path) -> dict[str, str]:
    """Build arguments of Dockerfile.cpu."""
    if base == "debian":
        return {f"{target.upper()}_BASE": debian_base(engine, target, tree) for target in TARGETS}
    image = manylinux_base(engine, tree)
    return {"BASE": image, "BUILD_BASE": image, "TEST_BASE": image, "GCC_VERSION": "any", "PYTHON_VERSION": "any"}


def below_cuda(engine: str, base: str, tree: Path) -> dict[str, str]:
    """Build arguments of Dockerfile.cuda: the CPU images that it starts from."""
    return {f"{target.upper()}_IMAGE": name for target, name in ensure(engine, "cpu", base, tree).items()}


def below_cross(engine: str, variant: str, base: str, tree: Path) -> dict[str, str]:
    """Build arguments of Dockerfile.aarch64: the build image that it starts from, and the cross compiler."""
    return {
        "BUILD_IMAGE": ensure(engine, variant, base, tree)["build"],
        "CROSS_BASE": assembled(engine, cross_locks(variant, tree)[0], ACROSS),
    }


def build(engine: str, file: Path, arguments: dict[str, str], names: dict[str, str], tree: Path) -> None:
    for target, name in names.items():
        print(f"building {name}", flush=True)
        children.run(
            [engine, "build", "--network=none", f"--file={file}", f"--target={target}",
             *(f"--build-arg={key}={value}" for key, value in arguments.items()), f"--tag={name}", tree],
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--variant", default="cpu")
    parser.add_argument("--base", default="debian")
    parser.add_argument("--arch", default=OWN)
    parser.add_argument("--shell", action="store_true", help="then open a shell in the build image")
    parser.add_argument("--project", type=Path, default=ROOT, help="what the shell sees under /project")
    args = parser.parse_args()
    machine = args.arch or OWN
    check_choices(args.variant, args.base, machine)
    engine, _ = engines.choose(args.engine)
    if engine == "host":
        raise Failure("images need docker or podman: ENGINE=host has none")
    if args.shell and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure(
            f'make shell needs a terminal; for one command: {engine} run --rm -v "$PWD":/project '
            f"{image_name('build', args.variant, machine)} COMMAND"
        )
    fetch_inputs(args.variant, machine=machine)
    ensure(engine, args.variant, args.base, machine=machine)
    if args.shell:
        folder, dist = args.project.resolve(), args.project.resolve() / "dist"
        wheels = (CACHE / "project-wheels").resolve()
        wheels.mkdir(exist_ok=True)
        mounts = (
            f"--volume={folder}:/project:ro",
            f"--volume={dist}:/out",
            f"--volume={wheels}:/wheels:ro",
            "--workdir=/project",
        )
        dist.mkdir(exist_ok=True)
        print("/project is read-only; /opt/customops/build-wheel.sh /project /out builds into dist/", flush=True)
        options = ("-it", *mounts, *children.AS_OWNER, "--cap-add=CHOWN")  # CHOWN: you own the wheel
        children.run_container(
            engine, image_name("build", args.variant, machine), "bash", options=options, interactive=True, check=False
        )


if __name__ == "__main__":
    main_guard(main)
