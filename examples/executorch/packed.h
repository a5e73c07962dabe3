// What XNNPACK packs into ExecuTorch's cache.
#pragma once

#include <cstddef>

struct Packed {
  std::size_t entries = 0;
  std::size_t bytes = 0;
};

// Since the process began. A runtime that has no cache is not counted.
Packed packed();
