#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE 1
#endif
#include "xpwc_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// The probes of XNNPACK are the library's, under other names, so that a host can link both.
#define xpwcSampleBytes xpwc_reader_sample_bytes
#define xpwc_build_identifier xpwc_reader_build_identifier
#define xpwc_linked_abi xpwc_reader_linked_abi
#define xpwc_pack_nodes xpwc_reader_pack_nodes
#define xpwc_packed_size xpwc_reader_packed_size
#define xpwc_probe_family xpwc_reader_probe_family
#define xpwc_probe_layout xpwc_reader_probe_layout
#define xpwc_processor xpwc_reader_processor
#include "internal/ask/abi.c"
#include "internal/ask/build_identifier.c"
#include "internal/ask/layout.c"
#include "internal/ask/node.c"
#include "internal/ask/packed_size.c"
#include "internal/ask/processor.c"

#include "digest.h"
#include "identity.h"
#include "status.h"

// The file: docs/format.md, internal/format.

enum {
  header_size = 4096, slot_size = 128, alignment_of_payloads = 64, index_header_size = 128, layout_size = 32,
  source_size = 16, record_size = 164, copy_size = 36, sum_size = 8, block_size_of_index = 1024, piece_size = 4096,
  version_of_format = 4, has_bias = 1, tied = 2, variant = 4,
  max_layouts = 16, // to search if this machine's layout is unknown
  // Limits of one look-up's work in a hostile index: probed slots of the hash table, payloads compared with packed
  // bytes, and packing identities of one kernel.
  max_probes = 1 << 14, max_compared = 64, max_identities = 64,
  block_alignment = 128, buckets = 1024, // of the reader's own memory
  ever_served = 1, served_now = 2,       // the latter since names were forgotten
  machine_head = 18, seen_size = 21, max_machines = 16, max_families = 64,
};

// The bytes that XNNPACK packs from fixed tensors.
struct sample {
  struct bytes packed;
  uint32_t ids[8]; // fingerprint_ids of their keys; a family has at most 8 tensors
  size_t ids_count;
  bool transposed;
};

// A family that a machine like this one packed in a layout.
struct evidence {
  uint32_t layout;
  struct xpwc_node family;
  digest sum;
  bool asked;
  struct sample sample; // without ids if this XNNPACK packs otherwise
};

// A tensor that the host named, or a copy of one.
struct tensor {
  struct tensor* next;  // in its bucket
  const void* data;     // the address in XNNPACK's key
  const void* original; // data, or the tensor that XNNPACK copied
  size_t size;          // of the original
  struct identity* identities; // each once, in the order of their digests
  size_t identities_count, shaped_count; // shaped_count of them have a shape
  bool as_sealed; // named by xpwc_reader_name_as_sealed
  digest packing, content; // content is zero until it is computed
  digest stamp, program;   // stamps of records sealed for the model, and of copies sealed for the program
  char name[]; // a copy has the original's name and "#"
};

// A record's stamp of its kernel, for the model or one of its programs.
struct seal {
  digest stamp;
  uint32_t record;
};

struct size_asked {
  struct xpwc_node node;
  uint64_t size;
  uint32_t fingerprint_id;
};

typedef struct weight {
  struct tensor *kernel, *bias; // kernel is NULL if the kernel or bias has no name
  uint32_t seed, fingerprint_id;
} weight;

struct xpwc_reader {
  struct xpwc_bare_provider provider;
  int finalized, file; // file is open only in open_file
  uint64_t start; // offset of the cache in the file
  uint8_t* map;  // the mapped cache
  size_t padding; // bytes of the mapping that precede map
  char model[33];   // the model's digest, or ""
  char program[33]; // digest of the program of xpwc_reader_set_program, or ""
  bool has_other_names; // since xpwc_reader_forget: a name given as sealed was no hash of the content
  // The checked index of the latest generation, and its parts. records is 0 if there is none.
  uint8_t *index, *rows, *table, *strings;
  const uint8_t* copies; // rows of copy_size
  struct seal* seals; // of all records and copies, sorted; NULL until the first tensor is named as sealed
  uint64_t end, records, slots, copies_count;
  uint32_t layouts, strings_size;
  uint8_t* served; // follows the index; flags of each record: ever_served, served_now
  uint64_t bytes_named; // total size of the named tensors
  struct bytes evidence; // array of struct evidence: the file's evidence for this machine, read on demand
  int64_t layout; // index of this machine's layout after probe_layout; -1 if the file does not have it
  struct tensor* tensors[buckets]; // by address
  struct bytes sizes; // struct size_asked
  struct xpwc_zeros zeros;
  void** blocks; // list of packed weights in private memory, linked at their starts
  xpwc_reader_miss miss; // of the last find
  const void* last_hit; // payload of the last look-up; NULL after a miss, and once weights are packed
  xpwc_reader_stats stats;
};

static bool lies_in(uint64_t offset, uint64_t size, uint64_t end) { return offset <= end && size <= end - offset; }

// Reads n bytes. Returns XPWC_STATUS_DAMAGED if the file is too short, and XPWC_STATUS_SYSTEM_ERROR with errno if the
// system cannot read them: the file may then be undamaged.
static xpwc_status read_at(const struct xpwc_reader* r, void* dst, size_t n, uint64_t offset) {
  for (size_t filled = 0; filled < n;) {
    const ssize_t count = pread(r->file, (char*)dst + filled, n - filled, (off_t)(r->start + offset + filled));
    if (count == 0) {
      return XPWC_STATUS_DAMAGED;
    }
    if (count < 0 && errno != EINTR) {
      return XPWC_STATUS_SYSTEM_ERROR;
    }
    filled += count > 0 ? (size_t)count : 0;
  }
  return XPWC_STATUS_OK;
}

// Reads the header block and the latest valid slot, if there is one.
static xpwc_status read_header(const struct xpwc_reader* r, uint64_t size, uint8_t slot[slot_size]) {
  static const char magic[8] = "xpwc\r\n\x1a";
  uint8_t header[header_size];
  xpwc_status status = size < 8 ? XPWC_STATUS_NOT_CACHE : read_at(r, header, 8, 0);
  if (status != XPWC_STATUS_OK || memcmp(header, magic, 8) != 0) {
    return status == XPWC_STATUS_SYSTEM_ERROR ? status : XPWC_STATUS_NOT_CACHE;
  }
  status = size < header_size ? XPWC_STATUS_DAMAGED : read_at(r, header, header_size, 0);
  if (status != XPWC_STATUS_OK || hash64(header, 32, 0) != u64(header + 32)) {
    return status == XPWC_STATUS_OK ? XPWC_STATUS_DAMAGED : status;
  }
  if (u32(header + 8) != version_of_format) {
    return XPWC_STATUS_VERSION_MISMATCH;
  }
  for (unsigned parity = 0; parity < 2; parity++) {
    const uint8_t* s = header + 512 + 512 * parity;
    const uint64_t generation = u64(s), index = u64(s + 8);
    if (hash64(s, 120, u64(header + 16)) == u64(s + 120) && generation > u64(slot) && generation % 2 == parity &&
        index >= header_size && index % alignment_of_payloads == 0 && lies_in(index, u64(s + 16), u64(s + 40)) &&
        u64(s + 40) < UINT64_C(1) << 62) {
      memcpy(slot, s, slot_size);
    }
  }
  const bool valid = u32(header + 12) == header_size && u64(slot) >> 62 == 0 && u64(slot + 40) <= size;
  return valid ? XPWC_STATUS_OK : XPWC_STATUS_DAMAGED;
}

static const uint8_t* row_at(const struct xpwc_reader* r, uint64_t i) { return r->rows + i * record_size; }

static const uint8_t* layout_at(const struct xpwc_reader* r, uint32_t i) {
  return r->index + index_header_size + (size_t)layout_size * i;
}

// Reports whether a record is valid and may follow the previous one. The index has size bytes at index_offset.
static bool is_record(
    const struct xpwc_reader* r, const uint8_t* row, bool first, uint32_t sources, uint64_t index_offset, uint64_t size) {
  const uint64_t offset = u64(row), n = u64(row + 8);
  const uint8_t* previous = row - record_size;
  return n > 0 && offset >= header_size && offset % alignment_of_payloads == 0 && lies_in(offset, n, r->end) &&
         (offset >= index_offset + size || offset + n <= index_offset) && u16(row + 40) < r->layouts && u32(row + 48) < sources &&
         row[42] < 8 && lies_in(u32(row + 52), u32(row + 56), r->strings_size) &&
         lies_in(u32(row + 60), u32(row + 64), r->strings_size) && u64(row + 148) <= n &&
         (first || memcmp(previous, row, 16) == 0 || (offset >= u64(previous) && offset - u64(previous) >= u64(previous + 8)));
}

// Reads the index at a slot's offset, and checks all of it.
static xpwc_status read_index(struct xpwc_reader* r, const uint8_t* slot) {
  static const uint8_t zeros[piece_size];
  const uint64_t index_offset = u64(slot + 8), size = u64(slot + 16);
  uint8_t h[index_header_size];
  r->end = u64(slot + 40);
  xpwc_status status = size < sizeof(h) ? XPWC_STATUS_DAMAGED : read_at(r, h, sizeof(h), index_offset);
  if (status != XPWC_STATUS_OK) {
    return status;
  }
  const uint64_t records = u64(h + 16), strings = u64(h + 40);
  const uint32_t sources = u32(h + 56);
  r->layouts = u32(h + 24);
  r->slots = 4;
  while (r->slots < 2 * records && r->slots <= size) {
    r->slots *= 2;
  }
  const uint64_t limit = (UINT64_C(64) << 20) + 8 * (records * record_size + (uint64_t)r->layouts * layout_size);
  const uint64_t body_size = records * record_size + r->slots * 4 + strings;
  const uint64_t sums = index_header_size + (uint64_t)r->layouts * layout_size + (uint64_t)sources * source_size;
  const uint64_t body = (sums + (body_size + block_size_of_index - 1) / block_size_of_index * sum_size + 63) / 64 * 64;
  if (memcmp(h, "xpwcidx\x04", 8) != 0 || records > size / record_size || r->layouts > size / layout_size ||
      sources > size / source_size || strings > size || r->slots != u64(h + 32) || strings > limit || strings > UINT32_MAX ||
      u32(h + 28) != record_size || u64(h + 48) != block_size_of_index || u64(h + 8) != u64(slot) || records != u64(slot + 48) ||
      body + body_size != size) { // if the numbers are small enough, as was seen before, nothing here wraps around
    return XPWC_STATUS_DAMAGED;
  }
  r->index = size > SIZE_MAX / 2 ? NULL : calloc(1, (size_t)(size + records));
  if (r->index == NULL) {
    return XPWC_STATUS_OUT_OF_MEMORY;
  }
  r->served = r->index + size;
  r->rows = r->index + body;
  r->table = r->rows + records * record_size;
  r->strings = r->table + r->slots * 4;
  r->strings_size = (uint32_t)strings;
  bool valid = true;
  // A forged size could make the reader allocate memory for a hole. An honest index has no zero piece ahead of the
  // table.
  for (uint64_t filled = 0, next; valid && filled < size; filled += next) {
    next = size - filled < piece_size ? size - filled : piece_size;
    status = read_at(r, r->index + filled, next, index_offset + filled);
    valid = status == XPWC_STATUS_OK &&
            (filled + piece_size > (uint64_t)(r->table - r->index) || memcmp(r->index + filled, zeros, piece_size) != 0);
  }
  valid = valid && equal(digest_of(r->index, body), digest_at(slot + 24));
  for (uint64_t i = 0; valid && i < body_size; i += block_size_of_index) {
    const uint64_t remaining = body_size - i, n = remaining < block_size_of_index ? remaining : block_size_of_index;
    valid = hash64(r->rows + i, n, 0) == u64(r->index + sums + i / block_size_of_index * sum_size);
  }
  for (uint64_t i = 0; valid && i < records; i++) {
    valid = is_record(r, row_at(r, i), i == 0, sources, index_offset, size);
  }
  for (uint64_t i = 0; valid && i < r->slots; i++) {
    valid = u32(r->table + 4 * i) <= records;
  }
  if (u32(h + 72) % copy_size == 0 && lies_in(u32(h + 68), u32(h + 72), strings)) {
    r->copies = r->strings + u32(h + 68);
    r->copies_count = u32(h + 72) / copy_size;
  }
  r->records = r->stats.entries = valid ? records : 0;
  return valid || status != XPWC_STATUS_OK ? status : XPWC_STATUS_DAMAGED;
}

// Maps the file up to the end of the generation in force.
static xpwc_status map_file(struct xpwc_reader* r) {
  r->padding = (size_t)(r->start % (uint64_t)sysconf(_SC_PAGESIZE));
  const uint64_t size = r->padding + r->end;
  const off_t offset = (off_t)(r->start - r->padding);
  void* map = size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, r->file, offset);
  if (map == MAP_FAILED) {
    return size > SIZE_MAX || errno == ENOMEM ? XPWC_STATUS_OUT_OF_MEMORY : XPWC_STATUS_SYSTEM_ERROR;
  }
  r->map = (uint8_t*)map + r->padding;
#ifdef MADV_HUGEPAGE
  (void)madvise(map, (size_t)size, MADV_HUGEPAGE); // larger reads from the disk
#endif
  return XPWC_STATUS_OK;
}

// This machine's layout.

void xpwcSampleBytes(uintptr_t sample, uint32_t fingerprint_id, void* packed, size_t n) {
  struct sample* s = (struct sample*)sample;
  if (s->ids_count < sizeof(s->ids) / sizeof(s->ids[0])) {
    s->ids[s->ids_count++] = fingerprint_id;
  }
  append_text(&s->packed, packed, n);
}

// Returns the digest of XNNPACK's build and of the CPU features by which it chooses kernels: ask.Machine. Zero if
// unknown.
static digest machine(void) {
  uint32_t words[XPWC_PROCESSOR_WORDS];
  const size_t n = xpwc_processor(words);
  size_t size;
  const void* build = xpwc_build_identifier(&size);
  struct bytes b = {NULL, 0, 0, n == 0 || size == 0};
#if defined(__x86_64__)
  append_text(&b, "amd64", 5);
#else
  append_text(&b, "arm64", 5);
#endif
  append_text(&b, words, n * sizeof(words[0]));
  append_text(&b, NULL, 0); // no level above which features are hidden from XNNPACK
  append_text(&b, build, size);
  return digest_and_free(&b);
}

// Reads the layouts' evidence for this machine. Malformed evidence is ignored.
static void read_evidence(struct xpwc_reader* r) {
  const size_t limit = max_machines * (machine_head + max_families * seen_size);
  const digest self = machine();
  for (uint32_t layout = 0; layout < r->layouts && layout < max_layouts && !is_zero(self); layout++) {
    const uint32_t offset = u32(layout_at(r, layout) + 24), length = u32(layout_at(r, layout) + 28);
    const size_t size = lies_in(offset, length, r->strings_size) && length <= limit ? length : 0;
    const uint8_t* b = r->strings + (size == 0 ? 0 : offset);
    for (size_t pos = 0, families; pos + machine_head <= size; pos += machine_head + families * seen_size) {
      families = b[pos + 17];
      if (families > max_families || families * seen_size > size - pos - machine_head) {
        break;
      }
      for (size_t i = 0; equal(digest_at(b + pos), self) && i < families; i++) {
        const uint8_t* seen = b + pos + machine_head + i * seen_size;
        const struct evidence s = {.layout = layout, .family = family_at(seen), .sum = digest_at(seen + 5)};
        append(&r->evidence, &s, sizeof(s));
      }
    }
  }
}

// Packs the fixed tensors of a family with XNNPACK, once.
static const struct sample* sample_of(struct evidence* s) {
  static const size_t convolution_sizes[] = {1, 3}, depthwise_sizes[] = {3, 5};
  if (!s->asked) {
    s->asked = true;
    const bool convolution = s->family.op == xpwc_convolution, depthwise = s->family.op == xpwc_depthwise_convolution;
    const enum xnn_status status = xpwc_probe_family(
        &s->family, convolution ? convolution_sizes : depthwise_sizes, convolution || depthwise ? 2 : 0, (uintptr_t)&s->sample,
        &s->sample.transposed);
    const bool valid = status == xnn_status_success && !s->sample.packed.failed;
    s->sample.ids_count = equal(digest_and_free(&s->sample.packed), s->sum) && valid ? s->sample.ids_count : 0;
  }
  return &s->sample;
}

// Reports whether the sample of a family shows how XNNPACK packs a node with this fingerprint_id: package ask, Shows.
// For a node without a shape, which comes from the file, the family decides.
static bool shows(struct evidence* s, const struct identity* id, uint32_t fingerprint_id) {
  const struct xpwc_node *n = &id->node, *f = &s->family;
  if (n->op == 0 || n->op == xpwc_deconvolution || n->op != f->op || n->input != f->input || n->kernel != f->kernel ||
      n->bias != f->bias || n->output != f->output) {
    return false;
  }
  const struct sample* sample = sample_of(s);
  bool matches = false;
  for (size_t i = 0; i < sample->ids_count; i++) {
    matches |= sample->ids[i] == fingerprint_id;
  }
  matches &= (id->flags & ~(uint32_t)(padded | (sample->transposed ? transposed : 0))) == 0;
  if (n->op == xpwc_convolution && n->dims > 0) {
    matches &= n->dims == 4 && (n->shape[3] > 1 || n->shape[0] > n->groups);
  }
  if (n->op == xpwc_depthwise_convolution && n->dims > 0) {
    matches &= n->dims == 4 && n->groups == 1 && n->shape[1] == n->shape[2] && (n->shape[1] == 3 || n->shape[1] == 5);
  }
  return matches;
}

// Returns the layout in which XNNPACK packs a weight here, by evidence; -1 if unknown.
static int64_t presumed_layout(struct xpwc_reader* r, const weight* w) {
  if (r->evidence.size == 0) { // without evidence the whole layout is probed, and this is not called again
    read_evidence(r);
  }
  const struct tensor* t = w->kernel;
  struct evidence* evidence = (void*)r->evidence.data;
  for (size_t i = 0; i < r->evidence.size / sizeof(*evidence) && t->identities_count > 0 && t->original == t->data; i++) {
    size_t k = 0;
    while (k < t->identities_count && shows(&evidence[i], &t->identities[k], w->fingerprint_id)) {
      k++;
    }
    if (k == t->identities_count) {
      return evidence[i].layout;
    }
  }
  return -1;
}

// Probes XNNPACK's whole layout, once.
static int64_t probe_layout(struct xpwc_reader* r) {
  if (!r->stats.asked) {
    r->stats.asked = 1;
    r->layout = -1;
    struct sample sample = {.ids_count = 0};
    const bool valid = xpwc_probe_layout((uintptr_t)&sample) == xnn_status_success && !sample.packed.failed;
    const digest fingerprint = digest_and_free(&sample.packed);
    for (uint32_t i = 0; valid && i < r->layouts && r->layout < 0; i++) {
      r->layout = equal(digest_at(layout_at(r, i)), fingerprint) ? (int64_t)i : -1;
    }
  }
  return r->layout;
}

// Named tensors.

// Returns the link to the tensor at an address, or the link to insert it at.
static struct tensor** place_of(struct xpwc_reader* r, const void* data) {
  struct tensor** place = &r->tensors[hash64(&data, sizeof(data), 0) % buckets];
  while (*place != NULL && (*place)->data != data) {
    place = &(*place)->next;
  }
  return place;
}

// Removes the tensor at a link, if there is one.
static void remove_tensor(struct tensor** place) {
  struct tensor* t = *place;
  if (t != NULL) {
    *place = t->next;
    free(t->identities);
    free(t);
  }
}

static int by_digest(const void* a, const void* b) { return memcmp(a, b, sizeof(digest)); }

// Adds a packing identity of a tensor, and recomputes the digest of all. Returns false if memory is exhausted.
static bool add_identity(struct tensor* t, const struct identity* id) {
  if (t->identities_count > 0 && bsearch(id, t->identities, t->identities_count, sizeof(*id), by_digest) != NULL) {
    return true;
  }
  struct identity* identities = realloc(t->identities, (t->identities_count + 1) * sizeof(*identities));
  if (identities == NULL) {
    return false;
  }
  t->identities = identities;
  identities[t->identities_count++] = *id;
  t->shaped_count += id->node.dims > 0;
  qsort(identities, t->identities_count, sizeof(*identities), by_digest);
  struct bytes b = {NULL, 0, 0, false};
  for (size_t i = 0; i < t->identities_count; i++) {
    append(&b, &identities[i].digest, sizeof(identities[i].digest));
  }
  const digest combined = digest_and_free(&b);
  t->packing = t->identities_count > 1 ? combined : id->digest;
  return !is_zero(combined);
}

// Sets the stamp of a tensor sealed for a model's digest, zero without one: package format, Seal. Returns false if
// memory is exhausted.
static bool seal_of(const char* model, const char* name, digest* stamp) {
  const size_t model_size = strlen(model), name_size = strlen(name);
  if (model_size == 0) {
    return true;
  }
  struct bytes b = {NULL, 0, 0, false};
  append_text(&b, "sealed", 6);
  append_u64(&b, model_size + 1 + name_size);
  append(&b, model, model_size);
  append(&b, " ", 1);
  append(&b, name, name_size);
  *stamp = digest_and_free(&b);
  return !is_zero(*stamp);
}

// Inserts a tensor, replacing the one at its address. It gets the packing identities of source: the replaced tensor, or
// the original of a copy. Returns NULL if memory is exhausted: the address then has no tensor, so its look-ups miss.
static struct tensor* put_tensor(
    struct xpwc_reader* r, const char* name, const void* data, size_t size, const struct tensor* source) {
  const bool copy = source != NULL && source->data != data;
  const size_t name_size = strlen(name) + copy;
  struct tensor* t = calloc(1, sizeof(*t) + name_size + 1);
  bool put = t != NULL;
  for (size_t i = 0; put && source != NULL && i < source->identities_count; i++) {
    put = add_identity(t, &source->identities[i]);
  }
  if (put) {
    strcat(strcpy(t->name, name), copy ? "#" : "");
    t->data = data;
    t->original = copy ? source->original : data;
    t->size = size;
    t->as_sealed = copy && source->as_sealed;
    r->bytes_named += size;
  }
  if (!put || !seal_of(r->model, t->name, &t->stamp) || !seal_of(r->program, t->name, &t->program)) {
    remove_tensor(&t);
  }
  struct tensor** place = place_of(r, data);
  remove_tensor(place);
  if (t != NULL) {
    t->next = *place;
    *place = t;
  }
  return t;
}

// Returns the digest of a tensor's content, or of a copy's original and conversion: package xpwc, Alias. The content is
// read once.
static digest content_of_tensor(struct tensor* t) {
  if (is_zero(t->content)) {
    t->content = digest_of(t->original, t->size);
    if (t->original != t->data) {
      struct bytes b = {NULL, 0, 0, false};
      append_text(&b, "alias", 5);
      append_text(&b, "#", 1);
      append_text(&b, &t->content, sizeof(t->content));
      t->content = digest_and_free(&b);
    }
  }
  return t->content;
}

// Look-ups.

// Packing and comparing tensors of this total size takes less time than probing XNNPACK.
#ifndef XPWC_READER_LITTLE
#define XPWC_READER_LITTLE (64 << 10)
#endif

// Probes the number of bytes that XNNPACK packs for a node, once for each node. The size is 0 if unknown.
static struct size_asked ask_size(struct xpwc_reader* r, const struct identity* id, uint32_t runtime_flags) {
  struct size_asked asked = {id->node, 0, 0};
  asked.node.runtime_flags |= runtime_flags;
  const struct size_asked* sizes = (const void*)r->sizes.data;
  for (size_t i = 0; i < r->sizes.size / sizeof(*sizes); i++) {
    if (memcmp(&sizes[i].node, &asked.node, sizeof(asked.node)) == 0) {
      return sizes[i];
    }
  }
  size_t elements, scales;
  if (extent(&id->node, &elements, &scales)) {
    asked.size = xpwc_packed_size(&asked.node, elements, scales, &r->zeros, &asked.fingerprint_id);
  }
  asked.size = asked.size < least_bytes(id) ? 0 : asked.size; // XNNPACK computes some sizes in 32 bits
  append(&r->sizes, &asked, sizeof(asked));
  return asked;
}

// Returns the number of bytes that XNNPACK packs for a node with a fingerprint_id, or 0: ask.PackedSize.
static uint64_t packed_size(struct xpwc_reader* r, const struct identity* id, uint32_t fingerprint_id) {
  struct size_asked s = ask_size(r, id, 0);
  if ((id->flags & half_precision) != 0 && (fingerprint_id == 0 || s.fingerprint_id != fingerprint_id)) {
    s = ask_size(r, id, XNN_FLAG_FORCE_FP16_INFERENCE);
  }
  return s.fingerprint_id == fingerprint_id ? s.size : 0;
}

// Reports whether the operator of a look-up will read exactly n bytes of a payload. If XNNPACK does not report the
// size, only a comparison with packed bytes can tell.
static bool has_right_size(struct xpwc_reader* r, const weight* w, uint64_t n) {
  const struct tensor* t = w->kernel;
  if (t->identities_count == 0 || t->shaped_count < t->identities_count) {
    return n >= t->size / 2; // float32 is packed as float16 at least
  }
  bool valid = true;
  for (size_t i = 0; valid && i < t->identities_count; i++) { // no probe of a kernel larger than the tensor
    const struct identity* id = &t->identities[i];
    valid = bits_of(id->node.kernel) > 0 && least_bytes(id) <= t->size && packed_size(r, id, w->fingerprint_id) == n;
  }
  return valid;
}

// Reports whether look-ups of a kernel may hit: the host must have given packing identities or the program, which
// decide the packed bytes. Other kernels are packed and compared, since XNNPACK's key has neither shapes nor scales.
static bool may_hit(const struct xpwc_reader* r, const struct tensor* t) {
  return t->identities_count > 0 && (t->as_sealed ? r->program[0] != 0 : t->shaped_count == t->identities_count);
}

// Reports whether a name was made by ExecuTorch's exporter, as the SHA-256 of the content.
static bool is_hash(const char* name) {
  static const char scale[] = "scale_"; // prefix of scales per channel
  name += strncmp(name, scale, sizeof(scale) - 1) == 0 ? sizeof(scale) - 1 : 0;
  const size_t n = strspn(name, "0123456789abcdef");
  return n == 64 && name[n] == 0;
}

// Reports whether a record has no scales, so that the contents of kernel and bias decide its bytes.
static bool is_float_record(const uint8_t* row) {
  const struct xpwc_node family = family_at(row + 43);
  return is_float(family.input) && is_float(family.kernel);
}

static int compare_seals(const void* a, const void* b) {
  const struct seal *x = a, *y = b;
  const int order = memcmp(&x->stamp, &y->stamp, sizeof(x->stamp));
  return order != 0 ? order : (x->record > y->record) - (x->record < y->record);
}

// Returns the number of seals in the file, and sorts them at the first call. Returns 0 if memory is exhausted.
static size_t sorted_seals(struct xpwc_reader* r) {
  const size_t n = (size_t)(r->records + r->copies_count);
  if (r->seals == NULL && n > 0 && n <= SIZE_MAX / sizeof(*r->seals) &&
      (r->seals = malloc(n * sizeof(*r->seals))) != NULL) {
    struct seal* next = r->seals;
    for (uint64_t i = 0; i < r->records; i++) {
      *next++ = (struct seal){digest_at(row_at(r, i) + 84), (uint32_t)i};
    }
    for (const uint8_t* copy = r->copies; next < r->seals + n; copy += copy_size) {
      *next++ = (struct seal){digest_at(copy + 4), u32(copy)};
    }
    qsort(r->seals, n, sizeof(*r->seals), compare_seals);
  }
  return r->seals == NULL ? 0 : n;
}

// Returns the first seal with a stamp and a record number of at least record, or NULL.
static const struct seal* find_seal(struct xpwc_reader* r, digest stamp, uint32_t record) {
  const struct seal wanted = {stamp, record};
  size_t low = 0, high = is_zero(stamp) ? 0 : sorted_seals(r);
  const size_t n = high;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare_seals(&r->seals[middle], &wanted) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < n && equal(r->seals[low].stamp, stamp) ? &r->seals[low] : NULL;
}

// Reports, for a kernel named as sealed, whether program, kernel and bias decide the packed bytes of a record. Scales
// may be named tensors too: their names must then be hashes of their contents.
static bool has_same_parameters(struct xpwc_reader* r, uint32_t record, const struct tensor* kernel) {
  const struct seal* s = find_seal(r, kernel->program, record);
  return s != NULL && s->record == record && (is_float_record(row_at(r, record)) || !r->has_other_names);
}

// Reports whether a record was packed from a tensor's content, by the stamp or the digest in the record. For a tensor
// named as sealed a name that is a hash identifies the content, if the record belongs to the program.
static bool has_content(struct tensor* t, const uint8_t* stamps, bool by_stamp) {
  const bool stamped = t->as_sealed ? !is_zero(t->program) && is_hash(t->name)
                                    : !is_zero(t->stamp) && equal(t->stamp, digest_at(stamps));
  return stamped || (!by_stamp && equal(content_of_tensor(t), digest_at(stamps + 16)));
}

static bool is_text(const struct xpwc_reader* r, const uint8_t* field, const char* text) {
  const size_t n = strlen(text);
  return u32(field + 4) == n && memcmp(r->strings + u32(field), text, n) == 0;
}

// Returns the record that answers a look-up in a layout, by the rules of decide.go; with packed, a record with these n
// bytes. Returns NULL if there is none, or layout is -1.
static const uint8_t* find(struct xpwc_reader* r, const weight* w, int64_t layout, const void* packed, size_t n) {
  if (layout < 0 || r->stats.damaged) {
    return NULL;
  }
  r->miss = XPWC_READER_MISS_ABSENT;
  struct tensor* k = w->kernel;
  const char* bias = w->bias == NULL ? "" : w->bias->name;
  struct bytes b = {NULL, 0, 0, false};
  append(&b, layout_at(r, (uint32_t)layout), 16);
  append(&b, &k->packing, 16);
  append_u32(&b, w->fingerprint_id);
  append_u32(&b, (uint32_t)strlen(k->name));
  append(&b, k->name, strlen(k->name));
  append(&b, "\x01", w->bias != NULL ? 1 : 0);
  append(&b, bias, strlen(bias));
  const uint64_t hash = b.failed ? 0 : hash64(b.data, b.size, 0); // if memory is exhausted, a miss
  free(b.data);
  const uint64_t probes = r->slots < max_probes ? r->slots : max_probes;
  size_t compared = 0;
  for (int pass = 0; pass < (packed == NULL ? 2 : 1); pass++) {
    for (uint64_t i = 0, number; i < probes && (number = u32(r->table + ((hash + i) & (r->slots - 1)) * 4)) != 0; i++) {
      const uint8_t* row = row_at(r, number - 1);
      const uint8_t flags = row[42];
      if (u16(row + 40) != layout || u32(row + 36) != w->fingerprint_id || memcmp(row + 68, &k->packing, 16) != 0 ||
          ((flags & has_bias) != 0) != (w->bias != NULL) || !is_text(r, row + 52, k->name) || !is_text(r, row + 60, bias)) {
        continue;
      }
      uint8_t* served = &r->served[number - 1];
      bool match;
      if (packed != NULL) { // equal bytes are right, whatever their source
        match = u64(row + 8) == n && compared++ < max_compared && memcmp(r->map + u64(row), packed, n) == 0;
      } else {
        match = u32(row + 32) == w->seed && (flags & variant) == 0 && ((flags & tied) != 0 || k->shaped_count < 2) &&
                ((*served & served_now) == 0 || (flags & tied) != 0) &&
                (!k->as_sealed || has_same_parameters(r, (uint32_t)number - 1, k)) &&
                has_content(k, row + 84, pass == 0) && (w->bias == NULL || has_content(w->bias, row + 116, pass == 0)) &&
                has_right_size(r, w, u64(row + 8));
      }
      if (match) {
        *served = ever_served | served_now;
        return row;
      }
      r->miss = XPWC_READER_MISS_CONTENT;
    }
  }
  return NULL;
}

static weight weight_of(struct xpwc_reader* r, const struct xnn_weights_cache_look_up_key* key) {
  weight w = {*place_of(r, key->kernel), NULL, key->seed, xpwc_fingerprint_id(key)};
  w.bias = key->bias == NULL ? NULL : *place_of(r, key->bias);
  w.kernel = (key->bias != NULL && w.bias == NULL) || r->records == 0 ? NULL : w.kernel;
  return w;
}

// Returns why a look-up missed.
static xpwc_reader_miss reason(const struct xpwc_reader* r, const struct xnn_weights_cache_look_up_key* key, const weight* w) {
  if (r->finalized || r->stats.damaged) {
    return XPWC_READER_MISS_OFF;
  }
  if (r->records == 0) {
    return XPWC_READER_MISS_ABSENT;
  }
  if (w->kernel == NULL || (key->bias != NULL && w->bias == NULL)) {
    return XPWC_READER_MISS_UNNAMED;
  }
  if (r->bytes_named <= XPWC_READER_LITTLE) {
    return XPWC_READER_MISS_LITTLE;
  }
  if (w->kernel->as_sealed && r->program[0] == 0) {
    return XPWC_READER_MISS_NO_PROGRAM;
  }
  if (w->kernel->as_sealed && w->kernel->identities_count == 0) {
    return XPWC_READER_MISS_MODEL;
  }
  return may_hit(r, w->kernel) ? r->miss : XPWC_READER_MISS_PACKING;
}

static size_t look_up(void* context, const struct xnn_weights_cache_look_up_key* key) {
  struct xpwc_reader* r = context;
  const weight w = weight_of(r, key);
  const uint8_t* row = NULL;
  r->miss = XPWC_READER_MISS_LAYOUT;
  if (w.kernel != NULL && may_hit(r, w.kernel) && !r->finalized && !r->stats.damaged &&
      r->bytes_named > XPWC_READER_LITTLE) {
    row = find(r, &w, r->stats.asked ? -1 : presumed_layout(r, &w), NULL, 0);
    row = row == NULL ? find(r, &w, probe_layout(r), NULL, 0) : row;
  }
  r->last_hit = row == NULL ? NULL : r->map + u64(row);
  r->stats.misses += row == NULL;
  r->stats.misses_by[reason(r, key, &w)] += row == NULL;
  r->stats.hits.entries += row != NULL;
  r->stats.hits.bytes += row == NULL ? 0 : u64(row + 8);
  return row == NULL ? SIZE_MAX : (size_t)r->last_hit;
}

static void* reserve_space(void* context, size_t n) {
  struct xpwc_reader* r = context;
  void* memory;
  r->last_hit = NULL;
  if (r->finalized || n > SIZE_MAX - block_alignment - XNN_EXTRA_BYTES ||
      posix_memalign(&memory, block_alignment, block_alignment + n + XNN_EXTRA_BYTES) != 0) {
    return NULL;
  }
  *(void**)memory = r->blocks;
  r->blocks = memory;
  return (char*)memory + block_alignment;
}

static size_t look_up_or_insert(
    void* context, const struct xnn_weights_cache_look_up_key* key, void* packed, size_t size) {
  struct xpwc_reader* r = context;
  if (packed == NULL) { // a convolution passes NULL after its look-up hit
    return (size_t)r->last_hit;
  }
  const weight w = weight_of(r, key);
  const uint8_t* row = NULL;
  for (uint32_t i = 0; w.kernel != NULL && row == NULL && i < r->layouts && i < max_layouts; i++) {
    row = find(r, &w, i, packed, size);
  }
  xpwc_count* count = row != NULL ? &r->stats.shared : &r->stats.packed;
  count->entries++;
  count->bytes += size;
  if (row != NULL && r->blocks != NULL && (char*)r->blocks + block_alignment == packed) {
    void** block = r->blocks;
    r->blocks = *block;
    free(block);
  }
  return row == NULL ? (size_t)packed : (size_t)(r->map + u64(row));
}

static bool is_finalized(void* context) {
  const struct xpwc_reader* r = context;
  return __atomic_load_n(&r->finalized, __ATOMIC_ACQUIRE) != 0;
}

// Called by XNNPACK when it packs a converted copy of a tensor.
static enum xnn_status alias_data(void* context, void* alias, void* original) {
  struct xpwc_reader* r = context;
  const struct tensor* source = *place_of(r, original);
  if (source == NULL) {
    remove_tensor(place_of(r, alias)); // an earlier copy at the address
  } else if (alias != original) {
    put_tensor(r, source->name, alias, source->size, source);
  }
  return xnn_status_success;
}

// The functions of xpwc_reader.h.

void xpwc_reader_digest(const void* data, size_t size, char text[33]) { hexadecimal(digest_of(data, size), text); }

xpwc_status xpwc_reader_digest_fd(int descriptor, uint64_t offset, uint64_t size, char text[33]) {
  struct stat s;
  if (fstat(descriptor, &s) != 0) {
    return XPWC_STATUS_SYSTEM_ERROR;
  }
  const uint64_t end = (uint64_t)s.st_size;
  if (!S_ISREG(s.st_mode) || !lies_in(offset, size, end)) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  size = size == 0 ? end - offset : size;
  if (size == 0) { // there are no empty mappings
    xpwc_reader_digest("", 0, text);
    return XPWC_STATUS_OK;
  }
  const uint64_t padding = offset % (uint64_t)sysconf(_SC_PAGESIZE);
  if (size > SIZE_MAX - padding) {
    return XPWC_STATUS_OUT_OF_MEMORY;
  }
  const size_t length = (size_t)(padding + size);
  void* map = mmap(NULL, length, PROT_READ, MAP_SHARED, descriptor, (off_t)(offset - padding));
  if (map == MAP_FAILED) {
    return errno == ENOMEM ? XPWC_STATUS_OUT_OF_MEMORY : XPWC_STATUS_SYSTEM_ERROR;
  }
  xpwc_reader_digest((const char*)map + padding, (size_t)size, text);
  munmap(map, length);
  return XPWC_STATUS_OK;
}

static xpwc_status open_cache(struct xpwc_reader* r, uint64_t size, const char* model, bool by_path) {
  if (r->start % alignment_of_payloads != 0 ||
      (model != NULL && (strlen(model) != 32 || strspn(model, "0123456789abcdefABCDEF") != 32))) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  for (size_t i = 0; model != NULL && i < 32; i++) {
    r->model[i] = (char)(model[i] | 0x20); // in lower case; a digit stays what it is
  }
  const enum xpwc_abi linked = xpwc_linked_abi();
  if (linked != xpwc_abi_unknown && linked != xpwc_header_abi()) {
    return XPWC_STATUS_OTHER_XNNPACK;
  }
  struct stat s;
  if (fstat(r->file, &s) != 0) {
    return XPWC_STATUS_SYSTEM_ERROR;
  }
  if (!S_ISREG(s.st_mode)) {
    return XPWC_STATUS_NOT_CACHE;
  }
  if (by_path && ((s.st_mode & 022) != 0 || (s.st_uid != 0 && s.st_uid != geteuid()))) {
    return XPWC_STATUS_UNSAFE_FILE;
  }
  if (!lies_in(r->start, size, (uint64_t)s.st_size)) {
    return XPWC_STATUS_DAMAGED;
  }
  uint8_t slot[slot_size] = {0}; // generation 0: no commit
  xpwc_status status = read_header(r, size == 0 ? (uint64_t)s.st_size - r->start : size, slot);
  if (status == XPWC_STATUS_OK && u64(slot) > 0) {
    status = read_index(r, slot);
    status = status == XPWC_STATUS_OK ? map_file(r) : status;
  }
  return status;
}

static xpwc_status open_file(int file, uint64_t offset, uint64_t size, const char* model, bool by_path, xpwc_reader** out) {
  struct xpwc_reader* r = calloc(1, sizeof(*r));
  xpwc_status status = XPWC_STATUS_OUT_OF_MEMORY;
  if (r != NULL) {
    xpwc_bare_provider_init(&r->provider, r, look_up, reserve_space, look_up_or_insert);
    r->provider.callbacks.is_finalized = is_finalized;
    xpwc_set_alias_data(&r->provider.callbacks, alias_data);
    r->file = file;
    r->start = offset;
    status = open_cache(r, size, model, by_path);
  }
  const int error = errno;
  if (by_path) {
    close(file);
  }
  if (status != XPWC_STATUS_OK) {
    xpwc_reader_close(r);
  }
  *out = status == XPWC_STATUS_OK ? r : NULL;
  errno = error;
  return status;
}

xpwc_status xpwc_reader_open(const char* path, const char* model, xpwc_reader** reader) {
  if (path == NULL || reader == NULL) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  *reader = NULL;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // do not wait for a pipe's writer
  return file < 0 ? XPWC_STATUS_SYSTEM_ERROR : open_file(file, 0, 0, model, true, reader);
}

xpwc_status xpwc_reader_open_fd(int descriptor, uint64_t offset, uint64_t size, const char* model, xpwc_reader** reader) {
  return reader == NULL ? XPWC_STATUS_INVALID_ARGUMENT : open_file(descriptor, offset, size, model, false, reader);
}

void xpwc_reader_close(xpwc_reader* r) {
  if (r == NULL) {
    return;
  }
  for (void** block = r->blocks; block != NULL; block = r->blocks) {
    r->blocks = *block;
    free(block);
  }
  xpwc_reader_forget(r);
  free(r->sizes.data);
  free(r->evidence.data);
  free(r->zeros.bytes);
  free(r->seals);
  free(r->index);
  if (r->map != NULL) {
    munmap(r->map - r->padding, r->padding + (size_t)r->end);
  }
  free(r);
}

// Adds the packing identities of a tensor in records sealed for the program, or for the model if there are none.
// Returns false if memory is exhausted.
static bool add_sealed_ways(struct xpwc_reader* r, struct tensor* t) {
  digest stamp = t->program;
  const struct seal* s = find_seal(r, stamp, 0);
  if (s == NULL) {
    stamp = t->stamp;
    s = find_seal(r, stamp, 0);
  }
  bool added = true;
  const struct seal* end = r->seals + sorted_seals(r);
  for (; added && s != NULL && s < end && equal(s->stamp, stamp) && t->identities_count < max_identities; s++) {
    if (s->record < r->records) {
      const uint8_t* row = row_at(r, s->record);
      const struct identity sealed = {digest_at(row + 68), family_at(row + 43), 0};
      added = add_identity(t, &sealed);
    }
  }
  return added;
}

static xpwc_status name_tensor(
    xpwc_reader* r, const char* name, const void* data, size_t size, const struct xpwc_packing* packing, bool as_sealed) {
  if (r == NULL || name == NULL || (data == NULL && size > 0) || (packing != NULL && !is_packing(packing))) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  if (r->finalized) {
    return XPWC_STATUS_FINALIZED;
  }
  struct tensor* t = *place_of(r, data);
  if (t == NULL || t->original != data || strcmp(t->name, name) != 0 || t->size != size) { // or a copy of that name
    t = put_tensor(r, name, data, size, as_sealed ? t : NULL); // of several sealed names all packings count
  }
  if (t != NULL) {
    t->as_sealed = as_sealed;
  }
  struct identity id;
  bool put = t != NULL && (packing == NULL || (identify(packing, &id) && add_identity(t, &id)));
  r->has_other_names |= as_sealed && !is_hash(name);
  if (put && as_sealed) {
    put = add_sealed_ways(r, t);
  }
  if (!put) {
    remove_tensor(place_of(r, data)); // incomplete: its look-ups must miss
  }
  return put ? XPWC_STATUS_OK : XPWC_STATUS_OUT_OF_MEMORY;
}

xpwc_status xpwc_reader_name(
    xpwc_reader* r, const char* name, const void* data, size_t size, const struct xpwc_packing* packing) {
  return name_tensor(r, name, data, size, packing, false);
}

xpwc_status xpwc_reader_name_as_sealed(xpwc_reader* r, const char* name, const void* data, size_t size) {
  return name_tensor(r, name, data, size, NULL, true);
}

xpwc_status xpwc_reader_set_program(xpwc_reader* r, const void* data, size_t size) {
  if (r == NULL || data == NULL || size == 0) {
    return XPWC_STATUS_INVALID_ARGUMENT;
  }
  if (r->finalized) {
    return XPWC_STATUS_FINALIZED;
  }
  xpwc_reader_forget(r); // drops the stamps of the previous program
  hexadecimal(digest_of(data, size), r->program);
  return XPWC_STATUS_OK;
}

void xpwc_reader_forget(xpwc_reader* r) {
  for (size_t i = 0; i < buckets; i++) {
    while (r->tensors[i] != NULL) {
      remove_tensor(&r->tensors[i]);
    }
  }
  for (uint64_t i = 0; i < r->records; i++) {
    r->served[i] &= ever_served;
  }
  r->program[0] = 0;
  r->has_other_names = false;
}

xnn_weights_cache_t xpwc_reader_provider(xpwc_reader* r) { return &r->provider.callbacks; }

void xpwc_reader_finalize(xpwc_reader* r) { __atomic_store_n(&r->finalized, 1, __ATOMIC_RELEASE); }

const char* xpwc_reader_reason(const xpwc_reader* r) {
  static const char* const sentences[XPWC_READER_MISSES] = {
      [XPWC_READER_MISS_UNNAMED] = "XNNPACK looked up tensors without a name: name each one that goes to xnn_define_... "
                                   "(xpwc_reader_name)",
      [XPWC_READER_MISS_LITTLE] = "the tensors have at most 64 KiB together, which is packed sooner than looked up",
      [XPWC_READER_MISS_PACKING] = "kernels were named without all that decides how they are packed: give "
                                   "xpwc_reader_name a packing with the shape",
      [XPWC_READER_MISS_NO_PROGRAM] = "kernels without a packing are packed and compared: give their program, which has the "
                                      "shapes, with xpwc_reader_set_program before they are named",
      [XPWC_READER_MISS_MODEL] = "the file is sealed for another program and another model, or has no such tensors: take the "
                                 "digest and the file from one xpwc pack --sealed of this model",
      [XPWC_READER_MISS_LAYOUT] = "the file was packed for machines on which XNNPACK packs otherwise than here: pack it on "
                                  "such a machine, with this XNNPACK",
      [XPWC_READER_MISS_CONTENT] = "the file has entries of that name, packed from other content or of another size: pack "
                                   "this model",
      [XPWC_READER_MISS_ABSENT] = "the file has no entries of that name and packing: pack this model, as the host packs it",
      [XPWC_READER_MISS_OFF] = "the reader was finalized before, or its file was found damaged",
  };
  size_t top = 0;
  for (size_t i = 1; i < XPWC_READER_MISSES; i++) {
    top = r->stats.misses_by[i] > r->stats.misses_by[top] ? i : top;
  }
  return r->stats.misses_by[top] == 0 ? "" : sentences[top];
}

const char* xpwc_reader_status_string(xpwc_status status) { return xpwc_name_of_status(status); }

void xpwc_reader_error(xpwc_status status, char* text, size_t capacity) {
  const char* name = xpwc_name_of_status(status);
  switch (status) {
    case XPWC_STATUS_SYSTEM_ERROR:
      snprintf(text, capacity, "%s: the file cannot be read: %s", name, strerror(errno));
      return;
    case XPWC_STATUS_OTHER_XNNPACK:
      snprintf(
          text, capacity, "%s: xpwc_reader.c was compiled for %s, and the program is linked with %s: compile it with the header "
          "of that XNNPACK", name, xpwc_abi_name(xpwc_header_abi()), xpwc_abi_name(xpwc_linked_abi()));
      return;
    case XPWC_STATUS_NOT_CACHE:
      snprintf(text, capacity, "%s: the file is none of xpwc's", name);
      return;
    case XPWC_STATUS_VERSION_MISMATCH:
      snprintf(text, capacity, "%s: the file has a format that this reader does not read: pack it with xpwc %s", name, XPWC_VERSION);
      return;
    case XPWC_STATUS_DAMAGED:
      snprintf(text, capacity, "%s: the file was read, and is damaged or ends too early: copy or pack it again", name);
      return;
    case XPWC_STATUS_UNSAFE_FILE:
      snprintf(text, capacity, "%s: the file is another user's, or others can write to it: correct its owner and mode", name);
      return;
    case XPWC_STATUS_INVALID_ARGUMENT:
      snprintf(
          text, capacity, "%s: a pointer is NULL, the offset is no multiple of 64, the digest has not 32 hexadecimal digits, or "
          "the packing makes no sense", name);
      return;
    case XPWC_STATUS_FINALIZED:
      snprintf(text, capacity, "%s: name tensors before xpwc_reader_finalize", name);
      return;
    default:
      snprintf(text, capacity, "%s", name);
  }
}

void xpwc_reader_get_stats(const xpwc_reader* r, xpwc_reader_stats* stats) { *stats = r->stats; }

xpwc_status xpwc_reader_verify(xpwc_reader* r) {
  for (uint64_t i = 0; i < r->records && !r->stats.damaged; i++) {
    const uint8_t* row = row_at(r, i);
    r->stats.damaged = r->served[i] != 0 && !equal(digest_of(r->map + u64(row), (size_t)u64(row + 8)), digest_at(row + 16));
  }
  return r->stats.damaged ? XPWC_STATUS_DAMAGED : XPWC_STATUS_OK;
}

#ifdef XPWC_READER_TEST
#include "testdata/entries.c"
#endif
