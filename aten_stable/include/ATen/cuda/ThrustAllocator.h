#pragma once
#include <aten_stable/reduce.h>
