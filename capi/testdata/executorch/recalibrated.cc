// A net that ExecuTorch exported several times, with the same weights and other calibration data: see
// recalibrated/README.md. A runtime is made of the delegate's bytes as XNNCompiler.cpp does it, for the two kinds of
// nodes that there are.
#include <cmath>
#include <filesystem>

#include "scenarios.hpp"

namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Output floats_of(const std::filesystem::path& path) {
  const std::string content = content_of(path);
  Output values(content.size() / sizeof(float));
  std::memcpy(values.data(), content.data(), values.size() * sizeof(float));
  return values;
}

template <typename T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// A table of a flatbuffer. Fields that it does not have are zero.
struct Table {
  const char* at;

  const char* field(int slot) const {
    const char* fields = at - read<int32_t>(at);
    const size_t entry = 4 + 2 * static_cast<size_t>(slot);
    const uint16_t offset = entry < read<uint16_t>(fields) ? read<uint16_t>(fields + entry) : uint16_t{0};
    return offset == 0 ? nullptr : at + offset;
  }
  template <typename T>
  T get(int slot, T missing = T{}) const {
    const char* value = field(slot);
    return value == nullptr ? missing : read<T>(value);
  }
  // What a table or a vector is behind.
  const char* referred(int slot) const {
    const char* from = field(slot);
    REQUIRE(from != nullptr);
    return from + read<uint32_t>(from);
  }
  Table table(int slot) const {
    return {referred(slot)};
  }
  std::vector<Table> tables(int slot) const {
    const char* vector = referred(slot);
    std::vector<Table> all;
    for (uint32_t i = 0; i < read<uint32_t>(vector); i++) {
      const char* from = vector + 4 + 4 * static_cast<size_t>(i);
      all.push_back({from + read<uint32_t>(from)});
    }
    return all;
  }
  std::vector<size_t> sizes(int slot) const {
    const char* vector = referred(slot);
    std::vector<size_t> all;
    for (uint32_t i = 0; i < read<uint32_t>(vector); i++) {
      all.push_back(read<uint32_t>(vector + 4 + 4 * static_cast<size_t>(i)));
    }
    return all;
  }
  std::string text(int slot) const {
    const char* vector = referred(slot);
    return std::string(vector + 4, read<uint32_t>(vector));
  }
};

// A program, as far as a backend is given it.
struct Program {
  std::string name;
  std::string delegate;
  Output stock; // its outputs in the stock runtime
};

class Delegate {
 public:
  Delegate(const std::string& bytes, const Constants& constants, XNNWeightsCache* cache)
      : graph_{bytes.data()}, constants_(constants), cache_(cache) {
    ids_[XNN_INVALID_VALUE_ID] = XNN_INVALID_VALUE_ID;
    const char* flatbuffer = bytes.data() + read<uint32_t>(bytes.data() + 10);
    graph_.at = flatbuffer + read<uint32_t>(flatbuffer);
  }
  ~Delegate() {
    xnn_delete_runtime(runtime_);
  }
  Delegate(const Delegate&) = delete;
  Delegate& operator=(const Delegate&) = delete;

  Names compile() {
    xnn_subgraph_t subgraph = nullptr;
    REQUIRE(xnn_create_subgraph(graph_.get<uint32_t>(3), 0, &subgraph) == xnn_status_success);
    for (const Table& value : graph_.tables(2)) {
      define_value(subgraph, value);
    }
    for (const Table& node : graph_.tables(1)) {
      define_node(subgraph, node);
    }
    xnn_weights_cache_t provider = cache_ != nullptr && cache_->get_num_unpacked_data() > 0 ? cache_->get() : nullptr;
    REQUIRE(xnn_create_runtime_v3(subgraph, provider, nullptr, 0, &runtime_) == xnn_status_success);
    REQUIRE(xnn_delete_subgraph(subgraph) == xnn_status_success);
    return cache_ == nullptr ? Names() : cache_->finalize_for_runtime().get();
  }

  Output execute(const Output& input) {
    Output in = input, out(input.size());
    in.resize(in.size() + XNN_EXTRA_BYTES);
    out.resize(out.size() + XNN_EXTRA_BYTES);
    const xnn_external_value values[] = {{input_, in.data()}, {output_, out.data()}};
    REQUIRE(xnn_reshape_runtime(runtime_) == xnn_status_success);
    REQUIRE(xnn_setup_runtime_v2(runtime_, 2, values) == xnn_status_success);
    REQUIRE(xnn_invoke_runtime(runtime_) == xnn_status_success);
    out.resize(input.size());
    return out;
  }

 private:
  const void* constant(uint32_t index) {
    if (index == 0) {
      return nullptr;
    }
    const std::string name = graph_.tables(8)[index].text(2);
    return cache_ == nullptr ? constants_.bytes(name).data() : cache_->load_unpacked_data(name).get();
  }

  void define_value(xnn_subgraph_t subgraph, const Table& of) {
    const bool quantized = of.get<uint8_t>(0) == 2;
    const Table tensor = quantized ? of.table(1).table(0) : of.table(1);
    const auto type = static_cast<xnn_datatype>(tensor.get<int16_t>(0));
    const std::vector<size_t> dims = tensor.sizes(2);
    const auto external = tensor.get<uint32_t>(4), flags = tensor.get<uint32_t>(5);
    const void* data = constant(tensor.get<uint32_t>(3));
    uint32_t id = XNN_INVALID_VALUE_ID;
    xnn_status status = xnn_status_unsupported_parameter;
    switch (quantized ? of.table(1).get<uint8_t>(1) : 0) {
      case 0:
        status = xnn_define_tensor_value(subgraph, type, dims.size(), dims.data(), data, external, flags, &id);
        break;
      case 1: {
        const Table channels = of.table(1).table(2);
        const auto scale = static_cast<const float*>(constant(channels.get<uint32_t>(2)));
        status = xnn_define_channelwise_quantized_tensor_value_v2(
            subgraph, type, 0, scale, dims.size(), channels.get<uint32_t>(1), dims.data(), data, external, flags, &id);
        break;
      }
      case 2: {
        const Table whole = of.table(1).table(2);
        status = xnn_define_quantized_tensor_value(
            subgraph, type, whole.get<int32_t>(1), whole.get<float>(0), dims.size(), dims.data(), data, external, flags,
            &id);
      }
    }
    REQUIRE(status == xnn_status_success);
    ids_[tensor.get<uint32_t>(6)] = id;
    if ((flags & XNN_VALUE_FLAG_EXTERNAL_INPUT) != 0) {
      input_ = external;
    } else if ((flags & XNN_VALUE_FLAG_EXTERNAL_OUTPUT) != 0) {
      output_ = external;
    }
  }

  void define_node(xnn_subgraph_t subgraph, const Table& of) {
    const Table node = of.table(1);
    const auto value = [&](int slot) { return ids_.at(node.get<uint32_t>(slot)); };
    xnn_status status = xnn_status_unsupported_parameter;
    switch (of.get<uint8_t>(0)) {
      case 2: {
        const float infinity = std::numeric_limits<float>::infinity();
        const bool bounded = of.field(3) != nullptr;
        const float least = bounded ? of.table(3).get<float>(0) : -infinity;
        const float most = bounded ? of.table(3).get<float>(1) : infinity;
        status = xnn_define_fully_connected(
            subgraph, least, most, value(0), value(1), value(2), value(3), node.get<uint32_t>(4));
        break;
      }
      case 18:
        status = xnn_define_unary(subgraph, xnn_unary_convert, nullptr, value(0), value(1), node.get<uint32_t>(2));
    }
    REQUIRE(status == xnn_status_success);
  }

  Table graph_;
  const Constants& constants_;
  XNNWeightsCache* cache_;
  std::map<uint32_t, uint32_t> ids_; // XNNPACK's, by the delegate's
  uint32_t input_ = 0, output_ = 0;
  xnn_runtime_t runtime_ = nullptr;
};

// Runs a program once, from its initialization to its end.
Output run(const Program& program, const Constants& constants, const Output& input, XNNWeightsCache* cache, bool tell) {
  std::unique_lock<std::mutex> lock;
  if (cache != nullptr) {
    lock = std::unique_lock<std::mutex>(cache->mutex());
    REQUIRE(cache->initialize_for_runtime(nullptr, &constants) == Error::Ok);
  }
  if (tell) {
    REQUIRE(cache->set_program(program.delegate.data(), program.delegate.size()) == Error::Ok);
  }
  Delegate delegate(program.delegate, constants, cache);
  const Names names = delegate.compile();
  const Output output = delegate.execute(input);
  if (cache != nullptr) {
    REQUIRE(cache->delete_packed_data(names) == Error::Ok);
  }
  return output;
}

bool is_near(const Output& want, const Output& got) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); i++) {
    difference += std::pow(want[i] - got[i], 2);
    size += std::pow(want[i], 2);
  }
  return std::sqrt(difference) <= 0.03 * std::sqrt(size);
}

Constants named_data(const std::filesystem::path& data) {
  std::map<std::string, Bytes> named;
  for (const auto& entry : std::filesystem::directory_iterator(data / "constants")) {
    const std::string content = content_of(entry.path());
    named[entry.path().filename().string()] = Bytes(content.begin(), content.end());
  }
  return Constants(named);
}

// All programs in turn on one file answer as without a cache, and as in the stock runtime, in both orders and in each
// process; and nothing is packed a second time.
void run_all(const std::string& directory, bool tell) {
  const std::filesystem::path data = std::getenv("XPWC_RECALIBRATED");
  const Constants constants = named_data(data);
  const Output input = floats_of(data / "input");
  std::vector<Program> programs;
  for (const char* name : {"bias_0", "bias_1", "bias_2", "nobias_0", "nobias_1", "nobias_2"}) {
    programs.push_back({name, content_of(data / "delegates" / name), floats_of(data / "outputs" / name)});
  }
  for (const char* order : {"forwards", "backwards"}) {
    for (const bool warm : {false, true}) {
      auto cache = cache_of(directory + "/" + order);
      for (const Program& program : programs) {
        const Output got = run(program, constants, input, cache.get(), tell);
        REQUIRE(got == run(program, constants, input, nullptr, false));
        REQUIRE(is_near(program.stock, got));
      }
      REQUIRE(!warm || cache->get_stats()->packed.entries == 0);
      REQUIRE(!warm || !tell || cache->get_stats()->misses == 0);
    }
    std::reverse(programs.begin(), programs.end());
  }
}

void recalibrated_programs_compared(const std::string& directory) {
  run_all(directory, false);
}

// Kernels that a program only packs are freed when the runtime is finalized, at first and next starts.
void kernels_are_freed_by_finalize(const std::string& directory) {
  const std::filesystem::path data = std::getenv("XPWC_RECALIBRATED");
  const Constants constants = named_data(data);
  const std::string program = content_of(data / "delegates" / "bias_0");
  constexpr size_t kKernels = 2 * 256 * 512, kBiases = (256 + 512) * sizeof(int32_t);
  for (const std::string& path : {path_in(directory), std::string()}) {
    for (int start = 0; start < 2; start++) {
      auto cache = cache_of(path);
      REQUIRE(cache->initialize_for_runtime(nullptr, &constants) == Error::Ok);
      REQUIRE(cache->set_program(program.data(), program.size()) == Error::Ok);
      Delegate delegate(program, constants, cache.get());
      const Names names = delegate.compile();
      REQUIRE(constants.live_bytes() == kBiases);
      REQUIRE(cache->delete_packed_data(names) == Error::Ok);
      REQUIRE(constants.live_bytes() == 0);
    }
  }
  // Without its program a kernel could be read at inference.
  auto cache = cache_of("");
  REQUIRE(cache->initialize_for_runtime(nullptr, &constants) == Error::Ok);
  Delegate delegate(program, constants, cache.get());
  const Names names = delegate.compile();
  REQUIRE(constants.live_bytes() == kKernels + kBiases);
  REQUIRE(cache->delete_packed_data(names) == Error::Ok);
}

// A program that is cut off or changed is no reason to read beyond its bytes.
void damaged_programs(const std::string&) {
  const std::filesystem::path data = std::getenv("XPWC_RECALIBRATED");
  const Constants constants = named_data(data);
  const std::string program = content_of(data / "delegates" / "bias_0");
  XNNWeightsCache cache;
  REQUIRE(cache.initialize_for_runtime(nullptr, &constants) == Error::Ok);
  const auto set_copy = [&](const std::string& bytes) {
    const std::vector<char> copy(bytes.begin(), bytes.end());
    REQUIRE(cache.set_program(copy.data(), copy.size()) == Error::Ok);
  };
  for (size_t size = 1; size < program.size(); size++) {
    set_copy(program.substr(0, size));
  }
  for (size_t i = 0; i < program.size(); i++) {
    for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
      std::string changed = program;
      changed[i] = value;
      set_copy(changed);
    }
  }
}

void recalibrated_programs_told(const std::string& directory) {
  run_all(directory, true);
}

} // namespace

Scenarios recalibrated_scenarios() {
  return {
      {"recalibrated_programs_compared", recalibrated_programs_compared},
      {"recalibrated_programs_told", recalibrated_programs_told},
      {"kernels_are_freed_by_finalize", kernels_are_freed_by_finalize},
      {"damaged_programs", damaged_programs},
  };
}
