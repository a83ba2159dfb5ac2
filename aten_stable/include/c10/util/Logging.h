#pragma once
#include <aten_stable/logging.h>
