#include "host.h"

#include <stdlib.h>
#include <string.h>

static void view_tensor(const struct xpwc_tensor* tensor, struct xpwc_tensor_view* view) {
  view->name = tensor->name;
  view->data = tensor->fill == NULL && tensor->size > 0 ? xpwc_go_address(tensor->data) : NULL;
  view->size = tensor->size;
  view->both = tensor->fill != NULL && tensor->data != NULL;
  view->address = (uintptr_t)tensor->data;
  view->fill = (uintptr_t)tensor->fill;
  view->evict = (uintptr_t)tensor->evict;
  view->release = (uintptr_t)tensor->release;
  view->context = (uintptr_t)tensor->context;
  view->source = tensor->source;
  view->stamp = tensor->stamp;
  view->digest = tensor->digest;
}

// The callbacks on a thread's stack, innermost first.
struct frame {
  uintptr_t cache;
  const struct frame* outer;
};

static _Thread_local const struct frame* frames;

bool xpwc_in_callback(uintptr_t cache) {
  for (const struct frame* frame = frames; frame != NULL; frame = frame->outer) {
    if (cache == 0 || frame->cache == cache) {
      return true;
    }
  }
  return false;
}

xpwc_status xpwc_call_get(struct xpwc_callback get, const char* name, struct xpwc_tensor_view* view) {
  xpwc_status (*function)(void*, const char*, struct xpwc_tensor*) =
      (xpwc_status(*)(void*, const char*, struct xpwc_tensor*))get.function;
  struct xpwc_tensor tensor = {.struct_size = sizeof(tensor)};
  const struct frame frame = {get.cache, frames};
  frames = &frame;
  const xpwc_status status = function((void*)get.context, name, &tensor);
  frames = frame.outer;
  view_tensor(&tensor, view);
  return status;
}

xpwc_status xpwc_call_changed(struct xpwc_callback changed, const char* source, int* result) {
  xpwc_status (*function)(void*, const char*, int*) = (xpwc_status(*)(void*, const char*, int*))changed.function;
  const struct frame frame = {changed.cache, frames};
  frames = &frame;
  const xpwc_status status = function((void*)changed.context, source, result);
  frames = frame.outer;
  return status;
}

xpwc_status xpwc_call_fill(struct xpwc_callback fill, void* dst, size_t size) {
  xpwc_status (*function)(void*, void*, size_t) = (xpwc_status(*)(void*, void*, size_t))fill.function;
  const struct frame frame = {fill.cache, frames};
  frames = &frame;
  const xpwc_status status = function((void*)fill.context, dst, size);
  frames = frame.outer;
  return status;
}

void xpwc_call_release(struct xpwc_callback release, uintptr_t data, size_t size) {
  void (*function)(void*, const void*, size_t) = (void (*)(void*, const void*, size_t))release.function;
  const struct frame frame = {release.cache, frames};
  frames = &frame;
  function((void*)release.context, (const void*)data, size);
  frames = frame.outer;
}

void xpwc_call_log(struct xpwc_callback log, uint32_t level, const char* message) {
  void (*function)(void*, uint32_t, const char*) = (void (*)(void*, uint32_t, const char*))log.function;
  const struct frame frame = {log.cache, frames};
  frames = &frame;
  function((void*)log.context, level, message);
  frames = frame.outer;
}

void xpwc_call_progress(
    struct xpwc_callback progress, const char* name, uint64_t bytes, uint64_t done, uint64_t total) {
  void (*function)(void*, const struct xpwc_progress*) =
      (void (*)(void*, const struct xpwc_progress*))progress.function;
  const struct xpwc_progress report = {
      .struct_size = sizeof(report), .name = name, .bytes = bytes, .done = done, .total = total};
  const struct frame frame = {progress.cache, frames};
  frames = &frame;
  function((void*)progress.context, &report);
  frames = frame.outer;
}

void* xpwc_go_address(const void* address) { return (uintptr_t)address < 4096 ? NULL : (void*)address; }

char** xpwc_strings_new(size_t count, size_t bytes, char** text) {
  char** strings = malloc((count + 1) * sizeof(*strings) + bytes);
  if (strings != NULL) {
    strings[count] = NULL;
    *text = (char*)(strings + count + 1);
  }
  return strings;
}

bool xpwc_read_struct(void* dst, size_t dst_size, const void* src, size_t src_size) {
  if (src_size < sizeof(size_t) || src_size > xpwc_greatest_struct) {
    return false;
  }
  for (size_t i = dst_size; i < src_size; i++) {
    if (((const char*)src)[i] != 0) {
      return false;
    }
  }
  memset(dst, 0, dst_size);
  memcpy(dst, src, src_size < dst_size ? src_size : dst_size);
  return true;
}

static void make_go_addresses(struct xpwc_operand* operand) {
  operand->scales = xpwc_go_address(operand->scales);
  operand->block_scales = xpwc_go_address(operand->block_scales);
}

bool xpwc_read_packing(struct xpwc_packing* dst, const struct xpwc_packing* src) {
  if (!xpwc_read_struct(dst, sizeof(*dst), src, src->struct_size)) {
    return false;
  }
  dst->dims = xpwc_go_address(dst->dims);
  dst->hidden_bias = xpwc_go_address(dst->hidden_bias);
  dst->opaque = xpwc_go_address(dst->opaque);
  make_go_addresses(&dst->input);
  make_go_addresses(&dst->kernel);
  make_go_addresses(&dst->bias);
  make_go_addresses(&dst->output);
  return true;
}

bool xpwc_view_table(const struct xpwc_tensor* tensors, size_t distance, size_t index, struct xpwc_tensor_view* view) {
  const struct xpwc_tensor* src = (const struct xpwc_tensor*)((const char*)tensors + index * distance);
  struct xpwc_tensor tensor;
  if (src->struct_size != distance || !xpwc_read_struct(&tensor, sizeof(tensor), src, distance)) {
    return false;
  }
  view_tensor(&tensor, view);
  return true;
}
