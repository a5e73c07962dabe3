/* bcryptprimitives.dll for a Wine that has none (before 9.0): Go's runtime takes its random numbers from ProcessPrng.
   SystemFunction036 is RtlGenRandom. Only the tests under Wine use it; Windows has its own. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
    const ULONG most = 1u << 30;
    while (size > 0) {
        ULONG n = size < most ? (ULONG)size : most;
        if (!SystemFunction036(data, n)) {
            return FALSE;
        }
        data += n;
        size -= n;
    }
    return TRUE;
}
