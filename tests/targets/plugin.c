/* A library that is loaded late. */
#include "target.h"

void late_function(double cpu_seconds) { burn(cpu_seconds); }
