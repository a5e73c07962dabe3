// The cost of the cache's calls, and of creating runtimes while others execute.
#pragma once

#include <string>

#include "status.h"

// Prints tables. Files go into the directory, and are removed.
Status bench(const std::string& directory);
