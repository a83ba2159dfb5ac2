#pragma once
#include <aten_stable/tensor.h>
