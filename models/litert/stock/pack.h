// Has the code of LiteRT, in a library that a process loads, pack a model into LiteRT's own cache file.
#ifndef XPWC_LITERT_STOCK_PACK_H
#define XPWC_LITERT_STOCK_PACK_H

#include <stdbool.h>
#include <stddef.h>

// Loads the library. Each of these returns NULL, or what is wrong, until the next call.
const char* xpwc_litert_load(const char* library);

// Whether this process' cpuinfo and the library's found the same features, so that it is known which is which. Comes
// before anything is hidden from this process'.
bool xpwc_litert_knows_cpuinfo(void);

// Hides from the library what is hidden from this process, and what this process' cpuinfo does not know. Comes after
// xpwc_litert_knows_cpuinfo was true, and before xpwc_litert_pack.
bool xpwc_litert_limit_cpu(void);

// Packs the model in these bytes into the empty file that fd is open for, read and write. Takes the descriptor over. Unless
// answers is -1, the model is run too, which must have no inputs, and the bytes of its outputs are written there. taken is
// how often the runtime took an entry for another one: a file with any gives wrong answers.
const char* xpwc_litert_pack(const void* bytes, size_t size, int fd, int answers, long* taken);

#endif
