#pragma once
#include <aten_stable/event.h>
