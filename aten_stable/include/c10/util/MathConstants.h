#pragma once
#include <aten_stable/numeric.h>
