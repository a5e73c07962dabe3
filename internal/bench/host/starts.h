// What a start costs: without a cache, with a provider that knows every answer, and with a cache file that is there.
#pragma once

#include <string>
#include <vector>

#include "status.h"

// So many starts of each model in each way, each a process of its own. Needs 210 MB in the directory.
Status starts(const std::string& directory, int count);

// What such a process does: a model's name, a directory and a way. One line of standard output has the figures.
Status start(const std::vector<std::string>& arguments);
