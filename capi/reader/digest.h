// XXH3 of 64 and of 128 bits, as package digest has it, and bytes that grow.
#ifndef XPWC_READER_DIGEST_H
#define XPWC_READER_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file is little-endian, and so is what reads it"
#endif

static const uint8_t secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9,
    0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78,
    0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6,
    0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f,
    0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
    0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff,
    0xfa, 0x13, 0x63, 0xeb, 0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

static const uint64_t prime32[] = {0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D};
static const uint64_t prime64[] = {
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5};
static const uint64_t mixer[] = {0x165667919E3779F9, 0x9FB21C651E98DF25};

typedef struct digest {
  uint8_t bytes[16];
} digest;

typedef struct u128 {
  uint64_t low, high;
} u128;

static uint16_t u16(const uint8_t* b) { return (uint16_t)(b[0] | b[1] << 8); }

static uint32_t u32(const uint8_t* b) {
  uint32_t n;
  memcpy(&n, b, sizeof(n));
  return n;
}

static uint64_t u64(const uint8_t* b) {
  uint64_t n;
  memcpy(&n, b, sizeof(n));
  return n;
}

static uint32_t swap32(uint32_t n) { return n << 24 | (n & 0xff00) << 8 | (n >> 8 & 0xff00) | n >> 24; }

static uint64_t swap64(uint64_t n) { return (uint64_t)swap32((uint32_t)n) << 32 | swap32((uint32_t)(n >> 32)); }

static uint64_t keys(size_t a, size_t b) { return u64(secret + a) ^ u64(secret + b); }

static u128 multiply(uint64_t a, uint64_t b) {
  const uint64_t low = (uint64_t)(uint32_t)a * (uint32_t)b, mid = (a >> 32) * (uint32_t)b;
  const uint64_t cross = (low >> 32) + (uint32_t)mid + (uint64_t)(uint32_t)a * (b >> 32);
  const u128 product = {cross << 32 | (uint32_t)low, (mid >> 32) + (cross >> 32) + (a >> 32) * (b >> 32)};
  return product;
}

static uint64_t fold(uint64_t a, uint64_t b) {
  const u128 product = multiply(a, b);
  return product.low ^ product.high;
}

static uint64_t avalanche(uint64_t h) {
  h = (h ^ h >> 37) * mixer[0];
  return h ^ h >> 32;
}

static uint64_t avalanche_short(uint64_t h) {
  h = (h ^ h >> 33) * prime64[1];
  h = (h ^ h >> 29) * prime64[2];
  return h ^ h >> 32;
}

static uint64_t mix16(const uint8_t* b, size_t key, uint64_t seed) {
  return fold(u64(b) ^ (u64(secret + key) + seed), u64(b + 8) ^ (u64(secret + key + 8) - seed));
}

static void mix32(u128* h, const uint8_t* a, const uint8_t* b, size_t key) {
  h->low = (h->low + mix16(a, key, 0)) ^ (u64(b) + u64(b + 8));
  h->high = (h->high + mix16(b, key + 16, 0)) ^ (u64(a) + u64(a + 8));
}

static void accumulate(uint64_t lanes[8], const uint8_t* b, const uint8_t* key) {
  for (size_t i = 0; i < 8; i++) {
    const uint64_t value = u64(b + 8 * i), keyed = value ^ u64(key + 8 * i);
    lanes[i ^ 1] += value;
    lanes[i] += (uint64_t)(uint32_t)keyed * (keyed >> 32);
  }
}

static void accumulate_all(uint64_t lanes[8], const uint8_t* b, size_t n) {
  const uint64_t first[] = {prime32[2], prime64[0], prime64[1], prime64[2], prime64[3], prime32[1], prime64[4], prime32[0]};
  memcpy(lanes, first, sizeof(first));
  const size_t stripes = (n - 1) / 64;
  for (size_t s = 0; s < stripes; s++) {
    accumulate(lanes, b + 64 * s, secret + 8 * (s % 16));
    for (size_t i = 0; s % 16 == 15 && i < 8; i++) {
      lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ u64(secret + 128 + 8 * i)) * prime32[0];
    }
  }
  accumulate(lanes, b + n - 64, secret + 121);
}

static uint64_t merge(const uint64_t lanes[8], size_t key, uint64_t h) {
  for (size_t i = 0; i < 4; i++) {
    h += fold(lanes[2 * i] ^ u64(secret + key + 16 * i), lanes[2 * i + 1] ^ u64(secret + key + 16 * i + 8));
  }
  return avalanche(h);
}

// Of at least one byte. The seed counts where n is from 17 to 128.
static uint64_t hash64(const void* data, size_t n, uint64_t seed) {
  const uint8_t* b = data;
  if (n < 4) {
    const uint64_t all = (uint64_t)b[0] << 16 | (uint64_t)b[n >> 1] << 24 | b[n - 1] | n << 8;
    return avalanche_short(all ^ (u32(secret) ^ u32(secret + 4)));
  }
  if (n <= 8) {
    uint64_t h = (u32(b + n - 4) + ((uint64_t)u32(b) << 32)) ^ keys(8, 16);
    h ^= (h << 49 | h >> 15) ^ (h << 24 | h >> 40);
    h *= mixer[1];
    h = (h ^ ((h >> 35) + n)) * mixer[1];
    return h ^ h >> 28;
  }
  if (n <= 16) {
    const uint64_t low = u64(b) ^ keys(24, 32), high = u64(b + n - 8) ^ keys(40, 48);
    return avalanche(n + swap64(low) + high + fold(low, high));
  }
  if (n <= 128) {
    uint64_t h = n * prime64[0];
    for (size_t i = (n - 1) / 32 + 1; i-- > 0;) {
      h += mix16(b + 16 * i, 32 * i, seed) + mix16(b + n - 16 * (i + 1), 32 * i + 16, seed);
    }
    return avalanche(h);
  }
  if (n <= 240) {
    uint64_t h = n * prime64[0];
    for (size_t i = 0; i < 8; i++) {
      h += mix16(b + 16 * i, 16 * i, 0);
    }
    h = avalanche(h);
    for (size_t i = 8; i < n / 16; i++) {
      h += mix16(b + 16 * i, 16 * (i - 8) + 3, 0);
    }
    return avalanche(h + mix16(b + n - 16, 119, 0));
  }
  uint64_t lanes[8];
  accumulate_all(lanes, b, n);
  return merge(lanes, 11, n * prime64[0]);
}

static u128 finish128(u128 h, size_t n) {
  const u128 out = {
      avalanche(h.low + h.high), 0 - avalanche(h.low * prime64[0] + h.high * prime64[3] + n * prime64[1])};
  return out;
}

static u128 hash128(const uint8_t* b, size_t n) {
  u128 h = {n * prime64[0], 0};
  if (n == 0) {
    h.low = avalanche_short(keys(64, 72));
    h.high = avalanche_short(keys(80, 88));
  } else if (n < 4) {
    const uint32_t all = (uint32_t)b[0] << 16 | (uint32_t)b[n >> 1] << 24 | b[n - 1] | (uint32_t)n << 8, other = swap32(all);
    h.low = avalanche_short(all ^ (uint64_t)(u32(secret) ^ u32(secret + 4)));
    h.high = avalanche_short((other << 13 | other >> 19) ^ (uint64_t)(u32(secret + 8) ^ u32(secret + 12)));
  } else if (n <= 8) {
    h = multiply((u32(b) + ((uint64_t)u32(b + n - 4) << 32)) ^ keys(16, 24), prime64[0] + (n << 2));
    h.high += h.low << 1;
    h.low ^= h.high >> 3;
    h.low = (h.low ^ h.low >> 35) * mixer[1];
    h.low ^= h.low >> 28;
    h.high = avalanche(h.high);
  } else if (n <= 16) {
    uint64_t high = u64(b + n - 8);
    u128 m = multiply(u64(b) ^ high ^ keys(32, 40), prime64[0]);
    m.low += (uint64_t)(n - 1) << 54;
    high ^= keys(48, 56);
    m.high += high + (uint64_t)(uint32_t)high * (prime32[1] - 1);
    m.low ^= swap64(m.high);
    h = multiply(m.low, prime64[1]);
    h.high = avalanche(h.high + m.high * prime64[1]);
    h.low = avalanche(h.low);
  } else if (n <= 128) {
    for (size_t i = (n - 1) / 32 + 1; i-- > 0;) {
      mix32(&h, b + 16 * i, b + n - 16 * (i + 1), 32 * i);
    }
    h = finish128(h, n);
  } else if (n <= 240) {
    for (size_t i = 32; i <= n; i += 32) {
      mix32(&h, b + i - 32, b + i - 16, i < 160 ? i - 32 : 3 + i - 160);
      if (i == 128) {
        h.low = avalanche(h.low);
        h.high = avalanche(h.high);
      }
    }
    mix32(&h, b + n - 16, b + n - 32, 103);
    h = finish128(h, n);
  } else {
    uint64_t lanes[8];
    accumulate_all(lanes, b, n);
    h.low = merge(lanes, 11, n * prime64[0]);
    h.high = merge(lanes, 117, ~(n * prime64[1]));
  }
  return h;
}

static digest digest_of(const void* data, size_t n) {
  const u128 h = hash128(data, n);
  const uint64_t first[] = {swap64(h.high), swap64(h.low)};
  digest d;
  memcpy(&d, first, sizeof(d));
  return d;
}

static bool equal(digest a, digest b) { return memcmp(&a, &b, sizeof(a)) == 0; }

static digest digest_at(const uint8_t* b) {
  digest d;
  memcpy(&d, b, sizeof(d));
  return d;
}

static bool is_zero(digest d) {
  const digest zero = {{0}};
  return equal(d, zero);
}

// Bytes that grow.
struct bytes {
  uint8_t* data;
  size_t size, room;
  bool failed;
};

static void append(struct bytes* b, const void* data, size_t n) {
  if (b->failed || n == 0) {
    return;
  }
  if (n > b->room - b->size) {
    const size_t room = 2 * b->room + n + 64;
    uint8_t* more = room < n ? NULL : realloc(b->data, room);
    if (more == NULL) {
      b->failed = true;
      return;
    }
    b->data = more;
    b->room = room;
  }
  memcpy(b->data + b->size, data, n);
  b->size += n;
}

static void append_u32(struct bytes* b, uint32_t n) { append(b, &n, sizeof(n)); }
static void append_u64(struct bytes* b, uint64_t n) { append(b, &n, sizeof(n)); }
static void append_u8(struct bytes* b, uint8_t n) { append(b, &n, 1); }

// Appends a text with its length, of which digest.OfStrings makes a digest.
static void append_text(struct bytes* b, const void* text, size_t n) {
  append_u64(b, n);
  append(b, text, n);
}

// Returns the digest of the bytes and frees them; zero if there was no memory for them.
static digest digest_and_free(struct bytes* b) {
  digest d = {{0}};
  if (!b->failed) {
    d = digest_of(b->data, b->size);
  }
  free(b->data);
  memset(b, 0, sizeof(*b));
  return d;
}

static void hexadecimal(digest d, char text[33]) {
  for (size_t i = 0; i < 32; i++) {
    text[i] = "0123456789abcdef"[d.bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
  }
  text[32] = 0;
}

#endif
