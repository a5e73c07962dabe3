//go:build cgo && linux

#define _GNU_SOURCE // dladdr1
#include "pack.h"

#include <cpuinfo.h>
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// The declarations of TensorFlow Lite's C API, and of XNNPACK's weights cache, as far as they are needed: the library has
// no headers.

struct key;

struct provider {
  void* context;
  size_t (*look_up)(void* context, const struct key*);
  void* (*reserve_space)(void* context, size_t bytes);
  size_t (*look_up_or_insert)(void* context, const struct key*, void* packed, size_t bytes);
};

struct options {
  int32_t num_threads;
  uint32_t runtime_flags, flags;
  struct provider* weights_cache;
  bool handle_variable_ops;
  const char* weight_cache_file_path;
  int weight_cache_file_descriptor;
  void* weight_cache_provider;
  char more[256]; // what newer versions have
};

static struct {
  void* library;
  bool (*cpuinfo_initialize)(void);
  void* (*TfLiteModelCreate)(const void*, size_t);
  void (*TfLiteModelDelete)(void*);
  void* (*TfLiteInterpreterOptionsCreate)(void);
  void (*TfLiteInterpreterOptionsAddDelegate)(void*, void*);
  void (*TfLiteInterpreterOptionsDelete)(void*);
  void* (*TfLiteInterpreterCreate)(void*, void*);
  int (*TfLiteInterpreterAllocateTensors)(void*);
  int (*TfLiteInterpreterInvoke)(void*);
  int32_t (*TfLiteInterpreterGetOutputTensorCount)(void*);
  const void* (*TfLiteInterpreterGetOutputTensor)(void*, int32_t);
  size_t (*TfLiteTensorByteSize)(const void*);
  void* (*TfLiteTensorData)(const void*);
  void (*TfLiteInterpreterDelete)(void*);
  struct options (*TfLiteXNNPackDelegateOptionsDefault)(void);
  void* (*TfLiteXNNPackDelegateCreate)(const struct options*);
  const struct options* (*TfLiteXNNPackDelegateGetOptions)(void*);
  void (*TfLiteXNNPackDelegateDelete)(void*);
} lite;

const char* xpwc_litert_load(const char* library) {
  // It binds its own symbols to itself: it never calls the XNNPACK of this process.
  lite.library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (lite.library == NULL) {
    return dlerror();
  }
#define FIND(name)                                       \
  do {                                                   \
    *(void**) &lite.name = dlsym(lite.library, #name);   \
    if (lite.name == NULL) return "it has no " #name;    \
  } while (0)
  FIND(cpuinfo_initialize);
  FIND(TfLiteModelCreate);
  FIND(TfLiteModelDelete);
  FIND(TfLiteInterpreterOptionsCreate);
  FIND(TfLiteInterpreterOptionsAddDelegate);
  FIND(TfLiteInterpreterOptionsDelete);
  FIND(TfLiteInterpreterCreate);
  FIND(TfLiteInterpreterAllocateTensors);
  FIND(TfLiteInterpreterInvoke);
  FIND(TfLiteInterpreterGetOutputTensorCount);
  FIND(TfLiteInterpreterGetOutputTensor);
  FIND(TfLiteTensorByteSize);
  FIND(TfLiteTensorData);
  FIND(TfLiteInterpreterDelete);
  FIND(TfLiteXNNPackDelegateOptionsDefault);
  FIND(TfLiteXNNPackDelegateCreate);
  FIND(TfLiteXNNPackDelegateGetOptions);
  FIND(TfLiteXNNPackDelegateDelete);
#undef FIND
  return NULL;
}

// A feature is a byte. The library's cpuinfo may know features that this process' does not: they are in one place, before
// which all others are the same in both, and likewise behind it. Where that place is shows in what both found here. Between
// features that the processor does not have it can be anywhere.
#if CPUINFO_ARCH_X86_64
static struct {
  unsigned char* isa;  // the library's
  size_t common, more; // bytes before the place, and there
} theirs;

static unsigned char* const ours = (unsigned char*) &cpuinfo_isa;
#endif

bool xpwc_litert_knows_cpuinfo(void) {
#if CPUINFO_ARCH_X86_64
  Dl_info info;
  const ElfW(Sym)* symbol = NULL;
  unsigned char* isa = dlsym(lite.library, "cpuinfo_isa");
  const size_t size = sizeof(cpuinfo_isa);
  if (isa == NULL || isa == ours || !cpuinfo_initialize() || !lite.cpuinfo_initialize() ||
      !dladdr1(isa, &info, (void**) &symbol, RTLD_DL_SYMENT) || symbol == NULL || symbol->st_size < size) {
    return false;
  }
  theirs.more = symbol->st_size - size;
  while (theirs.common < size && isa[theirs.common] == ours[theirs.common]) theirs.common++;
  if (memcmp(isa + theirs.common + theirs.more, ours + theirs.common, size - theirs.common) != 0) {
    return false;
  }
  theirs.isa = isa;
  return true;
#else
  return false;
#endif
}

bool xpwc_litert_limit_cpu(void) {
#if CPUINFO_ARCH_X86_64
  if (theirs.isa != NULL) {
    memcpy(theirs.isa, ours, theirs.common);
    memset(theirs.isa + theirs.common, 0, theirs.more);
    memcpy(theirs.isa + theirs.common + theirs.more, ours + theirs.common, sizeof(cpuinfo_isa) - theirs.common);
    return true;
  }
#endif
  return false;
}

// What XNNPACK is given in place of the runtime's own look-ups, so that everything is packed, and compared with what the
// runtime has under that key.
static struct {
  size_t (*look_up_or_insert)(void* context, const struct key*, void* packed, size_t bytes);
  int fd;
  long taken;
} watch;

static size_t always_miss(void* context, const struct key* key) {
  (void) context;
  (void) key;
  return SIZE_MAX;
}

static bool file_has(off_t at, const char* packed, size_t bytes) {
  char piece[1 << 16];
  while (bytes > 0) {
    const ssize_t n = pread(watch.fd, piece, bytes < sizeof(piece) ? bytes : sizeof(piece), at);
    if (n <= 0 || memcmp(piece, packed, (size_t) n) != 0) {
      return false;
    }
    at += n;
    packed += n;
    bytes -= (size_t) n;
  }
  return true;
}

static size_t insert(void* context, const struct key* key, void* packed, size_t bytes) {
  enum { base = 128 }; // where the payloads begin
  const size_t offset = watch.look_up_or_insert(context, key, packed, bytes);
  watch.taken += !file_has((off_t) (base + offset), packed, bytes);
  return offset;
}

static const char* answer(void* interpreter, int fd) {
  if (lite.TfLiteInterpreterAllocateTensors(interpreter) != 0 || lite.TfLiteInterpreterInvoke(interpreter) != 0) {
    return "LiteRT cannot run the model";
  }
  const int32_t outputs = lite.TfLiteInterpreterGetOutputTensorCount(interpreter);
  for (int32_t i = 0; i < outputs; i++) {
    const void* output = lite.TfLiteInterpreterGetOutputTensor(interpreter, i);
    const size_t bytes = lite.TfLiteTensorByteSize(output);
    if (write(fd, lite.TfLiteTensorData(output), bytes) != (ssize_t) bytes) {
      return "an answer cannot be written";
    }
  }
  return NULL;
}

const char* xpwc_litert_pack(const void* bytes, size_t size, int fd, int answers, long* taken) {
  const char* failed = NULL;
  void *model = NULL, *options = NULL, *interpreter = NULL, *delegate = NULL;
  struct options how = lite.TfLiteXNNPackDelegateOptionsDefault();
  watch.fd = dup(fd);
  how.weight_cache_file_descriptor = fd;
  how.weight_cache_file_path = "the cache file";
  if (watch.fd < 0) {
    failed = "there are no more file descriptors";
  } else if ((model = lite.TfLiteModelCreate(bytes, size)) == NULL) {
    failed = "LiteRT cannot read the model";
  } else if ((delegate = lite.TfLiteXNNPackDelegateCreate(&how)) == NULL) {
    failed = "LiteRT cannot use XNNPACK here";
  } else {
    // The delegate gives XNNPACK this very struct later on.
    struct provider* given = lite.TfLiteXNNPackDelegateGetOptions(delegate)->weights_cache;
    if (given == NULL) {
      failed = "LiteRT cannot write the file";
    } else {
      watch.look_up_or_insert = given->look_up_or_insert;
      given->look_up = always_miss;
      given->look_up_or_insert = insert;
      options = lite.TfLiteInterpreterOptionsCreate();
      lite.TfLiteInterpreterOptionsAddDelegate(options, delegate);
      interpreter = lite.TfLiteInterpreterCreate(model, options); // which packs
      if (interpreter == NULL) {
        failed = "LiteRT cannot load the model";
      } else if (answers >= 0) {
        failed = answer(interpreter, answers);
      }
    }
  }
  if (interpreter != NULL) lite.TfLiteInterpreterDelete(interpreter);
  if (options != NULL) lite.TfLiteInterpreterOptionsDelete(options);
  if (delegate != NULL) lite.TfLiteXNNPackDelegateDelete(delegate);
  if (model != NULL) lite.TfLiteModelDelete(model);
  if (watch.fd >= 0) close(watch.fd);
  *taken = watch.taken;
  return failed;
}
