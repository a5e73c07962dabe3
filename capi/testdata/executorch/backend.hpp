// A backend shaped like ExecuTorch's for XNNPACK: constants in a NamedDataMap, methods that are initialized, executed
// and destroyed through XNNWeightsCache in the order and under the mutex that XNNPACKBackend.cpp uses. What only a
// changed backend does, set_program and set_packing, it does where a scenario says so. (real.cc puts the class into
// ExecuTorch's own.)
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <xnnpack.h>

#include <executorch/runtime/platform/runtime.h>

#include <xpwc_executorch.hpp>

using executorch::backends::xnnpack::XNNWeightsCacheManager;
using executorch::backends::xnnpack::delegate::PackedDataMeta;
using executorch::backends::xnnpack::delegate::XNNWeightsCache;
using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

#define REQUIRE(ok) ((ok) ? (void)0 : require_failed(__FILE__, __LINE__, #ok))

[[noreturn]] inline void require_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  std::fflush(stderr);
  std::_Exit(1);
}

using Bytes = std::vector<uint8_t>;
using Names = std::vector<std::string>;
using Output = std::vector<float>;

constexpr size_t kWidth = 96;
constexpr size_t kBatch = 3;

// Numbers in [-1, 1) that depend on the seed.
inline std::vector<float> floats(size_t n, uint32_t seed) {
  std::vector<float> values(n);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed)) / 2147483648.0f;
  }
  return values;
}

inline Bytes bytes_of(const std::vector<float>& values, float factor = 1.0f) {
  Bytes bytes(values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); i++) {
    const float value = values[i] * factor;
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

inline Bytes float_weights(uint32_t seed) {
  return bytes_of(floats(kWidth * kWidth, seed), 0.1f);
}

inline Bytes channels(uint32_t seed) {
  return bytes_of(floats(kWidth, seed));
}

inline Bytes int8_weights(uint32_t seed) {
  Bytes bytes;
  for (float value : floats(kWidth * kWidth, seed)) {
    bytes.push_back(static_cast<uint8_t>(static_cast<int8_t>(value * 127.0f)));
  }
  return bytes;
}

inline Bytes scales(float value) {
  return bytes_of(std::vector<float>(kWidth, value));
}

// Constants by name. Every get_data is memory of its own that is overwritten when it is freed, so that reading it later
// shows.
class Constants : public executorch::ET_RUNTIME_NAMESPACE::NamedDataMap {
 public:
  explicit Constants(std::map<std::string, Bytes> constants) : constants_(std::move(constants)) {}

  Result<FreeableBuffer> get_data(std::string_view key) const override {
    auto found = constants_.find(std::string(key));
    if (found == constants_.end()) {
      return Error::NotFound;
    }
    const size_t size = found->second.size();
    void* copy = std::aligned_alloc(64, (size + XNN_EXTRA_BYTES + 63) / 64 * 64);
    std::memcpy(copy, found->second.data(), size);
    live_bytes_ += size;
    return FreeableBuffer(
        copy,
        size,
        [](void* context, void* data, size_t n) {
          std::memset(data, 0x7b, n);
          std::free(data);
          *static_cast<std::atomic<size_t>*>(context) -= n;
        },
        &live_bytes_);
  }

  const Bytes& bytes(const std::string& name) const {
    return constants_.at(name);
  }

  // Bytes that were given and not freed.
  size_t live_bytes() const {
    return live_bytes_;
  }

  Result<const executorch::ET_RUNTIME_NAMESPACE::TensorLayout> get_tensor_layout(std::string_view) const override {
    return Error::NotImplemented;
  }
  Error load_data_into(std::string_view, void*, size_t) const override {
    return Error::NotImplemented;
  }
  Result<uint32_t> get_num_keys() const override {
    return static_cast<uint32_t>(constants_.size());
  }
  Result<const char*> get_key(uint32_t index) const override {
    if (index >= constants_.size()) {
      return Error::InvalidArgument;
    }
    return std::next(constants_.begin(), index)->first.c_str();
  }

 private:
  std::map<std::string, Bytes> constants_;
  mutable std::atomic<size_t> live_bytes_{0};
};

// A layer. An empty name means that there is no such constant.
struct Layer {
  enum Kind { kLinear, kDynamicLinear, kPrelu, kAddRows, kAddRowsOfTensor } kind;
  std::string kernel; // of kPrelu: the slopes
  std::string scale;
  std::string bias;
  float scale_in_program = 0; // instead of a constant
  bool says = false; // the scale, by set_packing: ExecuTorch's backend does not
};

using Graph = std::vector<Layer>;

inline Layer linear(const std::string& kernel, const std::string& bias = "") {
  return {Layer::kLinear, kernel, "", bias};
}

// 8-bit weights with a scale for each channel, inputs quantised dynamically: neither scale nor bias is in XNNPACK's
// key.
inline Layer dynamic_linear(const std::string& kernel, const std::string& scale, const std::string& bias) {
  return {Layer::kDynamicLinear, kernel, scale, bias};
}

// The same, with its scale in the program, where the cache cannot see it.
inline Layer dynamic_linear(const std::string& kernel, float scale, bool says) {
  return {Layer::kDynamicLinear, kernel, "", "", scale, says};
}

inline Layer prelu(const std::string& slopes) {
  return {Layer::kPrelu, slopes, "", ""};
}

// Adds the first rows of a kernel, which is read at inference.
inline Layer add_rows(const std::string& kernel) {
  return {Layer::kAddRows, kernel, "", ""};
}

// The same, through the tensor of the layer before that packs the kernel.
inline Layer add_rows_of_tensor(const std::string& kernel) {
  return {Layer::kAddRowsOfTensor, kernel, "", ""};
}

// A method of a program: a graph and its runtime.
class Method {
 public:
  Method() = default;
  ~Method() {
    destroy();
  }
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  // Without a cache, constants are XNNPACK's to pack anew. program is what set_program is given, if not empty.
  Error init(
      std::shared_ptr<XNNWeightsCache> cache,
      const Constants& constants,
      const Graph& graph,
      const std::string& program = "") {
    std::unique_lock<std::mutex> lock;
    if (cache != nullptr) {
      lock = std::unique_lock<std::mutex>(cache->mutex());
      if (Error error = cache->initialize_for_runtime(nullptr, &constants); error != Error::Ok) {
        return error;
      }
      if (!program.empty()) {
        REQUIRE(cache->set_program(program.data(), program.size()) == Error::Ok);
      }
    }
    if (Error error = compile(cache.get(), constants, graph); error != Error::Ok) {
      return error;
    }
    cache_ = std::move(cache);
    return Error::Ok;
  }

  Output execute(uint32_t seed = 1) {
    std::unique_lock<std::mutex> lock;
    if (cache_ != nullptr) {
      lock = std::unique_lock<std::mutex>(cache_->mutex());
    }
    return execute_unlocked(seed);
  }

  Output execute_unlocked(uint32_t seed) {
    std::vector<float> input = floats(kBatch * kWidth + XNN_EXTRA_BYTES, seed);
    Output output(kBatch * kWidth);
    const xnn_external_value values[] = {{0, input.data()}, {1, output.data()}};
    REQUIRE(xnn_reshape_runtime(runtime_) == xnn_status_success);
    REQUIRE(xnn_setup_runtime_v2(runtime_, 2, values) == xnn_status_success);
    REQUIRE(xnn_invoke_runtime(runtime_) == xnn_status_success);
    return output;
  }

  void destroy() {
    if (runtime_ == nullptr) {
      return;
    }
    std::unique_lock<std::mutex> lock;
    if (cache_ != nullptr) {
      lock = std::unique_lock<std::mutex>(cache_->mutex());
      if (!names_.empty()) {
        REQUIRE(cache_->delete_packed_data(names_) == Error::Ok);
      }
    }
    xnn_delete_runtime(runtime_);
    runtime_ = nullptr;
    lock = std::unique_lock<std::mutex>();
    cache_.reset();
  }

  const Names& names() const {
    return names_;
  }

 private:
  Error compile(XNNWeightsCache* cache, const Constants& constants, const Graph& graph) {
    xnn_subgraph_t created = nullptr;
    REQUIRE(xnn_create_subgraph(2, 0, &created) == xnn_status_success);
    std::unique_ptr<xnn_subgraph, decltype(&xnn_delete_subgraph)> subgraph(created, xnn_delete_subgraph);

    Error error = Error::Ok;
    auto load = [&](const std::string& name) -> const void* {
      if (cache == nullptr) {
        return constants.bytes(name).data();
      }
      Result<const uint8_t*> loaded = cache->load_unpacked_data(name);
      if (!loaded.ok()) {
        error = loaded.error();
        return nullptr;
      }
      return loaded.get();
    };

    std::list<std::vector<float>> scales_in_program;
    const size_t batch[] = {kBatch, kWidth};
    const size_t square[] = {kWidth, kWidth};
    const size_t row[] = {kWidth};
    std::map<std::string, uint32_t> tensors;
    uint32_t value = XNN_INVALID_VALUE_ID;
    xnn_define_tensor_value(subgraph.get(), xnn_datatype_fp32, 2, batch, nullptr, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &value);
    for (size_t i = 0; i < graph.size(); i++) {
      const Layer& layer = graph[i];
      uint32_t kernel = XNN_INVALID_VALUE_ID;
      uint32_t bias = XNN_INVALID_VALUE_ID;
      uint32_t input = value;
      uint32_t output = XNN_INVALID_VALUE_ID;
      const void* data = layer.kind == Layer::kAddRowsOfTensor ? nullptr : load(layer.kernel);
      if (data == nullptr && layer.kind != Layer::kAddRowsOfTensor) {
        return error;
      }
      switch (layer.kind) {
        case Layer::kAddRowsOfTensor:
          kernel = tensors.at(layer.kernel);
          break;
        case Layer::kLinear:
        case Layer::kAddRows:
          xnn_define_tensor_value(subgraph.get(), xnn_datatype_fp32, 2, square, data, XNN_INVALID_VALUE_ID, 0, &kernel);
          break;
        case Layer::kPrelu:
          xnn_define_tensor_value(subgraph.get(), xnn_datatype_fp32, 1, row, data, XNN_INVALID_VALUE_ID, 0, &kernel);
          break;
        case Layer::kDynamicLinear: {
          std::vector<float>& inside = scales_in_program.emplace_back(kWidth, layer.scale_in_program);
          const void* scale = layer.scale.empty() ? inside.data() : load(layer.scale);
          if (scale == nullptr) {
            return error;
          }
          if (cache != nullptr && layer.says) {
            REQUIRE(cache->set_packing(layer.kernel, &layer.scale_in_program, sizeof(float)) == Error::Ok);
          }
          xnn_define_channelwise_quantized_tensor_value(
              subgraph.get(), xnn_datatype_qcint8, static_cast<const float*>(scale), 2, 0, square, data,
              XNN_INVALID_VALUE_ID, 0, &kernel);
          xnn_define_dynamically_quantized_tensor_value(
              subgraph.get(), xnn_datatype_qdint8, 2, 1, batch, XNN_INVALID_VALUE_ID, 0, &input);
          REQUIRE(xnn_define_unary(subgraph.get(), xnn_unary_convert, nullptr, value, input, 0) == xnn_status_success);
        }
      }
      tensors[layer.kernel] = kernel;
      if (!layer.bias.empty()) {
        data = load(layer.bias);
        if (data == nullptr) {
          return error;
        }
        xnn_define_tensor_value(subgraph.get(), xnn_datatype_fp32, 1, row, data, XNN_INVALID_VALUE_ID, 0, &bias);
      }
      const bool last = i + 1 == graph.size();
      xnn_define_tensor_value(
          subgraph.get(), xnn_datatype_fp32, 2, batch, nullptr, last ? 1 : XNN_INVALID_VALUE_ID,
          last ? XNN_VALUE_FLAG_EXTERNAL_OUTPUT : 0, &output);
      if (layer.kind == Layer::kPrelu) {
        REQUIRE(xnn_define_binary(subgraph.get(), xnn_binary_prelu, nullptr, input, kernel, output, 0) == xnn_status_success);
      } else if (layer.kind == Layer::kAddRows || layer.kind == Layer::kAddRowsOfTensor) {
        const size_t from[] = {0, 0};
        uint32_t rows = XNN_INVALID_VALUE_ID;
        xnn_define_tensor_value(subgraph.get(), xnn_datatype_fp32, 2, batch, nullptr, XNN_INVALID_VALUE_ID, 0, &rows);
        REQUIRE(xnn_define_static_slice(subgraph.get(), 2, from, batch, kernel, rows, 0) == xnn_status_success);
        REQUIRE(
            xnn_define_binary(subgraph.get(), xnn_binary_add, nullptr, input, rows, output, 0) == xnn_status_success);
      } else {
        const float infinity = std::numeric_limits<float>::infinity();
        REQUIRE(
            xnn_define_fully_connected(subgraph.get(), -infinity, infinity, input, kernel, bias, output, 0) ==
            xnn_status_success);
      }
      value = output;
    }

    xnn_weights_cache_t provider = cache != nullptr && cache->get_num_unpacked_data() > 0 ? cache->get() : nullptr;
    if (xnn_create_runtime_v3(subgraph.get(), provider, nullptr, 0, &runtime_) != xnn_status_success) {
      runtime_ = nullptr;
      return Error::Internal;
    }
    if (cache != nullptr) {
      Result<Names> names = cache->finalize_for_runtime();
      if (!names.ok()) {
        return names.error();
      }
      names_ = names.get();
    }
    return Error::Ok;
  }

  std::shared_ptr<XNNWeightsCache> cache_;
  xnn_runtime_t runtime_ = nullptr;
  Names names_;
};

// What the graph computes without any cache.
inline Output expected(const Constants& constants, const Graph& graph, uint32_t seed = 1) {
  Method method;
  REQUIRE(method.init(nullptr, constants, graph) == Error::Ok);
  return method.execute_unlocked(seed);
}

inline std::shared_ptr<XNNWeightsCache> cache_of(const std::string& path) {
  auto cache = std::make_shared<XNNWeightsCache>();
  cache->set_packed_cache_path(path);
  return cache;
}

// What happened at the path so far in this process. The cache must be open.
inline xpwc_stats stats_of(const std::string& path) {
  xpwc_cache cache{};
  REQUIRE(xpwc_open(path.c_str(), nullptr, &cache) == XPWC_STATUS_OK);
  xpwc_stats stats{};
  stats.struct_size = sizeof(stats);
  REQUIRE(xpwc_cache_stats(cache, &stats) == XPWC_STATUS_OK);
  REQUIRE(xpwc_close(cache) == XPWC_STATUS_OK);
  return stats;
}
