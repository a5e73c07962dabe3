// xpwc for ExecuTorch: its XNNWeightsCache and XNNWeightsCacheManager, on xpwc's cache. C++17; needs neither exceptions
// nor RTTI. Names, signatures and behaviour are those of ExecuTorch of August 2026. 1.5 has all that it includes.
//
// This header declares; the sources are in share/xpwc/executorch of the installed tree (CMake: xpwc::executorch). The
// host compiles them, with its own ExecuTorch, XNNPACK and flags: the C++ interface of these depends on how they are
// built.
//
// In ExecuTorch's tree: in backends/xnnpack/runtime, XNNWeightsCache.h and XNNWeightsCacheManager.h become
//
//   #pragma once
//   #include <xpwc_executorch.hpp>
//
// The sources replace XNNWeightsCache.cpp and XNNWeightsCacheManager.cpp in the build, and the XNNPACK backend links
// libxpwc. Models, options and the order of calls stay. One line more makes a warm start fast: see Packing. The file is
// xpwc's, and ExecuTorch's own class cannot read it. What that class left at the path is replaced.
//
// What is the same: all runtimes of a path share one cache; the caller serializes calls with mutex(); packed weights
// have the name of the kernel directly followed by the bias' name; names are counted, and delete_packed_data counts
// them down; the file keeps what it has when all runtimes are gone.
//
// What is safe here and was not there:
// - Packed weights that cannot be inserted, or a provider that is called while no runtime is being created, never
//   become a wild pointer. At worst the runtime is not created.
// - Constants that are read at inference (PReLU slopes, operands of elementwise operators) stay until the runtime is
//   gone, also if they are a bias elsewhere, or a kernel. finalize_for_runtime frees only kernels and scales that
//   ExecuTorch's exporter named (by the SHA-256 of their bytes), and that have one tensor: a second one, by the name or
//   the address, may be read. (Not seen: an exported kernel that another operator reads at inference through the same
//   tensor. Programs of today have none.)
// - Packed weights are found by what they were packed from and for, not by name and seed alone: contents, CPU,
//   XNNPACK's version, and the program; or they are compared. Runtimes that give one name to different weights get each
//   their own. Those of the second one have the name with "#2" added; so has a runtime whose names are another's, but
//   not its constants.
// - Runtimes can execute while another one is created: what they ask the provider needs no state.
// - delete_packed_data with names it does not know changes nothing.
// - A file that cannot be opened, because it is something else or belongs to someone else, is left alone. Weights are
//   kept in memory then, and the log reports it.
//
// Packing. XNNPACK packs more in than it says to the cache: scales and zero points, also of inputs and outputs, and with
// dynamically quantised inputs the bias. Nor does it say operators, shapes and groups. ExecuTorch says to this class
// none of that. So nothing is believed: at each start XNNPACK packs, and what it packs is compared with what the file
// has. Equal bytes are shared, by methods and by processes, and others are kept beside them. So answers are right, and
// weights are in memory once, but a warm start takes as long as packing. A program that was exported again with other
// calibration data, under the same path, differs in nothing else.
//
// All that is in the program. So a warm start packs nothing if the class is given the delegate's bytes. In
// XNNCompiler.cpp, compileModel calls this before it defines the first tensor:
//
//   if (use_weight_cache) weights_cache->set_program(buffer_pointer, num_bytes);
//
// It costs a digest of these bytes, which have no weights in them but those without a name. Constants that are not
// named by their SHA-256, as ExecuTorch's exporter names them, are digested too. Delegates share packed weights then
// only if their bytes are equal: two methods that use one weight pack and keep it twice, and a new export is packed
// anew. In a host that knows the parameters of each kernel, set_packing has it shared by all that pack it in one way.
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
  // What XNNPACK knows them by, which is their address; 0 if no runtime uses them.
  size_t offset{0};
  // Their bytes; 0 if they were found in the cache, which XNNPACK does not ask for their size.
  size_t data_size{0};
  // How many finalized runtimes use them.
  size_t ref_count{0};
  // Whether the runtime that is being created uses them.
  bool in_current_runtime{false};
  // Whether they were found in the cache, and not packed by the first runtime here that uses them.
  bool from_load{false};
  // Of XNNPACK's key; 0 if no runtime uses them.
  uint32_t seed{0};
};

// The packed weights of one path, or in memory, for any number of runtimes. It is not synchronized: the caller holds
// mutex() around every method and around xnn_create_runtime, as ExecuTorch's backend does. Runtimes may execute without
// it.
class XNNWeightsCache {
 public:
  // Packed weights are aligned to it at least.
  static constexpr size_t kPackedAllocationAlignment = 64;

  XNNWeightsCache();
  // Frees everything and waits for the disk. All runtimes must have been deleted.
  ~XNNWeightsCache();

  XNNWeightsCache(const XNNWeightsCache&) = delete;
  XNNWeightsCache& operator=(const XNNWeightsCache&) = delete;
  XNNWeightsCache(XNNWeightsCache&&) = delete;
  XNNWeightsCache& operator=(XNNWeightsCache&&) = delete;

  // Sets the path of the file; empty, as at first, is memory alone. Takes effect with the next initialize_for_runtime
  // while there are no runtimes; later it has no effect.
  void set_packed_cache_path(const std::string& path);

  // Sets the options that the cache is opened with, among them writer_wait_ms, verify, max_bytes, XPWC_OPEN_READ_ONLY
  // and XPWC_OPEN_PREFETCH. Takes effect as set_packed_cache_path does; initialize_for_runtime returns InvalidArgument
  // for those that make no sense. log, progress and context must last as long as this object; without log, messages go
  // to ET_LOG, also from threads of libxpwc. Not in ExecuTorch's class.
  void set_options(const xpwc_options& options);

  // Returns what the cache did since it was opened: InvalidState before the first initialize_for_runtime. Not in
  // ExecuTorch's class.
  Result<xpwc_stats> get_stats() const;

  // Begins the creation of a runtime, for which load_unpacked_data takes constants from named_data_map until
  // finalize_for_runtime. Frees what a creation that failed has left. The allocator is not used.
  Error initialize_for_runtime(MemoryAllocator* runtime_allocator, const NamedDataMap* named_data_map);

  // Ends the creation of a runtime: frees the kernels that nothing but packing reads. The file is written soon afterwards. Returns
  // the names of the runtime's packed weights, for delete_packed_data. A runtime without any, but with constants of its
  // own, gets a name from them, so that it can be deleted too. With an error the runtime must not be used.
  Result<std::vector<std::string>> finalize_for_runtime();

  // Returns the provider for xnn_create_runtime. It is one and the same for all runtimes, as long as this object lives.
  xnn_weights_cache_t get();

  // Returns how often a constant was loaded for the runtime that is being created.
  size_t get_num_unpacked_data();

  // Returns the names of the constants loaded for the runtime that is being created, each once.
  std::vector<std::string> get_unpacked_data_names();

  // Returns the names of all packed weights, those that runtimes use and those in the file.
  std::vector<std::string> get_packed_data_names();

  // Returns what is known of the packed weights of a name; NotFound if get_packed_data_names does not have it. Not in
  // ExecuTorch's class, which keeps these to itself.
  Result<PackedDataMeta> get_packed_data_meta(const std::string& name) const;

  // Loads a constant for the runtime that is being created and returns its address, which goes to
  // xnn_define_tensor_value.
  Result<const uint8_t*> load_unpacked_data(const std::string& name);

  // Says which program the runtime is created from: the bytes that ExecuTorch gives the backend for its delegate, which
  // are read during the call. Packed weights that were packed for the same bytes are found then, without packing and
  // comparing. Call it between initialize_for_runtime and xnn_create_runtime, for each runtime. InvalidState while no
  // runtime is being created, InvalidArgument for no bytes. Not in ExecuTorch's class.
  Error set_program(const void* data, size_t size);

  // Says how the constant of that name is packed, in place of set_program: bytes in any form that differ if anything of
  // it does, which are the operator, its shape and groups, types, all scales and zero points, and a bias that XNNPACK
  // packs in without naming it. Packed weights with the same bytes are found then, without packing and comparing. Bytes
  // that are set again are added. Call it between load_unpacked_data and xnn_create_runtime. InvalidState while no
  // runtime is being created, InvalidArgument for no bytes and for a constant that was not loaded. Not in ExecuTorch's
  // class.
  Error set_packing(const std::string& name, const void* bytes, size_t size);

  // Counts down the names of a runtime that will not execute again, as finalize_for_runtime returned them, and frees
  // what no other runtime uses. Any other names are counted down too, and a runtime none of whose names is left ends.
  // InvalidArgument, without effect, for a name that is not known, and for anything but a runtime's names before
  // finalize_for_runtime.
  Error delete_packed_data(const std::vector<std::string>& packed_names);

  // Waits until all packed weights are in the file, on stable storage. Ok if there is no file.
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

// Gives every path one cache, which lives as long as someone holds it. Its methods may be called from any thread.
class XNNWeightsCacheManager {
 public:
  XNNWeightsCacheManager() = default;
  ~XNNWeightsCacheManager() = default;

  XNNWeightsCacheManager(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager& operator=(const XNNWeightsCacheManager&) = delete;
  XNNWeightsCacheManager(XNNWeightsCacheManager&&) = delete;
  XNNWeightsCacheManager& operator=(XNNWeightsCacheManager&&) = delete;

  // Sets the options of the caches that get_or_create makes from now on. Not in ExecuTorch's class.
  void set_options(const xpwc_options& options);

  // Returns the cache of that path; all callers with the empty path share one in memory.
  runtime::Result<std::shared_ptr<delegate::XNNWeightsCache>> get_or_create(const std::string& cache_file_path);

  // Saves every cache that has a path, each under its mutex. Tries all and returns the first error.
  runtime::Error save_all();

  // Returns the number of caches with a path that someone holds.
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
