#pragma once
#include <aten_stable/pybind.h>
