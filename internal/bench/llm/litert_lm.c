// A host of LiteRT-LM's engine, for make bench-llm; answers.h tells how it is started. CACHE is the engine's cache_dir:
// a directory, or :nocache.
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>

#include "answers.h"

// The declarations of the engine's C API, as far as they are needed: the wheel has no headers.
void litert_lm_set_min_log_level(int level);
void *litert_lm_engine_settings_create(const char *model, const char *backend, const char *vision, const char *audio);
void litert_lm_engine_settings_set_cache_dir(void *settings, const char *dir);
void litert_lm_engine_settings_set_num_threads(void *settings, int threads);
void *litert_lm_engine_create(void *settings);
void *litert_lm_engine_create_session(void *engine, void *config);
void *litert_lm_engine_tokenize(void *engine, const char *text);
size_t litert_lm_tokenize_result_get_num_tokens(const void *result);
void *litert_lm_sampler_params_create(int type);
void litert_lm_sampler_params_set_top_k(void *params, int k);
void litert_lm_sampler_params_set_top_p(void *params, float p);
void *litert_lm_session_config_create(void);
void litert_lm_session_config_set_max_output_tokens(void *config, int tokens);
void litert_lm_session_config_set_sampler_params(void *config, void *params);
void litert_lm_session_config_set_apply_prompt_template(void *config, bool apply);
void litert_lm_session_delete(void *session);
void *litert_lm_input_data_create(int type, const void *data, size_t bytes);
int litert_lm_session_generate_content_stream(void *session, void **inputs, size_t count,
	void (*callback)(void *data, const void *chunk), void *data);
const char *litert_lm_stream_chunk_get_text(const void *chunk);
const char *litert_lm_stream_chunk_get_error(const void *chunk);
bool litert_lm_stream_chunk_is_final(const void *chunk);

static answer current;
static sem_t ended;

static void die(const char *message) {
	fprintf(stderr, "litert_lm: %s\n", message);
	exit(1);
}

static void receive(void *data, const void *chunk) {
	(void)data;
	const char *error = litert_lm_stream_chunk_get_error(chunk), *text = litert_lm_stream_chunk_get_text(chunk);
	if (error != NULL) die(error);
	if (text != NULL && *text != '\0') add(&current, text);
	if (litert_lm_stream_chunk_is_final(chunk)) sem_post(&ended);
}

static void answer_prompt(void *engine, void *config, const char *prompt) {
	enum { text = 0 };
	void *session = litert_lm_engine_create_session(engine, config);
	void *input = litert_lm_input_data_create(text, prompt, strlen(prompt));
	if (session == NULL) die("no session");
	memset(&current, 0, sizeof current);
	if (litert_lm_session_generate_content_stream(session, &input, 1, receive, NULL) != 0) die("no answer");
	while (sem_wait(&ended) != 0) {
	}
	litert_lm_session_delete(session);
}

int main(int argc, char **argv) {
	enum { errors = 4, top_p = 2 };
	if (argc != 7) {
		fprintf(stderr, "litert_lm MODEL CACHE_DIR THREADS TOKENS PROMPT LONG_PROMPT\n");
		return 2;
	}
	sem_init(&ended, 0, 0);
	litert_lm_set_min_log_level(errors);
	void *settings = litert_lm_engine_settings_create(argv[1], "cpu", NULL, NULL);
	litert_lm_engine_settings_set_cache_dir(settings, argv[2]);
	litert_lm_engine_settings_set_num_threads(settings, atoi(argv[3]));
	void *engine = litert_lm_engine_create(settings);
	if (engine == NULL) die("no engine");
	void *sampler = litert_lm_sampler_params_create(top_p);
	litert_lm_sampler_params_set_top_k(sampler, 1);
	litert_lm_sampler_params_set_top_p(sampler, 1);
	void *config = litert_lm_session_config_create();
	litert_lm_session_config_set_max_output_tokens(config, atoi(argv[4]));
	litert_lm_session_config_set_sampler_params(config, sampler);
	litert_lm_session_config_set_apply_prompt_template(config, false);
	answer_prompt(engine, config, argv[5]);
	mark();
	answer_prompt(engine, config, argv[6]);
	mark();
	current.prompt_tokens = litert_lm_tokenize_result_get_num_tokens(litert_lm_engine_tokenize(engine, argv[6]));
	print_answer(&current);
}
