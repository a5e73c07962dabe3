// Two experiments of pull requests to ExecuTorch, repeated with this backend. Each case runs in a process of its own.
#pragma once

#include <string>
#include <vector>

#include "status.h"

// PR 9155: the memory of two methods that share their weights. PR 19988: loading and unloading 593 MB of packed weights. Prints
// a table for each. Files go into the directory, and are removed.
Status demo(const std::string& directory);

// What demo runs in other processes: the case's name, the directory, and how the weights are loaded.
Status measure(const std::vector<std::string>& arguments);
