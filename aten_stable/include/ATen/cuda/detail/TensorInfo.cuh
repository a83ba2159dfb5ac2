#pragma once
#include <aten_stable/tensor_info.h>
