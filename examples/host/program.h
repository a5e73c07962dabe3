// Stands for a model file: linear layers, and methods that chain them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// output = clamp(input · weightᵀ + bias, -1, 1). The weight is float32, or int8 with a scale for each output and an input that is
// quantised dynamically.
struct Linear {
  std::string name;
  std::size_t inputs;
  std::size_t outputs;
  bool quantized;

  std::string weight() const { return name + ".weight"; }
  std::string scale() const { return name + ".scale"; }
  std::string bias() const { return name + ".bias"; }
  std::size_t weight_size() const { return inputs * outputs * (quantized ? 1 : sizeof(float)); }
  std::size_t vector_size() const { return outputs * sizeof(float); }
};

// A chain of layers, by their index in the program. Each method becomes a runtime.
struct Method {
  std::string name;
  std::vector<std::size_t> layers;
};

struct Program {
  std::string name;
  std::vector<Linear> linears;
  std::vector<Method> methods;

  std::size_t inputs(const Method& method) const { return linears[method.layers.front()].inputs; }
  std::size_t outputs(const Method& method) const { return linears[method.layers.back()].outputs; }
};

// Two methods that have all their weights in common: 30 float32 layers of 1 MiB, in two orders.
Program two_methods();
