// A thread of the lowest priority may wait for seconds until it runs, wherever it is. It must therefore be no thread of Go's: one
// that stands still in Go code holds up the next collection of garbage, and with it all of the program's Go code. It takes no
// lock that others take, maps nothing, and allocates its memory before it is slow.

#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE

#include "verifier.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <unistd.h>
#endif

#ifdef __linux__
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#endif
#ifdef __APPLE__
#include <sys/resource.h>
#endif
#ifdef __FreeBSD__
#include <sys/types.h>
#include <sys/rtprio.h>
#endif

enum {
  piece = 256 << 10, // read and hashed at a time
  // Of its time the thread rests nine tenths. Idle priority knows nothing of the memory's bandwidth, nor of a container's share of
  // processors: what the thread computes on an idle one is taken from the other threads all the same.
  rests = 9,
  shortest_rest = 1000 * 1000,      // ns; below it the system's timers are too coarse
  longest_rest = 20 * 1000 * 1000,  // ns; a thread that seldom runs need not rest as well
  stop_within = 2 * 1000 * 1000,    // ns of a rest
};

// Lowers the priority of the calling thread, for good. What a system refuses is left as it is.
static void become_quiet(void) {
#if defined(__linux__)
  const struct sched_param none = {0};
  if (syscall(SYS_sched_setscheduler, 0, SCHED_IDLE, &none) != 0) { // of the thread; musl's function refuses
    (void)setpriority(PRIO_PROCESS, 0, 19);
  }
  enum { ioprio_who_process = 1, ioprio_class_idle = 3, ioprio_class_shift = 13 }; // ioprio_set(2)
  (void)syscall(SYS_ioprio_set, ioprio_who_process, 0, ioprio_class_idle << ioprio_class_shift);
#elif defined(__APPLE__)
  (void)setpriority(PRIO_DARWIN_THREAD, 0, PRIO_DARWIN_BG);
#elif defined(__FreeBSD__)
  struct rtprio idle = {.type = RTP_PRIO_IDLE, .prio = RTP_PRIO_MAX};
  (void)rtprio_thread(RTP_SET, 0, &idle);
#elif defined(_WIN32)
  (void)SetThreadPriority(GetCurrentThread(), THREAD_MODE_BACKGROUND_BEGIN);
#endif
}

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

// Reads n bytes. There are none after the end of the file.
static bool read_all(uintptr_t file, uint8_t* to, size_t n, uint64_t offset) {
  while (n > 0) {
#ifdef _WIN32
    OVERLAPPED at = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    DWORD got;
    if (!ReadFile((HANDLE)file, to, (DWORD)n, &got, &at) || got == 0) {
      return false;
    }
#else
    const ssize_t got = pread((int)file, to, n, (off_t)offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return false;
    }
#endif
    to += got;
    n -= (size_t)got;
    offset += (uint64_t)got;
  }
  return true;
}

// XXH3-128 of more than 240 bytes, without a seed, as its specification has it: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.

enum { stripe = 64, lanes = 8, secret_size = 192, stripes_per_block = (secret_size - stripe) / 8, block = stripe * stripes_per_block };

_Static_assert(piece % block == 0, "a piece is whole blocks");

static const uint8_t secret[] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

_Static_assert(sizeof(secret) == secret_size, "the secret is complete");

static const uint64_t prime32_1 = 0x9E3779B1, prime32_2 = 0x85EBCA77, prime32_3 = 0xC2B2AE3D;
static const uint64_t prime64_1 = 0x9E3779B185EBCA87, prime64_2 = 0xC2B2AE3D27D4EB4F, prime64_3 = 0x165667B19E3779F9,
                      prime64_4 = 0x85EBCA77C2B2AE63, prime64_5 = 0x27D4EB2F165667C5;

static inline uint64_t read64(const uint8_t* p) {
  uint64_t v;
  memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  v = __builtin_bswap64(v);
#endif
  return v;
}

static inline void accumulate(uint64_t acc[lanes], const uint8_t* data, const uint8_t* key) {
  for (int i = 0; i < lanes; i++) {
    const uint64_t value = read64(data + 8 * i), mixed = value ^ read64(key + 8 * i);
    acc[i ^ 1] += value;
    acc[i] += (mixed & 0xffffffff) * (mixed >> 32);
  }
}

static void accumulate_block(uint64_t acc[lanes], const uint8_t* data) {
  for (int i = 0; i < stripes_per_block; i++) {
    accumulate(acc, data + i * stripe, secret + i * 8);
  }
  for (int i = 0; i < lanes; i++) {
    acc[i] = (acc[i] ^ (acc[i] >> 47) ^ read64(secret + secret_size - stripe + 8 * i)) * prime32_1;
  }
}

// The 128 bits of a product, folded.
static uint64_t multiply(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), carry = a0 * b1 + (middle & 0xffffffff);
  return (a * b) ^ (a1 * b1 + (middle >> 32) + (carry >> 32));
}

static uint64_t merge(const uint64_t acc[lanes], const uint8_t* key, uint64_t sum) {
  for (int i = 0; i < lanes; i += 2) {
    sum += multiply(acc[i] ^ read64(key + 8 * i), acc[i + 1] ^ read64(key + 8 * i + 8));
  }
  sum ^= sum >> 37;
  sum *= 0x165667919E3779F9;
  return sum ^ (sum >> 32);
}

static void store_big_endian(uint8_t to[8], uint64_t v) {
  for (int i = 0; i < 8; i++) {
    to[i] = (uint8_t)(v >> (56 - 8 * i));
  }
}

struct work {
  uintptr_t file;
  struct xpwc_payload* payloads;
  size_t n;
  const int32_t* stop;
  uint8_t* buffer; // a stripe, then a piece
  uint64_t worked; // ns since the last rest
};

static bool stopped(const struct work* w) { return __atomic_load_n(w->stop, __ATOMIC_RELAXED) != 0; }

// Rests for what was worked since the last rest.
static void rest(struct work* w, uint64_t worked) {
  w->worked += worked;
  uint64_t left = w->worked * rests;
  if (left < shortest_rest) {
    return;
  }
  w->worked = 0;
  if (left > longest_rest) {
    left = longest_rest;
  }
  while (left > 0 && !stopped(w)) {
    const uint64_t some = left < stop_within ? left : stop_within;
    const struct timespec t = {.tv_nsec = (long)some};
    nanosleep(&t, NULL);
    left -= some;
  }
}

// The last stripe of a payload is its last 64 bytes. Some of them may be of the piece before: these lie in the buffer before the
// piece.
static int32_t hash_payload(struct work* w, struct xpwc_payload* p) {
  uint64_t acc[lanes] = {prime32_3, prime64_1, prime64_2, prime64_3, prime64_4, prime32_2, prime64_5, prime32_1};
  uint8_t* const data = w->buffer + stripe;
  for (uint64_t at = 0;;) {
    if (stopped(w)) {
      return xpwc_not_hashed;
    }
    const uint64_t started = now();
    const size_t n = p->size - at < piece ? (size_t)(p->size - at) : piece;
    if (!read_all(w->file, data, n, p->offset + at)) {
      return xpwc_unreadable;
    }
    at += n;
    const bool last = at == p->size;
    const size_t whole = last ? (n - 1) / block : n / block;
    for (size_t i = 0; i < whole; i++) {
      accumulate_block(acc, data + i * block);
    }
    if (last) {
      for (size_t i = 0; i < (n - 1 - whole * block) / stripe; i++) {
        accumulate(acc, data + whole * block + i * stripe, secret + i * 8);
      }
      accumulate(acc, data + n - stripe, secret + secret_size - stripe - 7);
      store_big_endian(p->sum, merge(acc, secret + secret_size - stripe - 11, ~(p->size * prime64_2)));
      store_big_endian(p->sum + 8, merge(acc, secret + 11, p->size * prime64_1));
    }
    rest(w, now() - started);
    if (last) {
      return xpwc_hashed;
    }
    memcpy(w->buffer, data + n - stripe, stripe);
  }
}

static void* hash_all(void* argument) {
  struct work* w = argument;
  become_quiet();
  for (size_t i = 0; i < w->n && !stopped(w); i++) {
    w->payloads[i].state = hash_payload(w, &w->payloads[i]);
  }
  return NULL;
}

int xpwc_hash_payloads(uintptr_t file, struct xpwc_payload* payloads, size_t n, const int32_t* stop) {
  struct work w = {.file = file, .payloads = payloads, .n = n, .stop = stop, .buffer = malloc(stripe + piece)};
  if (w.buffer == NULL) {
    return ENOMEM;
  }
#ifndef _WIN32
  // Signals are for threads that run.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
  pthread_t thread;
  const int error = pthread_create(&thread, NULL, hash_all, &w);
#ifndef _WIN32
  pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
  if (error == 0) {
    pthread_join(thread, NULL);
  }
  free(w.buffer);
  return error;
}
