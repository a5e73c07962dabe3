// faults before|after|dlopen DIRECTORY [LIBRARY]
//
// The host provokes faults of its own (SIGSEGV, SIGBUS, SIGFPE) on its own threads, and its handlers see them and
// recover. They are installed before the library starts, after, or before the library is loaded with dlopen.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

// How a thread's next fault is answered.
enum answer { by_nothing, by_jumping, by_repairing };

static __thread volatile enum answer answer;
static __thread sigjmp_buf back;
static __thread volatile int seen;
static __thread void* volatile seen_at;
static __thread const char* volatile handler_frame;

// What a repair needs: the page, and the file that was cut off, if it is one.
static __thread char* page;
static __thread int file;

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)context;
  const char here = 0;
  handler_frame = &here;
  seen = signal;
  seen_at = info->si_addr;
  if (answer == by_jumping) {
    siglongjmp(back, 1);
  }
  if (answer != by_repairing) {
    static const char text[] = "a fault that is none of the host's\n";
    const ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(n > 0 ? 4 : 5);
  }
  answer = by_nothing;
  if (mprotect(page, page_size(), PROT_READ | PROT_WRITE) != 0 || (file >= 0 && ftruncate(file, (off_t)page_size()) != 0)) {
    _exit(6);
  }
}

static void install(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};
  for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
    if (sigaction(faults[i], &action, NULL) != 0) {
      _exit(7);
    }
  }
}

// Runs before the constructors of the program and of its libraries, among them the one that starts Go.
static void install_before(int argc, char** argv, char** environment) {
  (void)environment;
  if (argc > 1 && strcmp(argv[1], "before") == 0) {
    install();
  }
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**, char**) = install_before;

// The faults.

static void require_seen(int signal, const void* at) {
  REQUIRE(seen == signal);
  REQUIRE(seen_at == at);
  seen = 0;
}

static void protected_page(enum answer how) {
  page = (char*)mmap(NULL, page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  file = -1;
  answer = how;
  if (sigsetjmp(back, 1) == 0) {
    ((volatile char*)page)[123] = 5;
    REQUIRE(how == by_repairing && page[123] == 5);
  }
  require_seen(SIGSEGV, page + 123);
  answer = by_nothing;
  REQUIRE(munmap(page, page_size()) == 0);
}

static void file_that_was_cut_off(enum answer how) {
  FILE* f = tmpfile();
  REQUIRE(f != NULL);
  file = fileno(f);
  REQUIRE(ftruncate(file, (off_t)page_size()) == 0);
  page = (char*)mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REQUIRE(page != MAP_FAILED);
  REQUIRE(ftruncate(file, 0) == 0);
  answer = how;
  volatile char read = 1;
  if (sigsetjmp(back, 1) == 0) {
    read = ((volatile char*)page)[321];
    REQUIRE(how == by_repairing && read == 0);
  }
  require_seen(SIGBUS, page + 321);
  answer = by_nothing;
  REQUIRE(munmap(page, page_size()) == 0);
  REQUIRE(fclose(f) == 0);
}

// An address that Go, were the fault its own, would take for a nil pointer.
static void null_pointer(void) {
  const volatile uintptr_t address = 8;
  answer = by_jumping;
  if (sigsetjmp(back, 1) == 0) {
    *(volatile char*)address = 1;
    REQUIRE(!"reached");
  }
  require_seen(SIGSEGV, (const void*)address);
  answer = by_nothing;
}

static void division_by_zero(void) {
#if defined(__x86_64__) || defined(__i386__)
  volatile int seven = 7, zero = 0;
  answer = by_jumping;
  if (sigsetjmp(back, 1) == 0) {
    seven = seven / zero;
    REQUIRE(!"reached");
  }
  REQUIRE(seen == SIGFPE && seen_at != NULL);
  answer = by_nothing;
#endif
}

static void fault_in_every_way(void) {
  protected_page(by_jumping);
  protected_page(by_repairing);
  file_that_was_cut_off(by_jumping);
  file_that_was_cut_off(by_repairing);
  null_pointer();
  division_by_zero();
}

// Goes down until the thread's stack ends.
static int use_up_the_stack(int depth) {
  volatile char frame[256];
  frame[depth % 256] = (char)depth;
  return depth < 0 ? 0 : use_up_the_stack(depth + 1) + frame[depth % 256];
}

static void stack_overflow(void) {
  answer = by_jumping;
  if (sigsetjmp(back, 1) == 0) {
    REQUIRE(use_up_the_stack(1) == 0);
    REQUIRE(!"reached");
  }
  REQUIRE(seen == SIGSEGV);
  answer = by_nothing;
}

// The threads.

void* library; // for loaded.c

static char path[4096];
static model shared_model; // for reading its weights only

static void call_the_library(void) {
  model m = shared_model;
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  require_right(&m, cache);
  OK(xpwc_close(cache));
}

static void* without_a_call(void* context) {
  fault_in_every_way();
  return context;
}

static void* between_calls(void* context) {
  for (int i = 0; i < 5; i++) {
    fault_in_every_way();
    call_the_library();
  }
  fault_in_every_way();
  return context;
}

// With an alternate stack of the host's, set up before or after the first call.
static void* on_a_stack_of_its_own(void* context) {
  const bool call_first = *(const bool*)context;
  const size_t size = 64 * 1024;
  char* alternate = (char*)malloc(size);
  REQUIRE(alternate != NULL);
  if (call_first) {
    call_the_library();
  }
  stack_t stack, before, after;
  memset(&stack, 0, sizeof(stack));
  stack.ss_sp = alternate;
  stack.ss_size = size;
  REQUIRE(sigaltstack(&stack, &before) == 0);
  for (int i = 0; i < 3; i++) {
    fault_in_every_way();
    REQUIRE(handler_frame >= alternate && handler_frame < alternate + size);
    stack_overflow();
    REQUIRE(handler_frame >= alternate && handler_frame < alternate + size);
    call_the_library();
    REQUIRE(sigaltstack(NULL, &after) == 0);
    REQUIRE(after.ss_sp == alternate && after.ss_size == size && after.ss_flags == 0);
  }
  REQUIRE(sigaltstack(&before, NULL) == 0);
  free(alternate);
  return NULL;
}

static void run(void* (*function)(void*), void* context) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, function, context) == 0);
  REQUIRE(pthread_join(thread, NULL) == 0);
}

// A thread that stays inside the library, in a callback, until it may leave.
static int inside[2], leave[2];

static xpwc_status get_and_stay(void* context, const char* name, xpwc_tensor* to) {
  char byte = 0;
  REQUIRE(write(inside[1], &byte, 1) == 1);
  REQUIRE(read(leave[0], &byte, 1) == 1);
  return model_get(context, name, to);
}

static void* stay_inside(void* context) {
  model m = shared_model;
  xpwc_cache cache;
  OK(xpwc_open("", NULL, &cache));
  xpwc_data_map map = model_callbacks(&m);
  map.get = get_and_stay;
  xpwc_session session;
  OK(xpwc_session_begin(cache, &map, &session));
  const void* data;
  OK(xpwc_session_load(session, "w0", NULL, &data, NULL));
  OK(xpwc_session_end(session));
  OK(xpwc_close(cache));
  return context;
}

static volatile bool enough;

static void* call_until_enough(void* context) {
  while (!__atomic_load_n(&enough, __ATOMIC_ACQUIRE)) {
    call_the_library();
  }
  return context;
}

static void while_others_are_inside(void) {
  pthread_t staying, busy[2];
  char byte = 0;
  REQUIRE(pipe(inside) == 0 && pipe(leave) == 0);
  REQUIRE(pthread_create(&staying, NULL, stay_inside, NULL) == 0);
  REQUIRE(read(inside[0], &byte, 1) == 1);
  for (int i = 0; i < 2; i++) {
    REQUIRE(pthread_create(&busy[i], NULL, call_until_enough, NULL) == 0);
  }
  for (int i = 0; i < 200; i++) {
    fault_in_every_way();
  }
  run(without_a_call, NULL);
  run(between_calls, NULL);
  __atomic_store_n(&enough, true, __ATOMIC_RELEASE);
  REQUIRE(write(leave[1], &byte, 1) == 1);
  REQUIRE(pthread_join(staying, NULL) == 0);
  for (int i = 0; i < 2; i++) {
    REQUIRE(pthread_join(busy[i], NULL) == 0);
    REQUIRE(close(inside[i]) == 0 && close(leave[i]) == 0);
  }
}

// Callbacks that fault and are repaired. (Jumping out of one would leave the library in the middle of a call.)
static int repaired;

static void fault_and_repair(void) {
  protected_page(by_repairing);
  file_that_was_cut_off(by_repairing);
  __atomic_fetch_add(&repaired, 1, __ATOMIC_SEQ_CST); // the log has a thread of its own
}

static void on_log(void* context, uint32_t level, const char* message) {
  (void)context;
  (void)level;
  (void)message;
  fault_and_repair();
}

static void on_progress(void* context, const xpwc_progress* progress) {
  (void)context;
  (void)progress;
  fault_and_repair();
}

static xpwc_status fault_and_fill(void* context, void* to, size_t size) {
  fault_and_repair();
  return tensor_fill(context, to, size);
}

static void fault_and_release(void* context, const void* data, size_t size) {
  fault_and_repair();
  tensor_release(context, data, size);
}

static xpwc_status fault_and_get(void* context, const char* name, xpwc_tensor* to) {
  fault_and_repair();
  const xpwc_status status = model_get(context, name, to);
  to->fill = to->fill == NULL ? NULL : fault_and_fill;
  to->release = fault_and_release;
  return status;
}

static void inside_callbacks(void) {
  xpwc_options options;
  memset(&options, 0, sizeof(options));
  options.struct_size = sizeof(options);
  options.log = on_log;
  options.progress = on_progress;
  xpwc_cache cache;
  OK(xpwc_open(path, &options, &cache));
  model m = shared_model;
  xpwc_data_map map = model_callbacks(&m);
  map.get = fault_and_get;
  opened o = model_open(&m, cache, &map);
  opened_close(&o);
  OK(xpwc_close(cache));
  REQUIRE(repaired >= 2 * TENSORS + LAYERS);
}

int main(int argc, char** argv) {
  REQUIRE(argc >= 3);
  snprintf(path, sizeof(path), "%s/cache", argv[2]);
  if (strcmp(argv[1], "dlopen") == 0) {
    install();
    fault_in_every_way();
    library = dlopen(argv[3], RTLD_NOW);
    REQUIRE(library != NULL);
  } else if (strcmp(argv[1], "after") == 0) {
    uint8_t digest[16];
    OK(xpwc_digest("", 0, digest));
    install();
  }
  fault_in_every_way();
  run(without_a_call, NULL);
  model_make(&shared_model, 1); // calls xpwc_digest
  fault_in_every_way();
  run(without_a_call, NULL);
  call_the_library();
  fault_in_every_way();
  run(without_a_call, NULL);
  run(between_calls, NULL);
  bool call_first = false;
  run(on_a_stack_of_its_own, &call_first);
  call_first = true;
  run(on_a_stack_of_its_own, &call_first);
  while_others_are_inside();
  inside_callbacks();
  fault_in_every_way();
  model_free(&shared_model);
  return 0;
}
