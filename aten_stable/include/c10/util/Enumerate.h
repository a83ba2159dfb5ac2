#pragma once
#include <aten_stable/containers.h>
