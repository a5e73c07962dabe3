// A host of llama.cpp, for make bench-llm; answers.h tells how it is started. MODEL is a GGUF file. CACHE is the
// directory of ggml's libraries for each CPU: llama.cpp has no cache of packed weights.
#include <stdbool.h>
#include <stdint.h>

#include "answers.h"

// The declarations of llama.cpp's C API, as far as they are needed: the package has no headers. The structs of
// parameters have more members than these, which keep their defaults.
typedef struct {
	char members[256];
} model_params;
typedef struct {
	uint32_t context_tokens;
	char members[508];
} context_params;
typedef struct {
	int32_t count;
	int32_t *tokens;
	void *embeddings, *positions, *sequence_counts, *sequences, *outputs;
} batch;

void ggml_backend_load_all_from_path(const char *dir);
void llama_backend_init(void);
void llama_log_set(void (*log)(int level, const char *text, void *data), void *data);
model_params llama_model_default_params(void);
void *llama_model_load_from_file(const char *path, model_params params);
context_params llama_context_default_params(void);
void *llama_init_from_model(void *model, context_params params);
void llama_set_n_threads(void *context, int32_t threads, int32_t prompt_threads);
const void *llama_model_get_vocab(const void *model);
int32_t llama_vocab_n_tokens(const void *vocabulary);
bool llama_vocab_is_eog(const void *vocabulary, int32_t token);
int32_t llama_tokenize(const void *vocabulary, const char *text, int32_t length, int32_t *tokens, int32_t most,
	bool add_special, bool parse_special);
int32_t llama_token_to_piece(const void *vocabulary, int32_t token, char *text, int32_t size, int32_t skipped,
	bool special);
batch llama_batch_get_one(int32_t *tokens, int32_t count);
int32_t llama_decode(void *context, batch tokens);
float *llama_get_logits_ith(void *context, int32_t index);
void *llama_get_memory(const void *context);
void llama_memory_clear(void *memory, bool data);

enum { context_size = 512 };

static void die(const char *message) {
	fprintf(stderr, "llama_cpp: %s\n", message);
	exit(1);
}

static void log_nothing(int level, const char *text, void *data) {
	(void)level, (void)text, (void)data;
}

static int32_t likeliest(const float *logits, int32_t count) {
	int32_t best = 0;
	for (int32_t i = 1; i < count; i++)
		if (logits[i] > logits[best]) best = i;
	return best;
}

// answer_prompt begins a new text.
static void answer_prompt(void *context, const void *vocabulary, const char *prompt, int limit, answer *a) {
	int32_t tokens[context_size], next;
	char piece[256];
	llama_memory_clear(llama_get_memory(context), true);
	memset(a, 0, sizeof *a);
	a->prompt_tokens = llama_tokenize(vocabulary, prompt, strlen(prompt), tokens, context_size, false, false);
	if (a->prompt_tokens <= 0) die("the prompt has no tokens, or too many");
	batch b = llama_batch_get_one(tokens, a->prompt_tokens);
	for (;;) {
		if (llama_decode(context, b) != 0) die("decode failed");
		next = likeliest(llama_get_logits_ith(context, -1), llama_vocab_n_tokens(vocabulary));
		if (llama_vocab_is_eog(vocabulary, next)) return;
		int32_t size = llama_token_to_piece(vocabulary, next, piece, sizeof piece - 1, 0, false);
		piece[size < 0 ? 0 : size] = '\0';
		add(a, piece);
		if (a->tokens == limit) return;
		b = llama_batch_get_one(&next, 1);
	}
}

int main(int argc, char **argv) {
	if (argc != 7) {
		fprintf(stderr, "llama_cpp MODEL LIBRARIES THREADS TOKENS PROMPT LONG_PROMPT\n");
		return 2;
	}
	static answer a;
	const int threads = atoi(argv[3]), limit = atoi(argv[4]);
	llama_log_set(log_nothing, NULL);
	ggml_backend_load_all_from_path(argv[2]);
	llama_backend_init();
	void *model = llama_model_load_from_file(argv[1], llama_model_default_params());
	if (model == NULL) die("no model");
	context_params params = llama_context_default_params();
	params.context_tokens = context_size;
	void *context = llama_init_from_model(model, params);
	if (context == NULL) die("no context");
	llama_set_n_threads(context, threads, threads);
	answer_prompt(context, llama_model_get_vocab(model), argv[5], limit, &a);
	mark();
	answer_prompt(context, llama_model_get_vocab(model), argv[6], limit, &a);
	mark();
	print_answer(&a);
}
