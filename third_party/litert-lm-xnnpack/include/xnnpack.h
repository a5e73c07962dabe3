// The XNNPACK inside LiteRT-LM's library (liblitert-lm.so of litert-lm-api 0.18.1), which comes without a header. It is of
// 2026-08-18 or later: it exports xnn_create_fully_connected_nc_qdu8_bf16_qb4w. From google/XNNPACK's commit 92a7ad50, whose
// names, numbers and layouts the included header has, to 75db3c09 of 2026-08-21, XNNPACK's own header added declarations and
// changed none.
#ifndef XPWC_LITERT_LM_XNNPACK_H
#define XPWC_LITERT_LM_XNNPACK_H

// The library lacks XNNPACK's deprecated functions and those of its build identifier.
#define XPWC_XNNPACK_HAS_NO_BUILD_IDENTIFIER 1

#include "../../executorch-xnnpack/include/xnnpack.h"

#undef XPWC_XNNPACK_IS_INITIALIZED_WHEN_LOADED

#endif
