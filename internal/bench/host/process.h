// This program in a process of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "status.h"

// Runs this program with the arguments, and hands on each line of its standard output as it comes, split at blanks.
Status run_self(
    const std::vector<std::string>& arguments, const std::function<void(const std::vector<std::string>&)>& line);
