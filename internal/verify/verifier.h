// Checksums of payloads, taken at the lowest priority that the system has.
#ifndef XPWC_VERIFIER_H
#define XPWC_VERIFIER_H

#include <stddef.h>
#include <stdint.h>

// Of a payload with fewer bytes XXH3 is another function: these are for Go to hash.
enum { xpwc_least_hashed = 241 };

struct xpwc_payload {
  uint64_t offset; // in the file
  uint64_t size;   // at least xpwc_least_hashed
  uint8_t sum[16]; // its XXH3-128, most significant byte first, if state is xpwc_hashed
  int32_t state;
};

// What became of a payload.
enum { xpwc_not_hashed, xpwc_hashed, xpwc_unreadable };

// Hashes payloads of an open file (a descriptor, on Windows a handle), one after the other, and returns when that is done. They
// are read by a thread of its own, and not through memory that the file is mapped to: so bytes that the disk cannot give are
// xpwc_unreadable and no signal, and nothing in the process waits for a thread that hardly runs. When *stop is not zero it ends within
// one piece. Returns 0, or an error number if there is no memory or no thread.
int xpwc_hash_payloads(uintptr_t file, struct xpwc_payload* payloads, size_t n, const int32_t* stop);

#endif
