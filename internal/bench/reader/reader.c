// A host in C that runs a chain of internal/generated with the reader, for make bench-peers.
//
//   reader MODEL float32|int8 CACHE OUTPUT [DIGEST]
//
// CACHE is a sealed file, or empty: then XNNPACK packs. DIGEST is that of the model. It prints and writes what the other
// hosts do, with one thread, and stays until standard input ends. All of a matrix must come from the file, if there is one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../peers/timing.h"
#include "xpwc_reader.h"

enum { width = 2048, hidden = 8192, data_offset = 1 << 16 };

#define DO(call) succeed((int)(call), #call)

static void succeed(int status, const char *call) {
	if (status == 0) return;
	fprintf(stderr, "reader: %s failed: status %d\n", call, status);
	exit(1);
}

static xpwc_reader *reader;
static size_t matrices;
static xnn_runtime_t runtime;
static float *scales, input[width + XNN_EXTRA_BYTES], output[width + XNN_EXTRA_BYTES];

static uint32_t layer(xnn_subgraph_t subgraph, size_t i, uint32_t x, const char *data, bool quantized) {
	const size_t in = i % 2 ? hidden : width, out = i % 2 ? width : hidden;
	const size_t dims[] = {out, in}, row[] = {1, in}, result[] = {1, out};
	const uint32_t last = i + 1 == matrices;
	const uint32_t flags = last ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0;
	uint32_t kernel, y;
	struct xpwc_packing p = {.struct_size = sizeof p, .operator_type = XPWC_OPERATOR_FULLY_CONNECTED, .dim_count = 2,
		.dims = dims};
	p.input.datatype = p.kernel.datatype = p.output.datatype = xnn_datatype_fp32;
	if (quantized) {
		uint32_t converted;
		const float scale = (float)(sqrt(3 / (double)in) / 127);
		for (size_t k = 0; k < out; k++) scales[k] = scale;
		DO(xnn_define_dynamically_quantized_tensor_value(subgraph, xnn_datatype_qdint8, 2, 1, row, XNN_INVALID_VALUE_ID,
			0, &converted));
		DO(xnn_define_unary(subgraph, xnn_unary_convert, NULL, x, converted, 0));
		x = converted;
		DO(xnn_define_channelwise_quantized_tensor_value(subgraph, xnn_datatype_qcint8, scales, 2, 0, dims, data,
			XNN_INVALID_VALUE_ID, 0, &kernel));
		p.input.datatype = xnn_datatype_qdint8;
		p.input.non_batch_dims = 1;
		p.kernel.datatype = xnn_datatype_qcint8;
		p.kernel.scales = scales;
		p.kernel.scale_count = out;
		scales += out;
	} else {
		DO(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, dims, data, XNN_INVALID_VALUE_ID, 0, &kernel));
	}
	if (reader != NULL) {
		char name[64];
		// The second is what package tflite calls a matrix whose one scale it has made one for each channel of.
		snprintf(name, sizeof name, quantized ? "layers.%zu.weight, by channel" : "layers.%zu.weight", i);
		DO(xpwc_reader_name(reader, name, data, in * out * (quantized ? 1 : sizeof(float)), &p));
	}
	DO(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, result, NULL, last ? 1 : XNN_INVALID_VALUE_ID, flags, &y));
	DO(xnn_define_fully_connected(subgraph, -INFINITY, INFINITY, x, kernel, XNN_INVALID_VALUE_ID, y, 0));
	return y;
}

static void load(const char *model, bool quantized, const char *cache, const char *digest) {
	const size_t matrix = (size_t)width * hidden * (quantized ? 1 : sizeof(float)), shape[] = {1, width};
	struct stat s;
	const int file = open(model, O_RDONLY);
	DO(file < 0 || fstat(file, &s) != 0);
	const char *content = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	DO(content == MAP_FAILED || close(file) != 0);
	matrices = ((size_t)s.st_size - data_offset) / matrix;
	DO(xnn_initialize(NULL));
	if (*cache) DO(xpwc_reader_open(cache, digest, &reader));
	scales = malloc(matrices * hidden * sizeof(float));
	xnn_subgraph_t subgraph;
	xnn_workspace_t workspace;
	uint32_t x;
	DO(scales == NULL || xnn_create_subgraph(2, 0, &subgraph) != xnn_status_success);
	DO(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, NULL, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &x));
	for (size_t i = 0; i < matrices; i++) x = layer(subgraph, i, x, content + data_offset + i * matrix, quantized);
	DO(xnn_create_workspace(&workspace));
	DO(xnn_create_runtime_v4(subgraph, reader ? xpwc_reader_provider(reader) : NULL, workspace, NULL, 0, &runtime));
	DO(xnn_delete_subgraph(subgraph));
	if (reader != NULL) {
		xpwc_reader_stats stats;
		xpwc_reader_finalize(reader);
		xpwc_reader_get_stats(reader, &stats);
		DO(stats.hits.entries != matrices);
	}
	const struct xnn_external_value values[] = {{0, input}, {1, output}};
	DO(xnn_reshape_runtime(runtime));
	DO(xnn_setup_runtime_v2(runtime, 2, values));
}

static double infer(void) {
	const double start = milliseconds();
	DO(xnn_invoke_runtime(runtime));
	return milliseconds() - start;
}

int main(int argc, char **argv) {
	if (argc < 5) {
		fprintf(stderr, "reader MODEL float32|int8 CACHE OUTPUT [DIGEST]\n");
		return 2;
	}
	const bool together = loads_together();
	const double start = milliseconds(), start_processor = processor_ms();
	load(argv[1], strcmp(argv[2], "int8") == 0, argv[3], argc > 5 ? argv[5] : NULL);
	const double load_ms = milliseconds() - start, load_processor_ms = processor_ms() - start_processor;
	if (together) return printf("{\"load_ms\": %f}\n", load_ms) < 0;
	for (uint32_t i = 0; i < width; i++) input[i] = (float)(uint32_t)(i * 2654435761u) / 4294967296.0f;
	const double start_first = processor_ms(), first_ms = infer();
	const double answer_processor_ms = load_processor_ms + processor_ms() - start_first;
	FILE *f = fopen(argv[4], "w");
	DO(!f || fwrite(output, sizeof(float), width, f) != width || fclose(f) != 0);
	printf("{\"load_ms\": %f, \"load_processor_ms\": %f, \"answer_processor_ms\": %f, "
		"\"methods\": [{\"first_inference_ms\": %f, \"steady_inference_ms\": %f}]}\n",
		load_ms, load_processor_ms, answer_processor_ms, first_ms, steady(infer));
	fflush(stdout);
	while (getchar() != EOF) {
	}
}
