// start write FILE int8|float32 LAYERS WIDTH HIDDEN
// start run FILE int8|float32 LAYERS WIDTH HIDDEN [CACHE MODEL]
//
// A start of a host: what each of its parts takes, in milliseconds, and what the reader did.
#define _GNU_SOURCE
#include "model.h"

#include <sys/resource.h>

static void write_chain(const struct chain* c, const char* path) {
  char name[4096];
  FILE* f = fopen(path, "wb");
  snprintf(name, sizeof(name), "%s.json", path);
  FILE* description = fopen(name, "wb");
  char* header = malloc(header_room);
  REQUIRE(f != NULL && description != NULL && header != NULL);
  memset(header, ' ', header_room);
  size_t n = 8;
  n += (size_t)sprintf(header + n, "{");
  for (size_t i = 0; i < c->layers; i++) {
    const size_t at = offset_of(c, i), scales = scales_size(c, i), in = inputs_of(c, i), out = outputs_of(c, i);
    if (c->quantized) {
      n += (size_t)sprintf(
          header + n, "\"s%zu\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]},", i, out, at, at + scales);
    }
    n += (size_t)sprintf(
        header + n, "%s\"" KERNEL_NAME "\":{\"dtype\":\"%s\",\"shape\":[%zu,%zu],\"data_offsets\":[%zu,%zu]}", "", i,
        c->quantized ? "I8" : "F32", out, in, at + scales, at + scales + matrix_size(c));
    n += (size_t)sprintf(header + n, i + 1 < c->layers ? "," : "}");
    REQUIRE(n < header_room - 256);
    fprintf(description, "%s{\"op\":\"fully_connected\",\"datatype\":\"%s\",\"weights\":\"" KERNEL_NAME "\"", i == 0 ? "[" : ",\n",
            c->quantized ? "qd8_f32_qc8w" : "f32", i);
    fprintf(description, c->quantized ? ",\"scales\":\"s%zu\"}" : "}", i);
  }
  fprintf(description, "]\n");
  header[n] = ' ';
  const unsigned long long length = header_room - 8;
  memcpy(header, &length, 8);
  REQUIRE(fwrite(header, 1, header_room, f) == header_room);
  unsigned state = 1;
  char* matrix = malloc(matrix_size(c));
  float* scales = malloc((c->hidden + c->width) * sizeof(float));
  REQUIRE(matrix != NULL && scales != NULL);
  for (size_t i = 0; i < c->layers; i++) {
    for (size_t k = 0; k < outputs_of(c, i); k++) {
      scales[k] = (1 + (float)(k % 7) / 8) / (float)(64 * inputs_of(c, i));
    }
    REQUIRE(fwrite(scales, 1, scales_size(c, i), f) == scales_size(c, i));
    for (size_t k = 0; k < c->width * c->hidden; k++) {
      state = state * 1664525 + 1013904223;
      if (c->quantized) {
        matrix[k] = (char)(signed char)((int)(state >> 24) - 128);
      } else {
        ((float*)(void*)matrix)[k] = ((float)(state >> 8) / (1 << 23) - 1) / (float)inputs_of(c, i);
      }
    }
    REQUIRE(fwrite(matrix, 1, matrix_size(c), f) == matrix_size(c));
  }
  free(scales);
  free(matrix);
  free(header);
  REQUIRE(fclose(f) == 0 && fclose(description) == 0);
}

// Page faults of this process, and what it has had the system do, in milliseconds.
static long faults(double* system) {
  struct rusage u;
  REQUIRE(getrusage(RUSAGE_SELF, &u) == 0);
  *system = (double)u.ru_stime.tv_sec * 1e3 + (double)u.ru_stime.tv_usec / 1e3;
  return u.ru_minflt;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
  REQUIRE(argc == 7 || argc == 9);
  struct chain c = chain_of(argv + 3);
  if (strcmp(argv[1], "write") == 0) {
    write_chain(&c, argv[2]);
    return 0;
  }
  map_chain(&c, argv[2]);
  DONE(xnn_initialize(NULL));
  xpwc_reader* reader = NULL;
  double at[7] = {now()};
  if (argc == 9) {
    OK(xpwc_reader_open(argv[7], argv[8], &reader));
  }
  at[1] = now();
  xnn_subgraph_t subgraph = define_chain(&c, reader);
  at[2] = now();
  struct started s = create_chain(&c, subgraph, reader);
  double before, after;
  const long had = faults(&before);
  at[3] = now();
  const unsigned long first = infer_chain(&c, &s);
  at[4] = now();
  const long taken = faults(&after) - had;
  REQUIRE(infer_chain(&c, &s) == first);
  at[5] = now();
  printf("open %.3f define %.3f create %.3f load %.3f first %.3f faults %ld system %.3f second %.3f sum %lx", at[1] - at[0], at[2] - at[1],
         at[3] - at[2], at[3] - at[0], at[4] - at[3], taken,
         after - before, at[5] - at[4], first);
  if (reader != NULL) {
    xpwc_reader_stats stats;
    xpwc_reader_get_stats(reader, &stats);
    printf(" hits %lu misses %lu shared %lu packed %lu asked %d %s", (unsigned long)stats.hits.entries,
           (unsigned long)stats.misses, (unsigned long)stats.shared.entries, (unsigned long)stats.packed.entries,
           stats.asked, xpwc_reader_reason(reader));
  }
  printf("\n");
  end_chain(&s);
  xpwc_reader_close(reader);
  return 0;
}
