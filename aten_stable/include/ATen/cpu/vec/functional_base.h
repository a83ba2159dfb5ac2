#pragma once
#include <aten_stable/vec.h>
