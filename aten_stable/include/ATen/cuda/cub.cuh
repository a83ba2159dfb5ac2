#pragma once
#include <aten_stable/cub.h>
