#pragma once
#include <aten_stable/ivalue.h>
