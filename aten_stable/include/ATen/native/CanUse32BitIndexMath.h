#pragma once
#include <aten_stable/util.h>
