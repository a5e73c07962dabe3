// digest SIZE...
//
// Prints the digest of as many bytes 0, 7, 14, ... modulo 256.
#include "host.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const size_t size = (size_t)strtoul(argv[i], NULL, 10);
    uint8_t* bytes = (uint8_t*)malloc(size + 1);
    REQUIRE(bytes != NULL);
    for (size_t j = 0; j < size; j++) {
      bytes[j] = (uint8_t)(j * 7);
    }
    uint8_t digest[16];
    OK(xpwc_digest(bytes, size, digest));
    for (size_t j = 0; j < sizeof(digest); j++) {
      printf("%02x", (unsigned)digest[j]);
    }
    printf("\n");
    free(bytes);
  }
  return 0;
}
