#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scenarios.hpp"

namespace {

// The names of the constants being loaded are listed, and loads counted, until the runtime is finalized.
void unpacked_names_are_listed(const std::string&) {
  const Constants constants = two_layers();
  XNNWeightsCache cache;
  REQUIRE(cache.get_num_unpacked_data() == 0);
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  Result<const uint8_t*> loaded = cache.load_unpacked_data("w0");
  REQUIRE(loaded.ok());
  REQUIRE(std::memcmp(loaded.get(), constants.bytes("w0").data(), constants.bytes("w0").size()) == 0);
  REQUIRE(cache.load_unpacked_data("b0").ok());
  REQUIRE(cache.load_unpacked_data("w0").get() == loaded.get());
  REQUIRE(cache.get_num_unpacked_data() == 3); // loads
  REQUIRE((sorted(cache.get_unpacked_data_names()) == Names{"b0", "w0"}));
  REQUIRE(cache.finalize_for_runtime().ok());
  REQUIRE(cache.get_num_unpacked_data() == 0);
  REQUIRE(cache.get_unpacked_data_names().empty());
}

// The slopes of a PReLU are read at inference: they stay until the runtime is deleted, though nothing packs them, and
// though their constant is a bias as well.
void slopes_stay_readable(const std::string&) {
  const Constants constants({{"w", float_weights(1)}, {"b", channels(2)}, {"slopes", channels(3)}});
  const std::vector<Graph> graphs = {{linear("w", "b"), prelu("slopes")}, {linear("w", "b"), prelu("b")}, {prelu("slopes")}};
  for (const Graph& graph : graphs) {
    auto cache = cache_of("");
    Method method;
    REQUIRE(method.init(cache, constants, graph) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, graph));
    method.destroy();
    REQUIRE(constants.live_bytes() == 0);
  }
}

// A kernel that another node reads at inference stays, also through the same tensor and in any order of the nodes.
void kernels_that_inference_reads_stay_readable(const std::string& directory) {
  const std::string exported = sha256_like('a');
  const Constants constants({{"w", float_weights(1)}, {"v", float_weights(2)}, {"b", channels(2)}, {exported, float_weights(3)}});
  const std::vector<Graph> graphs = {
      {linear("w", "b"), add_rows("w")},
      {add_rows("w"), linear("w")},
      {linear(exported), add_rows(exported)},
      {linear("w"), linear("v"), add_rows_of_tensor("w")},
      {linear(exported), linear("v"), add_rows_of_tensor(exported)}};
  for (const std::string& path : {path_in(directory), std::string()}) {
    for (const Graph& graph : graphs) {
      for (int start = 0; start < 2; start++) {
        auto cache = cache_of(path);
        Method method;
        REQUIRE(method.init(cache, constants, graph) == Error::Ok);
        REQUIRE(method.execute() == expected(constants, graph));
        method.destroy();
        REQUIRE(constants.live_bytes() == 0);
      }
    }
  }
}

// A data map that has one buffer for two names, which is gone with the first of them that is freed.
class OneBuffer final : public Constants {
 public:
  OneBuffer(const std::string& name, const std::string& other)
      : Constants({{name, float_weights(1)}, {other, float_weights(1)}}), buffer_(bytes(name)) {
    buffer_.resize(buffer_.size() + XNN_EXTRA_BYTES);
  }

  Result<FreeableBuffer> get_data(std::string_view) const override {
    return FreeableBuffer(buffer_.data(), buffer_.size() - XNN_EXTRA_BYTES, [](void*, void* data, size_t n) {
      std::memset(data, 0x7b, n);
    });
  }

 private:
  mutable Bytes buffer_;
};

void kernels_stay_readable_by_another_name(const std::string&) {
  const std::string name = sha256_like('a'), other = sha256_like('b');
  const Graph graph = {linear(name), add_rows(other)};
  const OneBuffer constants(name, other);
  const Output want = expected(constants, graph);
  auto cache = cache_of("");
  Method method;
  REQUIRE(method.init(cache, constants, graph) == Error::Ok);
  REQUIRE(method.execute() == want);
}

// A data map of one kernel in a file that is mapped, and that the host may have changed in memory.
class MappedFile final : public Constants {
 public:
  MappedFile(const std::string& path, bool changed) : Constants({{"w", float_weights(changed ? 2 : 1)}}) {
    const Bytes content = float_weights(1);
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(content.data()), content.size());
    const int file = open(path.c_str(), O_RDONLY);
    address_ = mmap(nullptr, content.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    REQUIRE(address_ != MAP_FAILED && close(file) == 0);
    if (changed) {
      std::memcpy(address_, bytes("w").data(), content.size());
    }
  }

  Result<FreeableBuffer> get_data(std::string_view) const override {
    return FreeableBuffer(address_, bytes("w").size(), [](void*, void* data, size_t size) { munmap(data, size); });
  }

  // Whole pages that the process has in memory.
  size_t resident_pages() const {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<uintptr_t>(address_) / page;
    std::vector<uint64_t> entries(bytes("w").size() / page);
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    const size_t size = entries.size() * sizeof(uint64_t);
    const auto offset = static_cast<off_t>(first * sizeof(uint64_t));
    REQUIRE(pread(pagemap, entries.data(), size, offset) == static_cast<ssize_t>(size));
    REQUIRE(close(pagemap) == 0);
    const auto is_present = [](uint64_t entry) { return entry >> 63 != 0; };
    return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), is_present));
  }

 private:
  void* address_;
};

// A kernel that stays costs no memory if it is in a mapped file, and is read there again when inference needs it.
void kernels_of_a_mapped_file_leave_memory(const std::string& directory) {
  const Graph graph = {linear("w"), add_rows("w")};
  for (const bool changed : {false, true}) {
    const MappedFile constants(directory + "/weights", changed);
    auto cache = cache_of("");
    Method method;
    REQUIRE(method.init(cache, constants, graph) == Error::Ok);
    REQUIRE((constants.resident_pages() == 0) == !changed);
    REQUIRE(method.execute() == expected(constants, graph));
  }
}

// Quantised kernels of equal bytes and names, whose scales differ. How the constants are called must not matter.
struct Quantized {
  std::string kernel, scale, bias;
  float scale_value;
  uint32_t bias_seed;

  Graph graph() const {
    return {dynamic_linear(kernel, scale, bias), prelu("slopes")};
  }
  Constants constants() const {
    return Constants(
        {{kernel, int8_weights(1)}, {scale, scales(scale_value)}, {bias, channels(bias_seed)}, {"slopes", channels(9)}});
  }
  // A delegate has the names of its constants in it.
  std::string program() const {
    return kernel + scale + bias;
  }
};

void run_quantized(const std::string& directory, const std::vector<Quantized>& models, bool tell) {
  auto cache = cache_of(path_in(directory));
  for (const Quantized& model : models) {
    const Constants constants = model.constants();
    Method method;
    REQUIRE(method.init(cache, constants, model.graph(), tell ? model.program() : "") == Error::Ok);
    REQUIRE(method.execute() == expected(constants, model.graph()));
  }
}

const std::vector<Quantized> kQuantized = {
    {"w", "s", "b", 0.01f, 5},
    {sha256_like('a'), "scale_" + sha256_like('b'), sha256_like('c'), 0.01f, 5},
};

void first_process_packs_quantized(const std::string& directory) {
  run_quantized(directory, kQuantized, false);
}

void first_process_packs_quantized_programs(const std::string& directory) {
  run_quantized(directory, kQuantized, true);
}

const std::vector<Quantized> kQuantizedOtherwise = {
    {"w", "s", "b", 0.02f, 5},
    {"w", "s", "b", 0.01f, 6},
    {sha256_like('a'), "scale_" + sha256_like('d'), sha256_like('c'), 0.02f, 5},
    {sha256_like('a'), "scale_" + sha256_like('b'), sha256_like('e'), 0.01f, 6},
};

// In the next process, other scales under the same kernel, or another bias that XNNPACK packs in without naming it, are
// right.
void other_scales_in_the_next_process(const std::string& directory) {
  run_quantized(directory, kQuantizedOtherwise, false);
}

// Also if the names of the constants, and so the programs, are the same.
void other_scales_in_the_next_process_of_programs(const std::string& directory) {
  run_quantized(directory, kQuantizedOtherwise, true);
}

// And the same ones are found.
void same_scales_in_the_next_process(const std::string& directory) {
  const std::string path = path_in(directory);
  auto keep_open = cache_of(path);
  REQUIRE(keep_open->initialize_for_runtime(nullptr, nullptr) == Error::Ok);
  run_quantized(directory, kQuantized, false);
  REQUIRE(stats_of(path).packed.entries == 0);
  REQUIRE(stats_of(path).reused.entries == kQuantized.size());
}

void same_scales_in_the_next_process_of_programs(const std::string& directory) {
  const std::string path = path_in(directory);
  auto keep_open = cache_of(path);
  REQUIRE(keep_open->initialize_for_runtime(nullptr, nullptr) == Error::Ok);
  run_quantized(directory, kQuantized, true);
  REQUIRE(stats_of(path).misses == 0);
  REQUIRE(stats_of(path).hits.entries == kQuantized.size());
}

Graph scale_in_program(float scale, bool says = true) {
  return {dynamic_linear("w", scale, says), prelu("slopes")};
}

// As in ExecuTorch's backend: each process has other scales than the one before.
void scales_that_nobody_says(const std::string& directory) {
  const Constants constants({{"w", int8_weights(1)}, {"slopes", channels(9)}});
  for (const float scale : {0.01f, 0.02f}) {
    auto cache = cache_of(path_in(directory));
    Method method, other;
    REQUIRE(method.init(cache, constants, scale_in_program(scale, false)) == Error::Ok);
    REQUIRE(other.init(cache, constants, scale_in_program(2 * scale, false)) == Error::Ok);
    REQUIRE(method.execute() == expected(constants, scale_in_program(scale)));
    REQUIRE(other.execute() == expected(constants, scale_in_program(2 * scale)));
  }
}

void first_process_says_its_scales(const std::string& directory) {
  const Constants constants({{"w", int8_weights(1)}, {"slopes", channels(9)}});
  auto cache = cache_of(path_in(directory));
  Method method;
  REQUIRE(method.init(cache, constants, scale_in_program(0.01f)) == Error::Ok);
  REQUIRE(method.execute() == expected(constants, scale_in_program(0.01f)));
}

// A host can say how each kernel is packed: then other scales in the next process are right, and the same are found.
void next_process_says_other_scales(const std::string& directory) {
  const std::string path = path_in(directory);
  const Constants constants({{"w", int8_weights(1)}, {"slopes", channels(9)}});
  auto cache = cache_of(path);
  Method same;
  REQUIRE(same.init(cache, constants, scale_in_program(0.01f)) == Error::Ok);
  REQUIRE(stats_of(path).packed.entries == 0);
  Method other;
  REQUIRE(other.init(cache, constants, scale_in_program(0.02f)) == Error::Ok);
  REQUIRE(stats_of(path).packed.entries == 1);
  REQUIRE(same.execute() == expected(constants, scale_in_program(0.01f)));
  REQUIRE(other.execute() == expected(constants, scale_in_program(0.02f)));
}

// Two runtimes that use one kernel in other shapes, which XNNPACK gives one key, get what each has packed.
void one_kernel_in_two_shapes(const std::string& directory) {
  const Constants constants({{"w", float_weights(1)}});
  const size_t size = constants.bytes("w").size();
  for (const bool warm : {false, true}) {
    XNNWeightsCache cache;
    cache.set_packed_cache_path(path_in(directory));
    for (const Bytes& packed : {Bytes(size, 1), Bytes(size, 2), Bytes(2 * size, 3)}) {
      REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
      xnn_weights_cache_t provider = cache.get();
      xnn_weights_cache_look_up_key key{};
      key.seed = 7;
      key.kernel = cache.load_unpacked_data("w").get();
      REQUIRE(provider->look_up(provider->context, &key) == SIZE_MAX);
      void* space = provider->reserve_space(provider->context, packed.size());
      std::memcpy(space, packed.data(), packed.size());
      const size_t offset = provider->look_up_or_insert(provider->context, &key, space, packed.size());
      const void* kept = provider->offset_to_addr(provider->context, offset);
      REQUIRE(std::memcmp(kept, packed.data(), packed.size()) == 0);
      REQUIRE(cache.delete_packed_data(cache.finalize_for_runtime().get()) == Error::Ok);
    }
    REQUIRE(cache.get_stats()->packed.entries == (warm ? 0 : 3));
  }
}

// Saying it of nothing, or at the wrong time, is an error.
void saying_at_the_wrong_time(const std::string&) {
  const Constants constants = two_layers();
  XNNWeightsCache cache;
  const uint8_t zero_point = 3;
  REQUIRE(cache.set_packing("w0", &zero_point, 1) == Error::InvalidState);
  REQUIRE(cache.set_program(&zero_point, 1) == Error::InvalidState);
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  REQUIRE(cache.set_packing("w0", &zero_point, 1) == Error::InvalidArgument);
  REQUIRE(cache.set_program(nullptr, 1) == Error::InvalidArgument);
  REQUIRE(cache.set_program(&zero_point, 0) == Error::InvalidArgument);
  REQUIRE(cache.set_program(&zero_point, 1) == Error::Ok);
  const uint8_t replacement = 4;
  REQUIRE(cache.set_program(&replacement, 1) == Error::Ok);
  REQUIRE(cache.load_unpacked_data("w0").ok());
  REQUIRE(cache.set_program(&replacement, 1) == Error::Ok);
  REQUIRE(cache.set_program(&zero_point, 1) == Error::InvalidState);
  REQUIRE(cache.set_packing("w0", nullptr, 1) == Error::InvalidArgument);
  REQUIRE(cache.set_packing("w0", &zero_point, 0) == Error::InvalidArgument);
  REQUIRE(cache.set_packing("w0", &zero_point, 1) == Error::Ok);
  REQUIRE(cache.finalize_for_runtime().ok());
  REQUIRE(cache.set_packing("w0", &zero_point, 1) == Error::InvalidState);
  REQUIRE(cache.set_program(&zero_point, 1) == Error::InvalidState);
}

} // namespace

Scenarios constant_scenarios() {
  return {
      {"unpacked_names_are_listed", unpacked_names_are_listed},
      {"slopes_stay_readable", slopes_stay_readable},
      {"kernels_that_inference_reads_stay_readable", kernels_that_inference_reads_stay_readable},
      {"kernels_stay_readable_by_another_name", kernels_stay_readable_by_another_name},
      {"kernels_of_a_mapped_file_leave_memory", kernels_of_a_mapped_file_leave_memory},
      {"first_process_packs_quantized", first_process_packs_quantized},
      {"other_scales_in_the_next_process", other_scales_in_the_next_process},
      {"same_scales_in_the_next_process", same_scales_in_the_next_process},
      {"one_kernel_in_two_shapes", one_kernel_in_two_shapes},
      {"first_process_packs_quantized_programs", first_process_packs_quantized_programs},
      {"other_scales_in_the_next_process_of_programs", other_scales_in_the_next_process_of_programs},
      {"same_scales_in_the_next_process_of_programs", same_scales_in_the_next_process_of_programs},
      {"scales_that_nobody_says", scales_that_nobody_says},
      {"first_process_says_its_scales", first_process_says_its_scales},
      {"next_process_says_other_scales", next_process_says_other_scales},
      {"saying_at_the_wrong_time", saying_at_the_wrong_time},
  };
}
