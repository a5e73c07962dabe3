// The programs that are measured.
#pragma once

#include <cstddef>
#include <string>

#include "program.h"

// 1,184 int8 layers of these widths in 37 methods, each of which takes what the one before it gave.
Program many_entries(std::size_t width, std::size_t hidden);

// A method of so many layers of one width, with float32 or int8 weights.
Program layers(const std::string& name, std::size_t count, std::size_t width, bool quantized);
