#pragma once
#include <aten_stable/library.h>
