#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 // RTLD_NEXT, dl_iterate_phdr
#endif
#include "ask.h"

// Not every XNNPACK has these functions, and not every header declares them. Package xnnpack calls them; the library must
// also link with an XNNPACK that lacks them. Only where objects are ELF can what is not there be asked for.
#ifdef __ELF__
extern const void* xnn_experimental_get_build_identifier_data(void) __attribute__((weak));
extern size_t xnn_experimental_get_build_identifier_size(void) __attribute__((weak));

#if defined(__GLIBC__)
#include <dlfcn.h>
#include <link.h>
#include <string.h>

struct xpwc_library {
  uintptr_t address; // of something in it
  const void* id;
  size_t size;
};

// Finds the note of the linker, NT_GNU_BUILD_ID, of the library that has an address. Returns whether that is the one.
static int find_build_id(struct dl_phdr_info* object, size_t size, void* context) {
  struct xpwc_library* library = context;
  bool found = false;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    found = found || (part->p_type == PT_LOAD && library->address - object->dlpi_addr - part->p_vaddr < part->p_memsz);
  }
  for (int i = 0; found && i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const char* note = (const char*)(object->dlpi_addr + part->p_vaddr);
    size_t rest = part->p_type == PT_NOTE ? part->p_memsz : 0;
    while (rest >= sizeof(ElfW(Nhdr))) {
      const ElfW(Nhdr)* head = (const void*)note;
      const size_t name = (head->n_namesz + (size_t)3) & ~(size_t)3, content = (head->n_descsz + (size_t)3) & ~(size_t)3;
      if (name > rest - sizeof(*head) || content > rest - sizeof(*head) - name) {
        break;
      }
      if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && memcmp(head + 1, "GNU", 4) == 0) {
        library->id = (const char*)(head + 1) + name;
        library->size = head->n_descsz;
      }
      note += sizeof(*head) + name + content;
      rest -= sizeof(*head) + name + content;
    }
  }
  return found;
}

// The identifier of the linker differs between any two libraries. A program that has XNNPACK inside, or takes the address
// of its functions, answers for itself, and not for XNNPACK: it has none.
static const void* library_build_id(size_t* size) {
  void* function = dlsym(RTLD_DEFAULT, "xnn_create_subgraph");
  struct xpwc_library library = {(uintptr_t)function, NULL, 0};
  if (function != NULL && function == dlsym(RTLD_NEXT, "xnn_create_subgraph")) {
    dl_iterate_phdr(find_build_id, &library);
  }
  *size = library.size;
  return library.id;
}
#else
static const void* library_build_id(size_t* size) {
  *size = 0;
  return NULL;
}
#endif

const void* xpwc_build_identifier(size_t* size) {
  if (xnn_experimental_get_build_identifier_data == NULL || xnn_experimental_get_build_identifier_size == NULL) {
    return library_build_id(size);
  }
  *size = xnn_experimental_get_build_identifier_size();
  return xnn_experimental_get_build_identifier_data();
}
#else
const void* xpwc_build_identifier(size_t* size) {
  *size = 0;
  return NULL;
}
#endif
