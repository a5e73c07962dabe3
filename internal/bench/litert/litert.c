// A host of LiteRT, for make bench-peers: it loads a model on the CPU with one thread and runs it.
//
//   litert MODEL CACHE OUTPUT
//
// CACHE is the file of LiteRT's cache of packed weights, or empty. The outputs of the first answer are written to
// OUTPUT, one after the other. What it took is printed as JSON, as examples/executorch does. Then the program stays,
// so that its memory can be looked at, until standard input ends.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
	int32_t element_type, layout[17];
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

static double milliseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

enum { most = 16 }; // inputs, and outputs

static LiteRtEnvironment environment;
static LiteRtModel model;
static LiteRtCompiledModel compiled;
static LiteRtTensorBuffer inputs[most], outputs[most];
static size_t input_count, output_count;

static void load(const char *path, const char *cache) {
	char *cpu_options = NULL; // which LiteRT frees
	LiteRtOptions options;
	LiteRtOpaqueOptions opaque;
	LiteRtSignature signature;
	LiteRtTensor tensor;
	LiteRtRankedTensorType type;
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
		DO(LiteRtGetCompiledModelInputBufferRequirements(compiled, 0, i, &needs));
		DO(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &inputs[i]));
	}
	for (size_t i = 0; i < output_count; i++) {
		DO(LiteRtGetSignatureOutputTensorByIndex(signature, i, &tensor));
		DO(LiteRtGetRankedTensorType(tensor, &type));
		DO(LiteRtGetCompiledModelOutputBufferRequirements(compiled, 0, i, &needs));
		DO(LiteRtCreateManagedTensorBufferFromRequirements(environment, &type, needs, &outputs[i]));
	}
}

// fill gives each input the numbers that xpwc bench gives it.
static void fill(void) {
	for (size_t i = 0; i < input_count; i++) {
		void *values;
		size_t size;
		DO(LiteRtGetTensorBufferPackedSize(inputs[i], &size));
		DO(LiteRtLockTensorBuffer(inputs[i], &values, lock_write));
		for (uint32_t j = 0; j < size / sizeof(float); j++)
			((float *)values)[j] = (float)(uint32_t)(j * 2654435761u) / 4294967296.0f;
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

static int by_value(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// steady returns the median of inferences, as many as xpwc bench takes it of.
static double steady(void) {
	enum { least = 5, most_times = 50 };
	double times[most_times], sum = 0;
	int n = 0;
	while (n < least || (n < most_times && sum < 1000)) sum += times[n++] = infer();
	qsort(times, n, sizeof *times, by_value);
	return times[n / 2];
}

int main(int argc, char **argv) {
	LiteRtEnvOption only_cpu[] = {
		{tag_auto_register_accelerators, {any_int, accelerator_cpu}},
		{tag_min_logger_severity, {any_int, severity_error}},
	};
	if (argc != 4) {
		fprintf(stderr, "litert MODEL CACHE OUTPUT\n");
		return 2;
	}
	DO(LiteRtCreateEnvironment(2, only_cpu, &environment));
	double start = milliseconds();
	load(argv[1], argv[2]);
	double load_ms = milliseconds() - start;
	fill();
	double first_ms = infer();
	save(argv[3]);
	printf("{\"load_ms\": %f, \"methods\": [{\"first_inference_ms\": %f, \"steady_inference_ms\": %f}]}\n", load_ms,
		first_ms, steady());
	fflush(stdout);
	while (getchar() != EOF) {
	}
}
