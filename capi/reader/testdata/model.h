// A chain of fully connected layers, of float32 or of int8 weights, which lie in a safetensors file with a description
// (xpwc pack), and a host that runs it with the reader.
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "xpwc_reader.h"

#define REQUIRE(condition)                                                                                            \
  do {                                                                                                                \
    if (!(condition)) {                                                                                               \
      fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #condition);                                       \
      exit(1);                                                                                                        \
    }                                                                                                                 \
  } while (0)
#define OK(call) REQUIRE((call) == XPWC_STATUS_OK)
#define DONE(call) REQUIRE((call) == xnn_status_success)

struct chain {
  int quantized;
  size_t layers, width, hidden; // matrices are [hidden, width] and [width, hidden], in turn
  char* bytes;                  // of the file's tensors
};

static size_t inputs_of(const struct chain* c, size_t layer) { return layer % 2 == 0 ? c->width : c->hidden; }
static size_t outputs_of(const struct chain* c, size_t layer) { return layer % 2 == 0 ? c->hidden : c->width; }
static size_t matrix_size(const struct chain* c) { return c->width * c->hidden * (c->quantized ? 1 : sizeof(float)); }
static size_t scales_size(const struct chain* c, size_t layer) {
  return c->quantized ? outputs_of(c, layer) * sizeof(float) : 0;
}

// Layers lie one after the other: scales, if there are any, and matrix.
static size_t offset_of(const struct chain* c, size_t layer) {
  size_t at = 0;
  for (size_t i = 0; i < layer; i++) {
    at += scales_size(c, i) + matrix_size(c);
  }
  return at;
}

static struct chain chain_of(char** words) {
  struct chain c = {strcmp(words[0], "int8") == 0, strtoul(words[1], NULL, 10), strtoul(words[2], NULL, 10),
                    strtoul(words[3], NULL, 10), NULL};
  return c;
}

#define KERNEL_NAME "%064zx" // of a layer, in the form of ExecuTorch's exporter

enum { header_room = 1 << 16 }; // of the safetensors file

static void map_chain(struct chain* c, const char* path) {
  const int fd = open(path, O_RDONLY);
  struct stat s;
  REQUIRE(fd >= 0 && fstat(fd, &s) == 0);
  c->bytes = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  REQUIRE(c->bytes != MAP_FAILED && close(fd) == 0);
  c->bytes += header_room;
}

// Names the tensors, if there is a reader, and defines the subgraph.
static xnn_subgraph_t define_chain(const struct chain* c, xpwc_reader* reader) {
  xnn_subgraph_t subgraph;
  DONE(xnn_create_subgraph(2, 0, &subgraph));
  uint32_t id = 0;
  for (size_t i = 0; i <= c->layers; i++) {
    const size_t shape[] = {1, i == 0 ? c->width : outputs_of(c, i - 1)};
    const uint32_t external = i == 0 ? 0 : i == c->layers ? 1 : XNN_INVALID_VALUE_ID;
    const uint32_t flags = i == 0 ? XNN_VALUE_FLAG_EXTERNAL_INPUT : i == c->layers ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0;
    uint32_t next, kernel;
    DONE(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, NULL, external, flags, &next));
    if (i > 0) {
      const size_t dims[] = {outputs_of(c, i - 1), inputs_of(c, i - 1)};
      const float* scales = (const float*)(const void*)(c->bytes + offset_of(c, i - 1));
      const void* data = c->bytes + offset_of(c, i - 1) + scales_size(c, i - 1);
      struct xpwc_packing p;
      memset(&p, 0, sizeof(p));
      p.struct_size = sizeof(p);
      p.operator_type = XPWC_OPERATOR_FULLY_CONNECTED;
      p.dim_count = 2;
      p.dims = dims;
      p.input.datatype = p.kernel.datatype = p.output.datatype = xnn_datatype_fp32;
      if (c->quantized) {
        const size_t row[] = {1, dims[1]};
        uint32_t converted;
        DONE(xnn_define_dynamically_quantized_tensor_value(
            subgraph, xnn_datatype_qdint8, 2, 1, row, XNN_INVALID_VALUE_ID, 0, &converted));
        DONE(xnn_define_unary(subgraph, xnn_unary_convert, NULL, id, converted, 0));
        id = converted;
        p.input.datatype = xnn_datatype_qdint8;
        p.input.non_batch_dims = 1;
        p.kernel.datatype = xnn_datatype_qcint8;
        p.kernel.scales = scales;
        p.kernel.scale_count = dims[0];
        DONE(xnn_define_channelwise_quantized_tensor_value(
            subgraph, xnn_datatype_qcint8, scales, 2, 0, dims, data, XNN_INVALID_VALUE_ID, 0, &kernel));
      } else {
        DONE(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, dims, data, XNN_INVALID_VALUE_ID, 0, &kernel));
      }
      if (reader != NULL) {
        char name[80];
        sprintf(name, KERNEL_NAME, i - 1);
        OK(xpwc_reader_name(reader, name, data, matrix_size(c), &p));
      }
      DONE(xnn_define_fully_connected(
          subgraph, -INFINITY, INFINITY, id, kernel, XNN_INVALID_VALUE_ID, next, 0));
    }
    id = next;
  }
  return subgraph;
}

struct started {
  xnn_runtime_t runtime;
  xnn_workspace_t workspace;
  float *in, *out;
};

static struct started create_chain(const struct chain* c, xnn_subgraph_t subgraph, xpwc_reader* reader) {
  struct started s;
  DONE(xnn_create_workspace(&s.workspace));
  DONE(xnn_create_runtime_v4(
      subgraph, reader == NULL ? NULL : xpwc_reader_provider(reader), s.workspace, NULL, 0, &s.runtime));
  DONE(xnn_delete_subgraph(subgraph));
  if (reader != NULL) {
    xpwc_reader_finalize(reader);
  }
  const size_t outputs = outputs_of(c, c->layers - 1);
  s.in = malloc(c->width * sizeof(float) + XNN_EXTRA_BYTES);
  s.out = malloc(outputs * sizeof(float) + XNN_EXTRA_BYTES);
  REQUIRE(s.in != NULL && s.out != NULL);
  for (size_t i = 0; i < c->width; i++) {
    s.in[i] = (float)(i % 13) - 6;
  }
  return s;
}

// Runs it once and returns a sum that differs if any output does.
static unsigned long infer_chain(const struct chain* c, struct started* s) {
  const struct xnn_external_value values[] = {{0, s->in}, {1, s->out}};
  DONE(xnn_reshape_runtime(s->runtime));
  DONE(xnn_setup_runtime_v2(s->runtime, 2, values));
  DONE(xnn_invoke_runtime(s->runtime));
  unsigned long sum = 0;
  for (size_t i = 0; i < outputs_of(c, c->layers - 1); i++) {
    unsigned bits;
    memcpy(&bits, &s->out[i], sizeof(bits));
    sum = sum * 31 + bits;
  }
  return sum;
}

static void end_chain(struct started* s) {
  DONE(xnn_delete_runtime(s->runtime));
  DONE(xnn_release_workspace(s->workspace));
  free(s->in);
  free(s->out);
}
