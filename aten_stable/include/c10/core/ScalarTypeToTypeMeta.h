#pragma once
#include <aten_stable/core.h>
