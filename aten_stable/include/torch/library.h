#pragma once
#include <aten_stable/library.h>
#include <aten_stable/autograd.h>
