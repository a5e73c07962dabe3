// What the hosts of make bench-peers measure alike. Define _GNU_SOURCE before it is included.
#ifndef XPWC_BENCH_PEERS_TIMING_H
#define XPWC_BENCH_PEERS_TIMING_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

// processor_ms returns the processor time of the process so far, of the system too.
static double processor_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// steady returns the median of inferences, each of which returns its milliseconds: as many as xpwc bench takes it of.
static double steady(double (*infer)(void)) {
	enum { least = 5, most_times = 50 };
	double times[most_times], sum = 0;
	int n = 0;
	while (n < least || (n < most_times && sum < 1000)) sum += times[n++] = infer();
	qsort(times, n, sizeof *times, by_value);
	return times[n / 2];
}

// loads_together waits for the end of standard input if processes are to load at the same instant, and returns whether
// they are. Such a process then prints its load time and ends.
static bool loads_together(void) {
	if (getenv("LOAD_TOGETHER") == NULL) return false;
	puts("");
	fflush(stdout);
	while (getchar() != EOF) {
	}
	return true;
}

#endif
