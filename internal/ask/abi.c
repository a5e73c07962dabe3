#include "ask.h"

// Functions inside XNNPACK that came with the members of its key and of its provider, and one that is older and lies in the
// same source. The last one shows whether a library exports what is inside it.
#ifdef __ELF__
extern void xnn_compute_fingerprint_id_value(void) __attribute__((weak));
extern void xnn_weights_cache_alias_data(void) __attribute__((weak));
extern void xnn_weights_cache_look_up(void) __attribute__((weak));

enum xpwc_abi xpwc_linked_abi(void) {
  if (xnn_weights_cache_alias_data != NULL) {
    return xpwc_abi_2026;
  }
  if (xnn_compute_fingerprint_id_value != NULL) {
    return xnn_weights_cache_look_up != NULL ? xpwc_abi_2025 : xpwc_abi_unknown;
  }
  return xnn_weights_cache_look_up != NULL ? xpwc_abi_2024 : xpwc_abi_unknown;
}
#else
enum xpwc_abi xpwc_linked_abi(void) { return xpwc_abi_unknown; }
#endif
