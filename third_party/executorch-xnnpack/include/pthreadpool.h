// What this project calls of the thread pool in ExecuTorch's wheel (libexecutorch_threadpool.so), as google/pthreadpool has
// it at commit a56dcd79.
#ifndef XPWC_EXECUTORCH_PTHREADPOOL_H
#define XPWC_EXECUTORCH_PTHREADPOOL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pthreadpool* pthreadpool_t;

pthreadpool_t pthreadpool_create(size_t threads);
size_t pthreadpool_get_threads_count(pthreadpool_t);
void pthreadpool_destroy(pthreadpool_t);

#ifdef __cplusplus
}
#endif

#endif
