// xpwc for ExecuTorch: XNNWeightsCache and XNNWeightsCacheManager on xpwc's cache. C++17 without exceptions and RTTI.
// Names, signatures and behaviour as in ExecuTorch of August 2026. ExecuTorch 1.5 has all included headers.
//
// The sources are in share/xpwc/executorch of the installed tree (CMake: xpwc::executorch). The host compiles them with
// its own ExecuTorch, XNNPACK and flags, since their C++ ABI depends on how they are built.
//
// In ExecuTorch's tree: in backends/xnnpack/runtime, XNNWeightsCache.h and XNNWeightsCacheManager.h become
//
//   #pragma once
//   #include <xpwc_executorch.hpp>
//
// The sources replace XNNWeightsCache.cpp and XNNWeightsCacheManager.cpp in the build, and the XNNPACK backend links
// libxpwc. Models, options and the order of calls stay the same. One more line makes a warm start fast: see Packing.
// The file has xpwc's format, which ExecuTorch's own class cannot read. A file of that class at the path is replaced.
//
// The same as in ExecuTorch's class: all runtimes of a path share one cache; the caller serializes calls with mutex();
// the name of packed weights is the kernel's name followed by the bias' name without a separator; names have refcounts,
// which delete_packed_data decrements; the file keeps its entries when all runtimes are deleted.
//
// Safer than ExecuTorch's class:
// - Packed weights that cannot be inserted, or a provider that is called while no runtime is being created, never
//   become a wild pointer. At worst the runtime is not created.
// - Constants that inference reads (PReLU slopes, operands of elementwise operators) stay until the runtime is deleted,
//   also if they are a bias or kernel of another operator. finalize_for_runtime frees the kernels that the program only
//   packs, which set_program shows, and scales named by ExecuTorch's exporter (the SHA-256 of their bytes). Without
//   set_program all kernels stay: those in a mapped file leave memory on Linux, and are read there again; those that a
//   FileDataLoader read stay in memory.
// - Packed weights are identified by contents, CPU, XNNPACK's version and the program, not only by name and seed; or
//   they are compared. Runtimes with different weights of one name do not share them: the second runtime's have "#2"
//   appended to the name, also if only its constants differ.
// - Runtimes can execute while another one is created: their calls of the provider need no state.
// - delete_packed_data with unknown names has no effect.
// - A file that is no cache, or belongs to another user, is left unchanged. Weights are then kept in memory, and the
//   log reports it.
//
// Packing. Packed bytes depend on more than XNNPACK's key contains: on operators, shapes and groups, on scales and zero
// points, also of inputs and outputs, and with dynamically quantised inputs on the bias. ExecuTorch passes none of
// these to this class. So every look-up misses: at each start XNNPACK packs, and the cache compares the result with its
// entries. Equal bytes are shared by methods and processes; different bytes are inserted. Results are right and weights
// are in memory once, but a warm start takes as long as packing. (A program exported again with other calibration data
// under the same path differs only in its scales.)
//
// The program contains all of these. So a warm start packs nothing if the host passes the delegate's bytes to the
// class. In XNNCompiler.cpp, compileModel calls this before it defines the first tensor:
//
//   if (use_weight_cache) weights_cache->set_program(buffer_pointer, num_bytes);
//
// It costs the digest of these bytes, which contain only weights without a name. Constants that are not named by their
// SHA-256, as ExecuTorch's exporter names them, are digested too. Delegates then share packed weights only if their
// bytes are equal: two methods that use one weight pack and store it twice, and a new export packs all weights. If the
// host knows the parameters of each kernel, it can call set_packing instead, and delegates that pack a kernel in the
// same way share it.
#ifndef XPWC_EXECUTORCH_HPP
#define XPWC_EXECUTORCH_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <xnnpack.h>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/freeable_buffer.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/core/result.h>
#include <executorch/runtime/platform/compiler.h>

#include "xpwc.h"

namespace executorch {
namespace backends {
namespace xnnpack {
namespace delegate {

using executorch::ET_RUNTIME_NAMESPACE::NamedDataMap;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::Result;

// The packed weights of one name, see XNNWeightsCache::get_packed_data_meta.
struct PackedDataMeta {
  // The offset that the provider returned to XNNPACK, which is their address; 0 if no runtime uses them.
  size_t offset{0};
  // Size in bytes; 0 after a cache hit, since XNNPACK does not pass the size to a look-up.
  size_t data_size{0};
  // Number of finalized runtimes that use them.
  size_t ref_count{0};
  // True if the runtime that is being created uses them.
  bool in_current_runtime{false};
  // True if the first runtime that uses them got them by a cache hit, and did not pack them.
  bool from_load{false};
  // The seed of XNNPACK's key; 0 if no runtime uses them.
  uint32_t seed{0};
};

// The packed weights of one path, or in memory, for any number of runtimes. It is not synchronized: the caller holds
// mutex() around every method and around xnn_create_runtime, as ExecuTorch's backend does. Runtimes may execute without
// it.
class XNNWeightsCache {
 public:
  // Minimum alignment of packed weights in bytes.
  static constexpr size_t kPackedAllocationAlignment = 64;

  XNNWeightsCache();
  // Frees all memory and waits for the disk. All runtimes must be deleted by then.
  ~XNNWeightsCache();

  XNNWeightsCache(const XNNWeightsCache&) = delete;
  XNNWeightsCache& operator=(const XNNWeightsCache&) = delete;
  XNNWeightsCache(XNNWeightsCache&&) = delete;
  XNNWeightsCache& operator=(XNNWeightsCache&&) = delete;

  // Sets the path of the file; empty, the default, keeps weights in memory. Takes effect with the next
  // initialize_for_runtime while there are no runtimes; later it has no effect.
  void set_packed_cache_path(const std::string& path);

  // Sets the options that the cache is opened with, among them writer_wait_ms, verify, max_bytes, XPWC_OPEN_READ_ONLY
  // and XPWC_OPEN_PREFETCH. Takes effect as set_packed_cache_path does; initialize_for_runtime returns InvalidArgument
  // for invalid options. log, progress and context must outlive this object; without log, messages go to ET_LOG, also
  // from threads of libxpwc. Not in ExecuTorch's class.
  void set_options(const xpwc_options& options);

  // Returns the counts of the cache since it was opened; InvalidState until the first initialize_for_runtime. Not in
  // ExecuTorch's class.
  Result<xpwc_stats> get_stats() const;

  // Begins the creation of a runtime. load_unpacked_data reads its constants from named_data_map, which must stay valid
  // until finalize_for_runtime. Frees the memory of a previous creation that failed. The allocator is not used.
  Error initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map);

  // Ends the creation of a runtime: frees the kernels that its program only packs (set_program). The file is written in
  // the background. Returns the names of the runtime's packed weights, for delete_packed_data. A runtime that has
  // constants but no packed weights gets a name made from them, so that it can be deleted too. After an error the
  // runtime must not be used.
  Result<std::vector<std::string>> finalize_for_runtime();

  // Returns the provider for xnn_create_runtime. All runtimes share it. This object owns it.
  xnn_weights_cache_t get();

  // Returns the number of load_unpacked_data calls for the runtime that is being created.
  size_t get_num_unpacked_data();

  // Returns the names of the constants loaded for the runtime that is being created, each once.
  std::vector<std::string> get_unpacked_data_names();

  // Returns the names of all packed weights, of runtimes and in the file.
  std::vector<std::string> get_packed_data_names();

  // Returns the metadata of the packed weights of a name; NotFound if get_packed_data_names does not list it. Private
  // in ExecuTorch's class.
  Result<PackedDataMeta> get_packed_data_meta(const std::string& name) const;

  // Loads a constant for the runtime that is being created, and returns its address for xnn_define_tensor_value. This
  // object owns it, until finalize_for_runtime if only packing reads it, otherwise until the runtime's names are
  // deleted.
  Result<const uint8_t*> load_unpacked_data(const std::string& name);

  // Sets the program of the runtime: the bytes that ExecuTorch passes to the backend for a delegate, which are read
  // only during the call. Look-ups of weights packed for the same bytes can then hit, and kernels that no node reads at
  // inference are freed. Call it between initialize_for_runtime and xnn_create_runtime, for each runtime. The class
  // cannot detect the bytes of another delegate: it would use that delegate's packed weights, and outputs would be
  // wrong. InvalidState while no runtime is being created, or for other bytes than before once a constant is loaded;
  // InvalidArgument if size is 0. Not in ExecuTorch's class.
  Error set_program(const void* data, size_t size);

  // Sets how a constant is packed, instead of set_program: bytes in any format that differ if the operator, its shape,
  // groups or types, a scale or zero point, or a bias that is not in XNNPACK's key differs. They are read only during
  // the call. Look-ups of weights packed with the same bytes can then hit. A further call for the constant appends its
  // bytes. Call it between load_unpacked_data and xnn_create_runtime. InvalidState while no runtime is being created,
  // InvalidArgument if size is 0 or the constant is not loaded. Not in ExecuTorch's class.
  Error set_packing(const std::string& name, const void* bytes, size_t size);

  // Decrements the refcounts of names that finalize_for_runtime returned for a runtime that will not execute again, and
  // frees packed weights that no other runtime uses. Other names of packed weights are decremented too; a runtime ends
  // with its last name. InvalidArgument, without effect, for an unknown name, and between initialize_for_runtime and
  // finalize_for_runtime for names that are not exactly a runtime's.
  Error delete_packed_data(const std::vector<std::string>& packed_names);

  // Waits until all packed weights are on stable storage. Ok if there is no file.
  Error save_packed_index();

  // Returns the mutex that callers serialize with. This class does not lock it.
  std::mutex& mutex() noexcept {
    return mutex_;
  }

 private:
  class Runtimes;

  std::unique_ptr<Runtimes> runtimes_;
  std::mutex mutex_;
};

} // namespace delegate

// Has one cache for each path, which lives as long as a shared_ptr to it. Its methods may be called from any thread.
class XNNWeightsCacheManager {
 public:
  XNNWeightsCacheManager() = default;
  ~XNNWeightsCacheManager() = default;

  XNNWeightsCacheManager(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager& operator=(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager(XNNWeightsCacheManager&&) = delete;
  XNNWeightsCacheManager& operator=(XNNWeightsCacheManager&&) = delete;

  // Sets the options of caches that later calls of get_or_create make. Not in ExecuTorch's class.
  void set_options(const xpwc_options& options);

  // Returns the cache of a path; all callers with the empty path share one in memory.
  runtime::Result<std::shared_ptr<delegate::XNNWeightsCache>> get_or_create(const std::string& cache_file_path);

  // Saves every cache with a path, each under its mutex. Continues after errors and returns the first.
  runtime::Error save_all();

  // Returns the number of live caches with a path.
  size_t live_count() const;

 private:
  std::vector<std::shared_ptr<delegate::XNNWeightsCache>> live();

  mutable std::mutex mutex_;
  std::optional<xpwc_options> options_;
  std::unordered_map<std::string, std::weak_ptr<delegate::XNNWeightsCache>> caches_;
  std::weak_ptr<delegate::XNNWeightsCache> in_memory_;
};

} // namespace xnnpack
} // namespace backends
} // namespace executorch

#endif
