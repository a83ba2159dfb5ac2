#pragma once
#include <aten_stable/factories.h>
#include <aten_stable/dispatch.h>
#include <aten_stable/pybind.h>
#include <aten_stable/library.h>
#include <aten_stable/autograd.h>
