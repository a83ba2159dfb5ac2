#pragma once
#include <aten_stable/atomics.h>
