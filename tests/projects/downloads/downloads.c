#include "tables.h"
