// Computes y = W x with XNNPACK. The first run packs W into the file hello.xpwc, and the next ones find it there.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include <xpwc.hpp>

static void check(bool ok, const std::string& why) { if (!ok) { std::cerr << "hello: " << why << "\n"; std::exit(1); } }
static void check(xnn_status s) { check(s == xnn_status_success, "XNNPACK returned status " + std::to_string(s)); }
static void check(const xpwc::Status& s) { check(s.ok(), s.message()); }
template <typename T> static T check(xpwc::Result<T> r) { check(r.status()); return *std::move(r); }

int main(int argc, char** argv) {
  const size_t n = 1024, shape[] = {n, n}, row[] = {1, n};
  const std::vector<float> matrix(n * n, 1.0f / n);
  xpwc::Tensor tensor;
  tensor.data = matrix.data();
  tensor.size = n * n * sizeof(float);
  xpwc::TensorTable tensors;  // the model's weights by name
  tensors.add("W", tensor);
  xpwc::Cache cache = check(xpwc::Cache::open(argc > 1 ? argv[1] : "hello.xpwc"));
  xpwc::Session session = check(cache.begin(&tensors));  // one for each runtime
  xpwc::LoadOptions use;                                 // how XNNPACK is going to pack W
  use.packing.emplace().operator_type = xpwc::Operator::fully_connected;
  use.packing->dims = {n, n};
  use.packing->input.datatype = use.packing->kernel.datatype = use.packing->output.datatype = xnn_datatype_fp32;
  const xpwc::Loaded W = check(session.load("W", use));

  uint32_t x, w, y;
  xnn_subgraph_t subgraph;
  check(xnn_initialize(nullptr));
  check(xnn_create_subgraph(2, 0, &subgraph));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, nullptr, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &x));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, row, nullptr, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &y));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, W.data, XNN_INVALID_VALUE_ID, 0, &w));
  check(xnn_define_fully_connected(subgraph, -INFINITY, INFINITY, x, w, XNN_INVALID_VALUE_ID, y, 0));
  xnn_workspace_t workspace;
  xnn_runtime_t runtime;
  check(xnn_create_workspace(&workspace));
  check(xnn_create_runtime_v4(subgraph, session.provider(), workspace, nullptr, 0, &runtime));
  check(session.finalize());  // what only packing needed is freed; the file is written in the background

  std::vector<float> in(n + XNN_EXTRA_BYTES, 2), out(n);
  const xnn_external_value values[] = {{x, in.data()}, {y, out.data()}};
  check(xnn_reshape_runtime(runtime));
  check(xnn_setup_runtime_v2(runtime, 2, values));
  check(xnn_invoke_runtime(runtime));
  check(session.check());  // the disk has not lost what y was computed with
  const xpwc::Stats stats = check(cache.stats());
  std::cout << "y[0] = " << out[0] << "; packed " << stats.packed.entries << ", found " << stats.hits.entries << "\n";

  check(xnn_delete_runtime(runtime));
  check(xnn_delete_subgraph(subgraph));
  check(xnn_release_workspace(workspace));
  check(session.end());
  check(cache.close());  // waits for the disk
}
