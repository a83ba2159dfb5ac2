#pragma once
#include <aten_stable/constants.h>
