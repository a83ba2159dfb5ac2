"""A GPU without memory, played by a function that stands before torch's: torch's own error type and text reach Python.

The kernels run on the CPU here. What is tested is the same code that allocates for CUDA: csrc/allocate.h, csrc/errors.h.
"""

import os
import subprocess
import sys

import pytest

FAKE = r"""
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

static int left = -1, refused;  // allocations until one is refused
void refuse_after(int count) { left = count; }

static void *of_torch(const char *name) { return dlsym(dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY), name); }

int32_t aoti_torch_empty_strided(int64_t dims, const int64_t *sizes, const int64_t *strides, int32_t dtype,
                                 int32_t device, int32_t index, void **out) {
  int32_t (*real)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, void **) =
      of_torch("aoti_torch_empty_strided");
  if (left > 0 && --left == 0) return refused = 1;
  return real(dims, sizes, strides, dtype, device, index, out);
}

const char *torch_exception_get_what_without_backtrace(void) {
  const char *(*real)(void) = of_torch("torch_exception_get_what_without_backtrace");
  if (refused) return refused = 0, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free.";
  return real ? real() : NULL;
}
"""

CALLS = """
import ctypes, os
import torch, customops

refuse_after = ctypes.CDLL(os.environ["LD_PRELOAD"]).refuse_after
x = torch.ones(1, 2, 3, 3, requires_grad=True)
weight = torch.ones(2, 1, 3, 3, requires_grad=True)
calls = {
    "add2": lambda: customops.add2(x, x),
    "axpy": lambda: customops.axpy(x, x),
    "flatten_copy": lambda: customops.flatten_copy(x),
    "bias_act": lambda: customops.bias_act(x, act="swish"),
    "upfirdn2d": lambda: customops.upfirdn2d(x, None),
    "depthwise_conv2d": lambda: customops.depthwise_conv2d(x, weight, padding=1),
}

def attempt(name, call):
    refuse_after(1)
    try:
        call()
        print(name, "-", "nothing refused")
    except torch.cuda.OutOfMemoryError as error:
        print(name, "-", str(error).splitlines()[0])
    except Exception as error:
        print(name, "-", type(error).__name__, str(error).splitlines()[0])
    finally:
        refuse_after(0)

for name, call in calls.items():
    with torch.no_grad():
        attempt(name, call)
    attempt(name + " recorded", call)
for name in ("bias_act", "upfirdn2d", "depthwise_conv2d"):
    attempt(name + " backward", calls[name]().sum().backward)
print(calls["add2"]().sum().item())
"""
FORWARD = ["add2", "axpy", "flatten_copy", "bias_act", "upfirdn2d", "depthwise_conv2d"]


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fake")
    (folder / "fake.c").write_text(FAKE)
    subprocess.run(["cc", "-shared", "-fPIC", "fake.c", "-o", "fake.so", "-ldl"], cwd=folder, check=True)
    return folder / "fake.so"


@pytest.mark.parametrize("hook", ["1", "0"])
def test_torch_s_own_error_with_its_text(hook, fake, tmp_path):
    env = os.environ | {"LD_PRELOAD": str(fake), "CUSTOMOPS_TORCH_HOOK": hook}
    run = subprocess.run(
        [sys.executable, "-c", CALLS], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    *lines, last = run.stdout.splitlines()
    assert last == "36.0"  # refused once, the next call works
    said = dict(line.split(" - ", 1) for line in lines)
    backward = [f"{op} backward" for op in ("bias_act", "upfirdn2d", "depthwise_conv2d")]
    assert said.keys() == {*FORWARD, *(f"{op} recorded" for op in FORWARD), *backward}
    for call, text in said.items():
        assert text.startswith((call.split()[0] + ": ", "_" + call.split()[0])), (call, text)
        assert "no memory for a tensor of shape (" in text, (call, text)
        assert "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free." in text, (call, text)
