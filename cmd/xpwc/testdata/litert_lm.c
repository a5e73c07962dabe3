// A host of LiteRT-LM's engine: litert_lm BUNDLE CACHE_DIR [PROMPT [TOKENS]] prints the answer to a prompt, the
// likeliest token each time. An empty CACHE_DIR is the engine's default, the bundle's directory.
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The declarations of the engine's C API, as far as they are needed: the library has no headers.
void litert_lm_set_min_log_level(int level);
void* litert_lm_engine_settings_create(const char* model, const char* backend, const char* vision, const char* audio);
void litert_lm_engine_settings_set_cache_dir(void* settings, const char* dir);
void litert_lm_engine_settings_set_num_threads(void* settings, int threads);
void* litert_lm_engine_create(void* settings);
void litert_lm_engine_delete(void* engine);
void* litert_lm_sampler_params_create(int type);
void litert_lm_sampler_params_set_top_k(void* params, int k);
void litert_lm_sampler_params_set_top_p(void* params, float p);
void* litert_lm_session_config_create(void);
void litert_lm_session_config_set_max_output_tokens(void* config, int tokens);
void litert_lm_session_config_set_sampler_params(void* config, void* params);
void litert_lm_session_config_set_apply_prompt_template(void* config, bool apply);
void* litert_lm_engine_create_session(void* engine, void* config);
void* litert_lm_input_data_create(int type, const void* data, size_t bytes);
void* litert_lm_session_generate_content(void* session, void** inputs, size_t count);
const char* litert_lm_responses_get_response_text_at(void* responses, int index);

int main(int argc, char** argv) {
  enum { errors = 3, text = 0, top_p = 2 };
  if (argc < 3) return 2;
  const char* prompt = argc > 3 ? argv[3] : "the rain in spain";
  const int tokens = argc > 4 ? atoi(argv[4]) : 16;
  litert_lm_set_min_log_level(errors);
  void* settings = litert_lm_engine_settings_create(argv[1], "cpu", NULL, NULL);
  if (argv[2][0] != '\0') litert_lm_engine_settings_set_cache_dir(settings, argv[2]);
  litert_lm_engine_settings_set_num_threads(settings, 1);
  void* engine = litert_lm_engine_create(settings);
  if (engine == NULL) return 1;
  void* sampler = litert_lm_sampler_params_create(top_p);
  litert_lm_sampler_params_set_top_k(sampler, 1);
  litert_lm_sampler_params_set_top_p(sampler, 1);
  void* config = litert_lm_session_config_create();
  litert_lm_session_config_set_max_output_tokens(config, tokens);
  litert_lm_session_config_set_sampler_params(config, sampler);
  litert_lm_session_config_set_apply_prompt_template(config, false);
  void* session = litert_lm_engine_create_session(engine, config);
  void* input = litert_lm_input_data_create(text, prompt, strlen(prompt));
  void* responses = session == NULL ? NULL : litert_lm_session_generate_content(session, &input, 1);
  if (responses == NULL) return 1;
  puts(litert_lm_responses_get_response_text_at(responses, 0));
  return 0;
}
