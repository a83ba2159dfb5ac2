"""Which of several CUDA libraries a machine loads: one for each toolkit, each with its CUDA runtime within.

A piece of its own that any project can take: one file, Python alone. It starts no CUDA, so that importing stays harmless to
programs that fork or set CUDA_VISIBLE_DEVICES later. Beside theirs/_C.py lie theirs/lib_C.cuda12.so, lib_C.cuda13.so and
_C.cuda.json, which says what each holds and needs (versions as CUDA counts: 12040 for 12.4):

    {"cuda12": {"machine_code": [80, 90], "ptx": [90], "driver": 12000, "driver_for_ptx": 12040}, "cuda13": ...}
"""

import contextlib
import ctypes
import json
import os
import warnings

_TEGRAS = {53, 62, 72, 87}  # Jetson modules run their own machine code alone, and nobody else runs it


def _driver():
    """The newest CUDA that the driver supports; 0 without a driver."""
    version = ctypes.c_int(0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def _gpus():
    """Of the machine's GPUs, 90 for compute capability 9.0; from the management library, which starts no CUDA."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        if nvml.nvmlInit_v2():
            return []
    except (OSError, AttributeError):
        return []
    count, found = ctypes.c_uint(0), []
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for index in range(count.value):
        device, major, minor = ctypes.c_void_p(), ctypes.c_int(0), ctypes.c_int(0)
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            continue
        if not nvml.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor)):
            found.append(10 * major.value + minor.value)
    nvml.nvmlShutdown()
    return found


def _serves(held, gpu, driver):
    """A GPU runs its own machine code and that of its major version's smaller minors; a driver compiles PTX of its own CUDA."""
    for code in held["machine_code"]:
        if code == gpu or (code // 10 == gpu // 10 and code < gpu and not {code, gpu} & _TEGRAS):
            return True
    return driver >= held["driver_for_ptx"] and any(ptx <= gpu for ptx in held["ptx"])


def _choose(libraries, driver, gpus):
    """Of those that the driver runs, the name of the one that serves most GPUs, the newest of several.

    Where there is no such driver, the oldest: functions on the CPU are in all of them.
    """
    usable = [name for name, held in libraries.items() if held["driver"] <= driver]
    if not usable:
        return min(libraries)
    return max(usable, key=lambda name: (sum(_serves(libraries[name], gpu, driver) for gpu in gpus), name))


def _cuda_library(face):
    """The library's file name for the module of this path, on this machine, or the one that ATEN_STABLE_CUDA names (cuda12)."""
    libraries = json.loads(face.with_suffix(".cuda.json").read_text())
    name = os.environ.get("ATEN_STABLE_CUDA", "")
    if name and name not in libraries:
        raise ImportError(f"ATEN_STABLE_CUDA={name}: {face.stem} has {', '.join(libraries)}")
    if not name:
        driver, gpus = _driver(), _gpus()
        name = _choose(libraries, driver, gpus)
        held = libraries[name]
        if gpus and not (held["driver"] <= driver and any(_serves(held, gpu, driver) for gpu in gpus)):
            codes = ", ".join(f"sm_{code}" for held in libraries.values() for code in held["machine_code"])
            gpu = f"{gpus[0] // 10}.{gpus[0] % 10}"
            warnings.warn(
                f"{face.stem} has no kernels for a GPU of compute capability {gpu} and a driver for CUDA {driver // 1000}."
                f"{driver % 1000 // 10}: it holds {codes}. Update the driver, or build it for this GPU",
                stacklevel=2,
            )
    return f"lib{face.stem}.{name}.so"
