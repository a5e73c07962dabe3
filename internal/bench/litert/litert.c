// A host of LiteRT, for make bench-peers: it loads a model on the CPU with one thread and runs it.
//
//   litert MODEL CACHE OUTPUT [INPUT...]
//
// CACHE is the file of LiteRT's cache of packed weights, or empty. INPUT are files with the bytes of the inputs; where
// there is none, the input has the numbers that xpwc bench gives it. With any, no steady time is measured. The outputs of
// the first answer are written to OUTPUT, one after the other. What it took is printed as JSON, as examples/executorch
// does. Then the program stays, so that its memory can be looked at, until standard input ends. For each line there it
// answers once more, writes OUTPUT again and prints a line.
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../peers/timing.h"

// LiteRT's wheel has no headers. These are the declarations of litert/c in its sources of version 2.3.
typedef struct LiteRtEnvironmentT *LiteRtEnvironment;
typedef struct LiteRtModelT *LiteRtModel;
typedef struct LiteRtOptionsT *LiteRtOptions;
typedef struct LiteRtOpaqueOptionsT *LiteRtOpaqueOptions;
typedef struct LiteRtCompiledModelT *LiteRtCompiledModel;
typedef struct LiteRtSignatureT *LiteRtSignature;
typedef struct LiteRtTensorT *LiteRtTensor;
typedef struct LiteRtTensorBufferT *LiteRtTensorBuffer;
typedef struct LiteRtTensorBufferRequirementsT *LiteRtTensorBufferRequirements;
typedef struct {
	unsigned int rank : 7, has_strides : 1;
	int32_t dimensions[8], strides[8];
} LiteRtLayout;
typedef struct {
	int32_t element_type;
	LiteRtLayout layout;
} LiteRtRankedTensorType;
typedef struct {
	int type;
	int64_t value;
} LiteRtAny;
typedef struct {
	int tag;
	LiteRtAny value;
} LiteRtEnvOption;

enum { tag_auto_register_accelerators = 24, tag_min_logger_severity = 25 }; // LiteRtEnvOptionTag
enum { accelerator_cpu = 1 };                                               // LiteRtHwAccelerators
enum { lock_read = 0, lock_write = 1 };                                     // LiteRtTensorBufferLockMode
enum { any_int = 2, severity_error = 3 };

int LiteRtCreateEnvironment(int, const LiteRtEnvOption *, LiteRtEnvironment *);
int LiteRtCreateModelFromFile(LiteRtEnvironment, const char *, LiteRtModel *);
int LiteRtCreateOptions(LiteRtOptions *);
int LiteRtSetOptionsHardwareAccelerators(LiteRtOptions, int);
int LiteRtCreateOpaqueOptions(const char *, void *, void (*)(void *), LiteRtOpaqueOptions *);
int LiteRtAddOpaqueOptions(LiteRtOptions, LiteRtOpaqueOptions);
int LiteRtCreateCompiledModel(LiteRtEnvironment, LiteRtModel, LiteRtOptions, LiteRtCompiledModel *);
int LiteRtGetModelSignature(LiteRtModel, size_t, LiteRtSignature *);
int LiteRtGetNumSignatureInputs(LiteRtSignature, size_t *);
int LiteRtGetNumSignatureOutputs(LiteRtSignature, size_t *);
int LiteRtGetSignatureInputTensorByIndex(LiteRtSignature, size_t, LiteRtTensor *);
int LiteRtGetSignatureOutputTensorByIndex(LiteRtSignature, size_t, LiteRtTensor *);
int LiteRtGetRankedTensorType(LiteRtTensor, LiteRtRankedTensorType *);
int LiteRtCompiledModelResizeInputTensor(LiteRtCompiledModel, size_t, size_t, const int *, size_t);
int LiteRtGetCompiledModelOutputTensorLayouts(LiteRtCompiledModel, size_t, size_t, LiteRtLayout *, bool);
int LiteRtGetCompiledModelInputBufferRequirements(LiteRtCompiledModel, size_t, size_t,
	LiteRtTensorBufferRequirements *);
int LiteRtGetCompiledModelOutputBufferRequirements(LiteRtCompiledModel, size_t, size_t,
	LiteRtTensorBufferRequirements *);
int LiteRtCreateManagedTensorBufferFromRequirements(LiteRtEnvironment, const LiteRtRankedTensorType *,
	LiteRtTensorBufferRequirements, LiteRtTensorBuffer *);
int LiteRtGetTensorBufferPackedSize(LiteRtTensorBuffer, size_t *);
int LiteRtLockTensorBuffer(LiteRtTensorBuffer, void **, int);
int LiteRtUnlockTensorBuffer(LiteRtTensorBuffer);
int LiteRtRunCompiledModel(LiteRtCompiledModel, size_t, size_t, LiteRtTensorBuffer *, size_t, LiteRtTensorBuffer *);

#define DO(call) succeed(call, #call)

static void succeed(int status, const char *call) {
	if (status == 0) return;
	fprintf(stderr, "litert: %s failed: status %d\n", call, status);
	exit(1);
}

enum { most = 16 }; // inputs, and outputs

static LiteRtEnvironment environment;
static LiteRtModel model;
static LiteRtCompiledModel compiled;
static LiteRtTensorBuffer inputs[most], outputs[most];
static size_t input_count, output_count;

// close_open makes the first dimension that a model leaves open what an input's file has elements for, of 4 bytes, and all
// others 1. It returns whether there are any.
static bool close_open(LiteRtLayout *l, const char *file) {
	int32_t *first = NULL;
	long elements = 1;
	for (unsigned i = 0; i < l->rank; i++) {
		if (l->dimensions[i] >= 0) {
			elements *= l->dimensions[i];
			continue;
		}
		l->dimensions[i] = 1;
		if (first == NULL) first = &l->dimensions[i];
	}
	struct stat s;
	if (first != NULL && file != NULL && stat(file, &s) == 0) *first = s.st_size / 4 / elements;
	return first != NULL;
}

// clear makes a buffer zeros: LiteRT writes only one of two outputs that are the same tensor.
static void clear(LiteRtTensorBuffer buffer) {
	void *values;
	size_t size;
	DO(LiteRtGetTensorBufferPackedSize(buffer, &size));
	DO(LiteRtLockTensorBuffer(buffer, &values, lock_write));
	memset(values, 0, size);
	DO(LiteRtUnlockTensorBuffer(buffer));
}

static void load(const char *path, const char *cache, char **files, size_t count) {
	char *cpu_options = NULL; // which LiteRT frees
	LiteRtOptions options;
	LiteRtOpaqueOptions opaque;
	LiteRtSignature signature;
	LiteRtTensor tensor;
	LiteRtRankedTensorType type;
	LiteRtLayout layouts[most];
	LiteRtTensorBufferRequirements needs;
	const char *form = *cache ? "num_threads = 1\nweight_cache_file_path = \"%s\"\n" : "num_threads = 1\n%s";
	DO(asprintf(&cpu_options, form, cache) < 0);
	DO(LiteRtCreateModelFromFile(environment, path, &model));
	DO(LiteRtCreateOptions(&options));
	DO(LiteRtSetOptionsHardwareAccelerators(options, accelerator_cpu));
	DO(LiteRtCreateOpaqueOptions("xnnpack", cpu_options, free, &opaque));
	DO(LiteRtAddOpaqueOptions(options, opaque));
	DO(LiteRtCreateCompiledModel(environment, model, options, &compiled));
	DO(LiteRtGetModelSignature(model, 0, &signature));
	DO(LiteRtGetNumSignatureInputs(signature, &input_count));
	DO(LiteRtGetNumSignatureOutputs(signature, &output_count));
	DO(input_count > most || output_count > most);
	for (size_t i = 0; i < input_count; i++) {
		DO(LiteRtGetSignatureInputTensorByIndex(signature, i, &tensor));
		DO(LiteRtGetRankedTensorType(tensor, &type));
		if (close_open(&type.layout, i < count ? files[i] : NULL)) {
			const LiteRtLayout *l = &type.layout;
			DO(LiteRtCompiledModelResizeInputTensor(compiled, 0, i, l->dimensions, l->rank));
		}
		DO(LiteRtGetCompiledModelInputBufferRequirements(compiled, 0, i, &needs));
		DO(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &inputs[i]));
	}
	DO(LiteRtGetCompiledModelOutputTensorLayouts(compiled, 0, output_count, layouts, true));
	for (size_t i = 0; i < output_count; i++) {
		DO(LiteRtGetSignatureOutputTensorByIndex(signature, i, &tensor));
		DO(LiteRtGetRankedTensorType(tensor, &type));
		type.layout = layouts[i];
		DO(LiteRtGetCompiledModelOutputBufferRequirements(compiled, 0, i, &needs));
		DO(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &outputs[i]));
		clear(outputs[i]);
	}
}

static void read_input(const char *path, void *values, size_t size) {
	FILE *f = fopen(path, "r");
	DO(!f || fread(values, 1, size, f) != size || getc(f) != EOF || fclose(f));
}

// make_up gives an input the numbers that xpwc bench gives it.
static void make_up(size_t i, void *values, size_t size) {
	enum { boolean = 6, float32 = 1 }; // LiteRtElementType
	LiteRtSignature signature;
	LiteRtTensor tensor;
	LiteRtRankedTensorType type;
	size_t elements = 1;
	DO(LiteRtGetModelSignature(model, 0, &signature));
	DO(LiteRtGetSignatureInputTensorByIndex(signature, i, &tensor));
	DO(LiteRtGetRankedTensorType(tensor, &type));
	for (unsigned d = 0; d < type.layout.rank; d++)
		if (type.layout.dimensions[d] > 0) elements *= type.layout.dimensions[d];
	memset(values, 0, size);
	for (uint32_t j = 0; j < elements; j++) {
		uint32_t hash = j * 2654435761u;
		if (type.element_type == float32)
			((float *)values)[j] = (float)hash / 4294967296.0f;
		else // the least byte of an integer: a long one may be an id
			((uint8_t *)values)[j * (size / elements)] =
				hash >> (type.element_type == boolean || size / elements >= 4 ? 31 : 24);
	}
}

// fill gives each input the bytes of its file, or made-up numbers.
static void fill(char **files, size_t count) {
	for (size_t i = 0; i < input_count; i++) {
		void *values;
		size_t size;
		DO(LiteRtGetTensorBufferPackedSize(inputs[i], &size));
		DO(LiteRtLockTensorBuffer(inputs[i], &values, lock_write));
		if (i < count)
			read_input(files[i], values, size);
		else
			make_up(i, values, size);
		DO(LiteRtUnlockTensorBuffer(inputs[i]));
	}
}

static double infer(void) {
	double start = milliseconds();
	DO(LiteRtRunCompiledModel(compiled, 0, input_count, inputs, output_count, outputs));
	return milliseconds() - start;
}

static void save(const char *path) {
	FILE *f = fopen(path, "w");
	for (size_t i = 0; f && i < output_count; i++) {
		void *values;
		size_t size;
		DO(LiteRtGetTensorBufferPackedSize(outputs[i], &size));
		DO(LiteRtLockTensorBuffer(outputs[i], &values, lock_read));
		DO(fwrite(values, 1, size, f) != size);
		DO(LiteRtUnlockTensorBuffer(outputs[i]));
	}
	DO(!f || fclose(f));
}

int main(int argc, char **argv) {
	LiteRtEnvOption only_cpu[] = {
		{tag_auto_register_accelerators, {any_int, accelerator_cpu}},
		{tag_min_logger_severity, {any_int, severity_error}},
	};
	if (argc < 4) {
		fprintf(stderr, "litert MODEL CACHE OUTPUT [INPUT...]\n");
		return 2;
	}
	DO(LiteRtCreateEnvironment(2, only_cpu, &environment));
	bool together = loads_together();
	double start = milliseconds(), start_processor = processor_ms();
	load(argv[1], argv[2], argv + 4, argc - 4);
	double load_ms = milliseconds() - start, load_processor_ms = processor_ms() - start_processor;
	if (together) return printf("{\"load_ms\": %f}\n", load_ms) < 0;
	fill(argv + 4, argc - 4);
	double start_first = processor_ms(), first_ms = infer();
	double answer_processor_ms = load_processor_ms + processor_ms() - start_first;
	save(argv[3]);
	printf("{\"load_ms\": %f, \"load_processor_ms\": %f, \"answer_processor_ms\": %f, "
		"\"methods\": [{\"first_inference_ms\": %f, \"steady_inference_ms\": %f}]}\n",
		load_ms, load_processor_ms, answer_processor_ms, first_ms, steady(infer));
	fflush(stdout);
	for (int c; (c = getchar()) != EOF;) {
		if (c != '\n') continue;
		infer();
		save(argv[3]);
		puts("answered");
		fflush(stdout);
	}
}
