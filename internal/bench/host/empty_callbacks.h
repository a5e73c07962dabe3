// Callbacks that do nothing, in a file of their own so that the compiler cannot see into them where they are called.
#pragma once

#include <cstddef>

bool empty_is_finalized(void* context);
void* empty_offset_to_addr(void* context, std::size_t offset);
