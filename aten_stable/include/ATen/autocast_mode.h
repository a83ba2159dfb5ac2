#pragma once
#include <aten_stable/autograd.h>
