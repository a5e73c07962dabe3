// What XNNPACK packs into a cache of ExecuTorch's.
#pragma once

#include <cstddef>

struct Packed {
  std::size_t entries = 0;
  std::size_t bytes = 0;
};

// Since the process began. A runtime that has no cache is not counted.
Packed packed();
