#pragma once
#include <aten_stable/device.h>
