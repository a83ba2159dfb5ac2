"""Which CUDA library a machine gets. A table: no GPU is needed."""

import pytest

from customops._cuda import Machine, choose

RELEASE = {
    "cuda12": {"machine_code": [70, 80, 90], "ptx": [90], "driver": 12000, "driver_for_ptx": 12040},
    "cuda13": {"machine_code": [100, 120], "ptx": [], "driver": 13000, "driver_for_ptx": 13000},
}
ARM = {
    "cuda12": {"machine_code": [75, 80, 90], "ptx": [90], "driver": 12000, "driver_for_ptx": 12040},
    "cuda13": {"machine_code": [100, 110, 120], "ptx": [], "driver": 13000, "driver_for_ptx": 13000},
}
ONLY_13 = {"cuda13": {"machine_code": [90], "ptx": [], "driver": 13000, "driver_for_ptx": 13000}}
V100, T4, A100, L4, H200, B200, B300, RTX5090, GB10 = (
    (7, 0),
    (7, 5),
    (8, 0),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 3),
    (12, 0),
    (12, 1),
)
FUTURE, PASCAL = (15, 0), (6, 1)


@pytest.mark.parametrize(
    ("library", "driver", "capabilities", "torch"),
    [
        ("cuda12", 12000, [V100], "12.6"),
        ("cuda12", 12000, [T4, A100, L4, H200], "12.8"),
        ("cuda12", 13000, [H200], "13.0"),  # the driver and the GPU count, not torch's CUDA
        ("cuda12", 13020, [A100], "13.2"),
        ("cuda13", 13000, [B200], "13.0"),
        ("cuda13", 13000, [B200], "12.8"),
        ("cuda13", 13000, [B300, RTX5090, GB10], "13.0"),
        ("cuda12", 13050, [FUTURE], "13.5"),  # by PTX
        ("cuda12", 12080, [B200], "12.8"),  # an older driver: PTX of the older library
        ("cuda12", 13000, [H200, B200], "13.0"),  # mixed
        ("cuda12", 13000, [RTX5090, A100], "13.0"),
    ],
)
def test_library(library, driver, capabilities, torch):
    assert choose(Machine(driver, tuple(capabilities), torch), RELEASE)[0] == library


@pytest.mark.parametrize(
    ("code", "capability", "serves"),
    [
        (86, (8, 6), True),
        (86, (8, 9), True),
        (86, (8, 0), False),  # a larger minor version
        (86, (8, 7), False),  # Orin is a Tegra: only its own
        (87, (8, 7), True),
        (87, (8, 9), False),
        (110, (11, 0), True),  # Thor
        (100, (11, 0), False),
        (120, (12, 1), True),  # DGX Spark
        (72, (7, 5), False),
    ],
)
def test_machine_code_serves_larger_minor_versions_but_not_across_tegra(code, capability, serves):
    held = {"cuda13": {"machine_code": [code], "ptx": [], "driver": 13000, "driver_for_ptx": 13000}}
    assert (choose(Machine(13000, (capability,), "13.0"), held)[0] == "cuda13") == serves


@pytest.mark.parametrize(
    ("library", "driver", "capability"),
    [
        ("cuda12", 12000, (7, 5)),  # T4G
        ("cuda12", 12020, (9, 0)),  # Grace Hopper
        ("cuda13", 13000, (10, 0)),  # Grace Blackwell
        ("cuda13", 13000, (10, 3)),
        ("cuda13", 13000, (11, 0)),
        ("cuda13", 13000, (12, 1)),
        ("cuda12", 12080, (10, 0)),  # by PTX
        (None, 12060, (8, 7)),  # Orin
    ],
)
def test_library_on_arm(library, driver, capability):
    assert choose(Machine(driver, (capability,), "13.0"), ARM)[0] == library


def test_a_narrow_build_is_taken_for_what_it_holds():
    assert choose(Machine(13000, (H200,), "13.0"), ONLY_13)[0] == "cuda13"
    assert choose(Machine(13000, (H200, H200), "12.8"), {"cuda12": RELEASE["cuda12"]} | ONLY_13)[0] == "cuda13"
    assert choose(Machine(12080, (H200,), "12.8"), {"cuda12": RELEASE["cuda12"]} | ONLY_13)[0] == "cuda12"


@pytest.mark.parametrize(
    ("libraries", "driver", "capabilities", "torch", "words"),
    [
        (RELEASE, 13000, [H200], None, "is built without CUDA: install a CUDA build of torch"),
        (RELEASE, 0, [], "12.8", "no NVIDIA driver on this machine: install one, 525 or newer"),
        (RELEASE, 13000, [], "12.8", "torch sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES"),
        (RELEASE, 11080, [A100], "12.6", "cuda12 needs a driver for CUDA 12.0, this one supports 11.8: update it"),
        (RELEASE, 12030, [B200], "12.8", "capability 10.0 by a driver for CUDA 12.4, this one supports 12.3: update it"),
        (RELEASE, 12080, [PASCAL], "12.6", "nothing that a GPU of compute capability 6.1 runs: build from source with CUDA_ARCHS=\"6.1\""),
        (RELEASE, 13000, [PASCAL, H200], "12.6", 'hide it with CUDA_VISIBLE_DEVICES, or build from source with CUDA_ARCHS="6.1 9.0"'),
        (ONLY_13, 13000, [A100], "13.0", "cuda13 holds sm_90, nothing that a GPU of compute capability 8.0 runs"),
        (ONLY_13, 13000, [B200], "13.0", "cuda13 holds sm_90, nothing that a GPU of compute capability 10.0 runs"),
        ({}, 13000, [H200], "13.0", "CPU kernels only: install the wheel without +cpu"),
    ],
)  # fmt: skip
def test_reason(libraries, driver, capabilities, torch, words):
    library, reason = choose(Machine(driver, tuple(capabilities), torch), libraries)
    assert library is None
    assert words in reason


def test_a_torch_that_cannot_start_cuda_is_reported_with_both_versions():
    library, reason = choose(Machine(12020, (), "13.0", "The NVIDIA driver on your system is too old"), RELEASE)
    assert library is None
    assert reason.startswith("torch cannot start CUDA (The NVIDIA driver on your system is too old): ")
    assert "the driver supports CUDA 12.2, torch is built for 13.0: update the driver" in reason
