#pragma once
#include <aten_stable/factories.h>
