#include "ask.h"

// Not every XNNPACK has these functions, and not every header declares them. Package xnnpack calls them; the library must
// also link with an XNNPACK that lacks them. Only where objects are ELF can what is not there be asked for.
#ifdef __ELF__
extern const void* xnn_experimental_get_build_identifier_data(void) __attribute__((weak));
extern size_t xnn_experimental_get_build_identifier_size(void) __attribute__((weak));

const void* xpwc_build_identifier(size_t* size) {
  if (xnn_experimental_get_build_identifier_data == NULL || xnn_experimental_get_build_identifier_size == NULL) {
    *size = 0;
    return NULL;
  }
  *size = xnn_experimental_get_build_identifier_size();
  return xnn_experimental_get_build_identifier_data();
}
#else
const void* xpwc_build_identifier(size_t* size) {
  *size = 0;
  return NULL;
}
#endif
