// That of LiteRT-LM's library has what is declared there.
#include "../../executorch-xnnpack/include/pthreadpool.h"
