// The cpuinfo in LiteRT-LM's library is that of ExecuTorch's wheel with a member that pytorch/cpuinfo has had since commit
// 9c6d248 (July 2026). The size of cpuinfo_isa, 86 bytes for 85, shows it.
#ifndef XPWC_LITERT_LM_CPUINFO_H
#define XPWC_LITERT_LM_CPUINFO_H

#define XPWC_CPUINFO_KNOWS_AMX_FP8 1
#include "../../executorch-xnnpack/include/cpuinfo.h"

#endif
