#include "subgraph.h"

#include <array>
#include <string>

namespace {

using Shape = std::array<std::size_t, 2>;

Status load(Loader& loader, const std::string& name, std::size_t size, const xpwc::LoadOptions& options, xpwc::Loaded* tensor) {
  RETURN_IF_ERROR(loader.load(name, options, tensor));
  if (tensor->size != size) {
    return Status::error(
        name + " has " + std::to_string(tensor->size) + " bytes, and the program wants " + std::to_string(size));
  }
  return Status();
}

xpwc::Operand operand(xnn_datatype datatype) {
  xpwc::Operand o;
  o.datatype = datatype;
  return o;
}

// How XNNPACK packs a float32 layer. It goes into the cache's key, since XNNPACK's own key has next to nothing of it.
xpwc::Packing packing(const Linear& l) {
  xpwc::Packing p;
  p.operator_type = xpwc::Operator::fully_connected;
  p.dims = {l.outputs, l.inputs};
  p.input = p.kernel = p.bias = p.output = operand(xnn_datatype_fp32);
  return p;
}

// How XNNPACK packs an int8 layer: the bias is packed in with the scales.
xpwc::Packing packing(const Linear& l, const xpwc::Loaded& scale, const xpwc::Loaded& bias) {
  xpwc::Packing p = packing(l);
  p.input = operand(xnn_datatype_qdint8);
  p.input.non_batch_dims = 1;
  p.kernel = operand(xnn_datatype_qcint8);
  p.kernel.scales = {static_cast<const float*>(scale.data), l.outputs};
  p.hidden_bias = {bias.data, bias.size};
  return p;
}

class Definition {
 public:
  Definition(xnn_subgraph_t subgraph, Loader& loader) : subgraph_(subgraph), loader_(loader) {}

  Status external(std::size_t width, std::uint32_t id, std::uint32_t flags) {
    const Shape shape{1, width};
    return value(xnn_define_tensor_value(
        subgraph_, xnn_datatype_fp32, shape.size(), shape.data(), nullptr, id, flags, &id));
  }

  Status internal(std::size_t width, std::uint32_t* id) {
    const Shape shape{1, width};
    return value(xnn_define_tensor_value(
        subgraph_, xnn_datatype_fp32, shape.size(), shape.data(), nullptr, XNN_INVALID_VALUE_ID, 0, id));
  }

  Status linear(const Linear& l, std::uint32_t input, std::uint32_t output) {
    std::uint32_t weight = XNN_INVALID_VALUE_ID, bias = XNN_INVALID_VALUE_ID;
    if (l.quantized) {
      RETURN_IF_ERROR(int8_constants(l, &weight, &bias));
      RETURN_IF_ERROR(quantize(l.inputs, &input));
    } else {
      RETURN_IF_ERROR(float_constants(l, &weight, &bias));
    }
    return Status::xnnpack(
        "define a fully connected node", xnn_define_fully_connected(subgraph_, -1, 1, input, weight, bias, output, 0));
  }

 private:
  static Status value(xnn_status status) { return Status::xnnpack("define a value", status); }

  Status float_constants(const Linear& l, std::uint32_t* weight, std::uint32_t* bias) {
    xpwc::Loaded w, b;
    xpwc::LoadOptions kernel;
    kernel.packing = packing(l);
    RETURN_IF_ERROR(load(loader_, l.weight(), l.weight_size(), kernel, &w));
    RETURN_IF_ERROR(load(loader_, l.bias(), l.vector_size(), {}, &b));
    const Shape shape{l.outputs, l.inputs};
    RETURN_IF_ERROR(value(xnn_define_tensor_value(
        subgraph_, xnn_datatype_fp32, shape.size(), shape.data(), w.data, XNN_INVALID_VALUE_ID, 0, weight)));
    return vector(l, b, bias);
  }

  Status int8_constants(const Linear& l, std::uint32_t* weight, std::uint32_t* bias) {
    xpwc::Loaded w, s, b;
    // XNNPACK packs both without telling the cache about them.
    xpwc::LoadOptions hidden;
    hidden.pack_only = true;
    RETURN_IF_ERROR(load(loader_, l.scale(), l.vector_size(), hidden, &s));
    RETURN_IF_ERROR(load(loader_, l.bias(), l.vector_size(), hidden, &b));
    xpwc::LoadOptions kernel;
    kernel.packing = packing(l, s, b);
    RETURN_IF_ERROR(load(loader_, l.weight(), l.weight_size(), kernel, &w));
    const Shape shape{l.outputs, l.inputs};
    RETURN_IF_ERROR(value(xnn_define_channelwise_quantized_tensor_value(
        subgraph_, xnn_datatype_qcint8, static_cast<const float*>(s.data), shape.size(), 0, shape.data(), w.data,
        XNN_INVALID_VALUE_ID, 0, weight)));
    return vector(l, b, bias);
  }

  Status vector(const Linear& l, const xpwc::Loaded& tensor, std::uint32_t* id) {
    return value(xnn_define_tensor_value(
        subgraph_, xnn_datatype_fp32, 1, &l.outputs, tensor.data, XNN_INVALID_VALUE_ID, 0, id));
  }

  // Replaces a float32 value by one that is quantised dynamically.
  Status quantize(std::size_t width, std::uint32_t* id) {
    const Shape shape{1, width};
    std::uint32_t quantized = XNN_INVALID_VALUE_ID;
    RETURN_IF_ERROR(value(xnn_define_dynamically_quantized_tensor_value(
        subgraph_, xnn_datatype_qdint8, shape.size(), 1, shape.data(), XNN_INVALID_VALUE_ID, 0, &quantized)));
    RETURN_IF_ERROR(Status::xnnpack(
        "define a convert node", xnn_define_unary(subgraph_, xnn_unary_convert, nullptr, *id, quantized, 0)));
    *id = quantized;
    return Status();
  }

  xnn_subgraph_t subgraph_;
  Loader& loader_;
};

}  // namespace

Status define_subgraph(const Program& program, const Method& method, Loader& loader, Subgraph* out) {
  xnn_subgraph_t raw = nullptr;
  RETURN_IF_ERROR(Status::xnnpack("create a subgraph", xnn_create_subgraph(2, 0, &raw)));
  Subgraph subgraph(raw);
  Definition definition(raw, loader);
  RETURN_IF_ERROR(definition.external(program.inputs(method), input_value, XNN_VALUE_FLAG_EXTERNAL_INPUT));
  RETURN_IF_ERROR(definition.external(program.outputs(method), output_value, XNN_VALUE_FLAG_EXTERNAL_OUTPUT));
  std::uint32_t value = input_value;
  for (std::size_t i = 0; i < method.layers.size(); i++) {
    const Linear& l = program.linears[method.layers[i]];
    std::uint32_t next = output_value;
    if (i + 1 < method.layers.size()) {
      RETURN_IF_ERROR(definition.internal(l.outputs, &next));
    }
    if (Status status = definition.linear(l, value, next); !status.ok()) {
      return Status::error("method " + method.name + ", " + l.name + ": " + status.message());
    }
    value = next;
  }
  *out = std::move(subgraph);
  return Status();
}
