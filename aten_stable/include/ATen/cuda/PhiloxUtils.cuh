#pragma once
#include <aten_stable/philox.h>
