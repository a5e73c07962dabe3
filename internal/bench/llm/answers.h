// What the hosts of make bench-llm do alike. A host is started as
//
//   HOST MODEL CACHE THREADS TOKENS PROMPT LONG_PROMPT
//
// It answers both prompts with TOKENS tokens, the likeliest each time. It prints an empty line when it has the first token
// of the first answer, when it begins with the second prompt, and when it has the first and the last token of the second
// answer: the program that started it has the clock. Then it prints the second answer as JSON, and stays until standard
// input ends.
#ifndef XPWC_BENCH_LLM_ANSWERS_H
#define XPWC_BENCH_LLM_ANSWERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	int prompt_tokens, tokens; // of the prompt, and of the answer
	char text[1 << 14];
} answer;

// mark has the other program look at its clock.
static void mark(void) {
	puts("");
	fflush(stdout);
}

// add appends a token's text, which may be empty.
static void add(answer *a, const char *text) {
	if (a->tokens++ == 0) mark();
	strncat(a->text, text, sizeof a->text - strlen(a->text) - 1);
}

// print_answer prints an answer, its text in hexadecimal digits, and waits.
static void print_answer(const answer *a) {
	printf("{\"figures\": {\"prompt_tokens\": %d, \"answer_tokens\": %d}, \"answer\": \"", a->prompt_tokens, a->tokens);
	for (const char *c = a->text; *c != '\0'; c++) printf("%02x", (unsigned char)*c);
	puts("\"}");
	fflush(stdout);
	while (getchar() != EOF) {
	}
}

#endif
