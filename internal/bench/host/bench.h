// What the cache's calls cost, and what it costs to create runtimes beside those that execute.
#pragma once

#include <string>

#include "status.h"

// Prints tables. Files go into the directory, and are removed.
Status bench(const std::string& directory);
