// How the loops of this package become vector instructions.
#ifndef XPWC_VECTORS_H
#define XPWC_VECTORS_H

// Nobody reads the floating-point exceptions, so comparisons need not raise them one by one. A result lies where an
// operand does or apart from it, so no loop waits for its own results. With O3 these loops compile three times as long.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "tree-vectorize", "vect-cost-model=dynamic")
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

// Of each function there is one more for CPUs with AVX2, where the linker can choose.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define CLONED __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONED
#endif

#endif
