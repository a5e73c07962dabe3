// packing DIRECTORY
//
// Every member of a C++ host's packing arrives: weights with another packing miss.
#include <xpwc.hpp>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host.h"

namespace {

const std::vector<std::uint8_t> content = [] {
  std::vector<std::uint8_t> bytes(4096);
  bytes[1] = 1; // what has one value alone is packed alike in all shapes, and so it is compared
  return bytes;
}();

xpwc::TensorTable table() {
  xpwc::Tensor tensor;
  tensor.data = content.data();
  tensor.size = content.size();
  tensor.stamp = "1";
  xpwc::TensorTable table;
  table.add("w", tensor);
  return table;
}

// Returns whether packed weights are found that are packed so. If not, and pack is set, they are packed.
bool found(xpwc::Cache& cache, const std::optional<xpwc::Packing>& packing, bool pack = false, bool compare = false,
           bool believe = true) {
  xpwc::TensorTable data = table();
  xpwc::Result<xpwc::Session> session = cache.begin(&data);
  REQUIRE(session.ok());
  xpwc::LoadOptions options;
  options.packing = packing;
  options.compare = compare;
  options.believe = believe;
  const xpwc::Result<xpwc::Loaded> kernel = session->load("w", options);
  REQUIRE(kernel.ok());
  const xnn_weights_cache_t provider = session->provider();
  xnn_weights_cache_look_up_key key{};
  key.seed = 17;
  key.kernel = (*kernel).data;
  const bool is = provider->look_up(provider->context, &key) != SIZE_MAX;
  if (!is && pack) {
    void* space = provider->reserve_space(provider->context, content.size());
    REQUIRE(space != nullptr);
    std::memset(space, 'a', content.size());
    REQUIRE(provider->look_up_or_insert(provider->context, &key, space, content.size()) != SIZE_MAX);
  }
  REQUIRE(session->finalize().ok());
  const xpwc::Result<std::vector<std::string>> names = session->names();
  REQUIRE(names && *names == std::vector<std::string>(is || pack ? 1 : 0, "w"));
  const xpwc::Result<std::string> explained = session->explain();
  REQUIRE(explained && explained->find(is ? "1 of 1 weights are found (" : "0 of 1 weights are found. ") == 0);
  return is;
}

using Change = std::function<void(xpwc::Packing&)>;

// A type that nobody knows yet, of which everything counts.
xpwc::Packing base() {
  static const float scales[] = {1, 2};
  static const std::uint16_t block_scales[] = {1, 2};
  xpwc::Operand operand;
  operand.datatype = static_cast<xnn_datatype>(17);  // pqint8, which XNNPACK has no constants of
  operand.scales = {scales, 2};
  operand.block_scales = {block_scales, 2};
  xpwc::Packing packing;
  packing.operator_type = xpwc::Operator::convolution_2d;
  packing.dims = {64, 2, 2, 16};
  packing.input = packing.kernel = packing.bias = packing.output = operand;
  packing.hidden_bias = {"bias", 4};
  return packing;
}

void add_operand_changes(std::vector<Change>& changes, xpwc::Operand xpwc::Packing::*operand) {
  static const float scales[] = {1, 3};
  static const std::uint16_t block_scales[] = {1, 3};
  const std::vector<std::function<void(xpwc::Operand&)>> of_operand = {
      [](xpwc::Operand& o) { o.datatype = xnn_datatype_fp32; },
      [](xpwc::Operand& o) { o.zero_point = -1; },
      [](xpwc::Operand& o) { o.scale = 3; },
      [](xpwc::Operand& o) { o.channel_dim = 1; },
      [](xpwc::Operand& o) { o.scales = {scales, 2}; },
      [](xpwc::Operand& o) { o.scales.size = 1; },
      [](xpwc::Operand& o) { o.block_scales = {block_scales, 2}; },
      [](xpwc::Operand& o) { o.block_scales.size = 1; },
      [](xpwc::Operand& o) { o.block_size = 3; },
      [](xpwc::Operand& o) { o.non_batch_dims = 2; },
  };
  for (const auto& change : of_operand) {
    changes.push_back([=](xpwc::Packing& p) { change(p.*operand); });
  }
}

void every_member_counts() {
  std::vector<Change> changes = {
      [](xpwc::Packing& p) { p.operator_type = xpwc::Operator::fully_connected; },
      [](xpwc::Packing& p) { p.operator_type = xpwc::Operator::depthwise_convolution_2d; },
      [](xpwc::Packing& p) { p.operator_type = xpwc::Operator::deconvolution_2d; },
      [](xpwc::Packing& p) { p.operator_type = xpwc::Operator::batch_matrix_multiply; },
      [](xpwc::Packing& p) { p.transposed = true; },
      [](xpwc::Packing& p) { p.padded = true; },
      [](xpwc::Packing& p) { p.half_precision = true; },
      [](xpwc::Packing& p) { p.sparse_inference = true; },
      [](xpwc::Packing& p) { p.consistent_arithmetic = true; },
      [](xpwc::Packing& p) { p.dims = {16, 2, 2, 64}; },
      [](xpwc::Packing& p) { p.dims = {64, 2, 2, 16, 1}; },
      [](xpwc::Packing& p) { p.groups = 2; },
      [](xpwc::Packing& p) { p.stride.height = 2; },
      [](xpwc::Packing& p) { p.stride.width = 2; },
      [](xpwc::Packing& p) { p.dilation.height = 2; },
      [](xpwc::Packing& p) { p.dilation.width = 2; },
      [](xpwc::Packing& p) { p.hidden_bias.data = "BIAS"; },
      [](xpwc::Packing& p) { p.hidden_bias.size = 3; },
      [](xpwc::Packing& p) {
        p = xpwc::Packing();
        p.opaque = {"x", 1};
      },
  };
  for (auto operand : {&xpwc::Packing::input, &xpwc::Packing::kernel, &xpwc::Packing::bias, &xpwc::Packing::output}) {
    add_operand_changes(changes, operand);
  }
  xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open("");
  REQUIRE(cache.ok());
  REQUIRE(!found(*cache, base(), true));
  REQUIRE(found(*cache, base()));
  REQUIRE(!found(*cache, base(), true, true));
  for (size_t i = 0; i < changes.size(); i++) {
    xpwc::Packing packing = base();
    changes[i](packing);
    if (found(*cache, packing)) {
      require_failed(__FILE__, __LINE__, std::to_string(i).c_str(), "makes no difference");
    }
  }
}

void a_packing_that_lacks_something_is_believed_by_name_alone() {
  xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open("");
  REQUIRE(cache.ok());
  for (const std::optional<xpwc::Packing>& packing : {std::optional<xpwc::Packing>(), xpwc::opaque("a layer", 7).packing}) {
    for (int start = 0; start < 3; start++) {
      REQUIRE(!found(*cache, packing, true, false, false));
    }
    REQUIRE(found(*cache, packing));
  }
  const xpwc::Result<xpwc::Stats> stats = cache->stats();
  REQUIRE(stats && stats->packed.entries == 2 && stats->reused.entries == 4);
}

void what_makes_no_sense_is_named() {
  xpwc::Result<xpwc::Cache> cache = xpwc::Cache::open("");
  REQUIRE(cache.ok());
  xpwc::TensorTable data = table();
  xpwc::Result<xpwc::Session> session = cache->begin(&data);
  REQUIRE(session.ok());
  const std::vector<std::pair<std::string, Change>> wrong = {
      {"operator_type", [](xpwc::Packing& p) { p.operator_type = xpwc::Operator::unknown; }},
      {"dim_count", [](xpwc::Packing& p) { p.dims = {}; }},
      {"packing.dims contradicts its size", [](xpwc::Packing& p) { p.dims = {100, 100}; }},
      {"kernel.scales", [](xpwc::Packing& p) { p.kernel.scales.data = nullptr; }},
      {"opaque", [](xpwc::Packing& p) { p.opaque = {"x", 1}; }},
  };
  for (const auto& [member, change] : wrong) {
    xpwc::LoadOptions options;
    options.packing = base();
    change(*options.packing);
    const xpwc::Result<xpwc::Loaded> loaded = session->load("w", options);
    REQUIRE(loaded.status().code() == XPWC_STATUS_INVALID_ARGUMENT);
    REQUIRE(loaded.status().message().find(member) != std::string::npos);
  }
}

}  // namespace

int main(int argc, char**) {
  REQUIRE(argc == 2);
  every_member_counts();
  a_packing_that_lacks_something_is_believed_by_name_alone();
  what_makes_no_sense_is_named();
  return 0;
}
