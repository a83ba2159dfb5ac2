// The version of these headers, in the names of what they declare and of the operators that _face.py defines: two
// libraries of one process may have been built by different ones.
#pragma once

#define ATEN_STABLE_VERSION aten_stable_0_1_0

#define ATEN_STABLE_QUOTED_AGAIN(name) #name
#define ATEN_STABLE_QUOTED(name) ATEN_STABLE_QUOTED_AGAIN(name)
#define ATEN_STABLE_OPERATORS ATEN_STABLE_QUOTED(ATEN_STABLE_VERSION) "::"
