#pragma once
#include <aten_stable/dispatch.h>
