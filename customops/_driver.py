"""The NVIDIA driver's version. Versions are CUDA's numbers: 12040 for 12.4."""

import contextlib
import ctypes


def driver_version() -> int:
    """CUDA version that the installed driver supports, 0 without one; asks the driver, without starting CUDA."""
    version = ctypes.c_int(0)
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def dotted(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
