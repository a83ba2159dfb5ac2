#pragma once
#include <aten_stable/factories.h>
#include <aten_stable/dispatch.h>
