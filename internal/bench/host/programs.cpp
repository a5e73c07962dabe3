#include "programs.h"

Program many_entries(std::size_t width, std::size_t hidden) {
  constexpr std::size_t methods = 37, blocks = 4;
  const struct {
    const char* name;
    std::size_t inputs, outputs;
  } block[] = {
      {"query", width, width}, {"key", width, width},   {"value", width, width}, {"output", width, width},
      {"up", width, hidden},   {"down", hidden, width}, {"gate", width, hidden}, {"merge", hidden, width},
  };
  Program program{"many_entries", {}, {}};
  for (std::size_t i = 0; i < methods; i++) {
    Method method{"part_" + std::to_string(i), {}};
    for (std::size_t j = 0; j < blocks; j++) {
      for (const auto& layer : block) {
        method.layers.push_back(program.linears.size());
        program.linears.push_back(
            {"blocks." + std::to_string(blocks * i + j) + "." + layer.name, layer.inputs, layer.outputs, true});
      }
    }
    program.methods.push_back(method);
  }
  return program;
}

Program layers(const std::string& name, std::size_t count, std::size_t width, bool quantized) {
  Program program{name, {}, {{"all", {}}}};
  for (std::size_t i = 0; i < count; i++) {
    program.methods[0].layers.push_back(i);
    program.linears.push_back({"layers." + std::to_string(i), width, width, quantized});
  }
  return program;
}
