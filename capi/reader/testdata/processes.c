// processes FILE int8|float32 LAYERS WIDTH HIDDEN CACHE MODEL
//
// The reader where a library with threads has trouble: in children of a process that has opened it, under limits, and
// where nothing may be opened. And for runtimes one after the other.
#define _GNU_SOURCE
#include "model.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct chain c;
static unsigned long want;

// Runs the model with a reader, which must have all of it.
static void serve(xpwc_reader* reader) {
  struct started s = create_chain(&c, define_chain(&c, reader), reader);
  REQUIRE(infer_chain(&c, &s) == want);
  xpwc_reader_stats stats;
  xpwc_reader_get_stats(reader, &stats);
  REQUIRE(stats.hits.entries == c.layers && stats.misses == 0 && stats.packed.entries == 0);
  OK(xpwc_reader_verify(reader));
  end_chain(&s);
  xpwc_reader_close(reader);
}

static void in_a_child(void (*does)(const char* cache, const char* model), const char* cache, const char* model) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    does(cache, model);
    _exit(0);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static int threads(void) {
  char line[256];
  int n = 0;
  FILE* f = fopen("/proc/self/status", "r");
  REQUIRE(f != NULL);
  while (fgets(line, sizeof(line), f) != NULL) {
    (void)sscanf(line, "Threads: %d", &n);
  }
  fclose(f);
  return n;
}

// A zygote opens it once; its children name their tensors, and so does it.
static void children_of_a_zygote(const char* cache, const char* model) {
  xpwc_reader* reader;
  OK(xpwc_reader_open(cache, model, &reader));
  pid_t children[4];
  for (int i = 0; i < 4; i++) {
    children[i] = fork();
    REQUIRE(children[i] >= 0);
    if (children[i] == 0) {
      serve(reader);
      REQUIRE(threads() == 1);
      exit(0);
    }
  }
  serve(reader);
  for (int i = 0; i < 4; i++) {
    int status;
    REQUIRE(waitpid(children[i], &status, 0) == children[i] && status == 0);
  }
}

// One that was created before serves children too.
static void children_that_only_execute(const char* cache, const char* model) {
  xpwc_reader* reader;
  OK(xpwc_reader_open(cache, model, &reader));
  struct started s = create_chain(&c, define_chain(&c, reader), reader);
  const pid_t child = fork();
  if (child == 0) {
    exit(infer_chain(&c, &s) == want ? 0 : 1);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0 && infer_chain(&c, &s) == want);
  end_chain(&s);
  xpwc_reader_close(reader);
}

static void limit(int what, rlim_t n) {
  const struct rlimit to = {n, n};
  REQUIRE(setrlimit(what, &to) == 0);
}

static void under_limits(const char* cache, const char* model) {
  struct stat s;
  unsigned long pages = 0;
  FILE* f = fopen("/proc/self/statm", "r");
  REQUIRE(f != NULL && fscanf(f, "%lu", &pages) == 1 && stat(cache, &s) == 0);
  fclose(f);
  limit(RLIMIT_NPROC, 1);
  limit(RLIMIT_NOFILE, 4); // one more
#ifndef NO_ADDRESS_LIMIT // AddressSanitizer has terabytes
  limit(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)s.st_size + (16 << 20));
#endif
  xpwc_reader* reader;
  OK(xpwc_reader_open(cache, model, &reader));
  serve(reader);
}

static void without_room_it_is_an_error(const char* cache, const char* model) {
  xpwc_reader* reader;
  limit(RLIMIT_NOFILE, 3);
  REQUIRE(xpwc_reader_open(cache, model, &reader) == XPWC_STATUS_SYSTEM_ERROR && errno == EMFILE && reader == NULL);
#ifndef NO_ADDRESS_LIMIT
  limit(RLIMIT_AS, 1);
#endif
  REQUIRE(xpwc_reader_open_fd(0, 0, 0, model, &reader) != XPWC_STATUS_OK && reader == NULL);
}

// From now on nothing is opened.
static void forbid_paths(void) {
  static const unsigned forbidden[] = {
#ifdef SYS_open
      SYS_open,
#endif
      SYS_openat, SYS_openat2};
  enum { count = sizeof(forbidden) / sizeof(*forbidden) };
  struct sock_filter filter[2 * count + 2];
  size_t n = 0;
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden[i], 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {(unsigned short)n, filter};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void in_a_sandbox(const char* cache, const char* model) {
  const int fd = open(cache, O_RDONLY);
  REQUIRE(fd >= 0);
  forbid_paths();
  xpwc_reader* reader;
  REQUIRE(xpwc_reader_open(cache, model, &reader) == XPWC_STATUS_SYSTEM_ERROR && errno == EACCES);
  OK(xpwc_reader_open_fd(fd, 0, 0, model, &reader));
  REQUIRE(close(fd) == 0);
  serve(reader);
}

// One reader serves runtimes whose tensors come and go: what lies at an address may be another's than before.
static void runtimes_one_after_the_other(const char* cache, const char* model) {
  enum { runtimes = 3 };
  xpwc_reader* reader;
  OK(xpwc_reader_open(cache, model, &reader));
  xnn_workspace_t workspaces[runtimes];
  xnn_runtime_t runtime[runtimes];
  for (int i = 0; i < runtimes; i++) {
    xpwc_reader_forget(reader);
    xnn_subgraph_t subgraph = define_chain(&c, i == 1 ? NULL : reader);
    DONE(xnn_create_workspace(&workspaces[i]));
    DONE(xnn_create_runtime_v4(subgraph, xpwc_reader_provider(reader), workspaces[i], NULL, 0, &runtime[i]));
    DONE(xnn_delete_subgraph(subgraph));
  }
  xpwc_reader_stats stats;
  xpwc_reader_get_stats(reader, &stats);
  REQUIRE(stats.hits.entries == 2 * c.layers);
  REQUIRE(stats.misses == c.layers && stats.packed.entries == c.layers); // of the second, which has no names
  OK(xpwc_reader_verify(reader));
  for (int i = 0; i < runtimes; i++) {
    DONE(xnn_delete_runtime(runtime[i]));
    DONE(xnn_release_workspace(workspaces[i]));
  }
  xpwc_reader_close(reader);
}

int main(int argc, char** argv) {
  REQUIRE(argc == 8);
  c = chain_of(argv + 2);
  map_chain(&c, argv[1]);
  DONE(xnn_initialize(NULL));
  struct started s = create_chain(&c, define_chain(&c, NULL), NULL);
  want = infer_chain(&c, &s);
  end_chain(&s);
  in_a_child(children_of_a_zygote, argv[6], argv[7]);
  in_a_child(children_that_only_execute, argv[6], argv[7]);
  in_a_child(runtimes_one_after_the_other, argv[6], argv[7]);
  in_a_child(under_limits, argv[6], argv[7]);
  in_a_child(without_room_it_is_an_error, argv[6], argv[7]);
  in_a_child(in_a_sandbox, argv[6], argv[7]);
  return 0;
}
