// Computes y = W x with XNNPACK, for an x that has one value everywhere.
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <xnnpack.h>

static void check(bool ok, const std::string& why) { if (!ok) { std::cerr << "hello: " << why << "\n"; std::exit(1); } }
static void check(xnn_status s) { check(s == xnn_status_success, "XNNPACK returned status " + std::to_string(s)); }

int main(int argc, char** argv) {
  const float value = argc > 1 ? std::stof(argv[1]) : 2;
  const size_t outputs = 1024, inputs = 1024, shape[] = {outputs, inputs}, input[] = {1, inputs}, output[] = {1, outputs};
  const std::vector<float> matrix(outputs * inputs, 1.0f / inputs);
  const void* W = matrix.data();

  uint32_t x, w, y;
  xnn_subgraph_t subgraph;
  check(xnn_initialize(nullptr));
  check(xnn_create_subgraph(2, 0, &subgraph));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, input, nullptr, 0, XNN_VALUE_FLAG_EXTERNAL_INPUT, &x));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, output, nullptr, 1, XNN_VALUE_FLAG_EXTERNAL_OUTPUT, &y));
  check(xnn_define_tensor_value(subgraph, xnn_datatype_fp32, 2, shape, W, XNN_INVALID_VALUE_ID, 0, &w));
  check(xnn_define_fully_connected(subgraph, -INFINITY, INFINITY, x, w, XNN_INVALID_VALUE_ID, y, 0));
  xnn_workspace_t workspace;
  xnn_runtime_t runtime;
  check(xnn_create_workspace(&workspace));
  check(xnn_create_runtime_v4(subgraph, nullptr, workspace, nullptr, 0, &runtime));

  std::vector<float> in(inputs + XNN_EXTRA_BYTES, value), out(outputs);
  const xnn_external_value values[] = {{x, in.data()}, {y, out.data()}};
  check(xnn_reshape_runtime(runtime));
  check(xnn_setup_runtime_v2(runtime, 2, values));
  check(xnn_invoke_runtime(runtime));
  std::cout << "y[0] = " << out[0] << "\n";

  check(xnn_delete_runtime(runtime));
  check(xnn_delete_subgraph(subgraph));
  check(xnn_release_workspace(workspace));
}
