#pragma once
#include <aten_stable/cuda.h>
