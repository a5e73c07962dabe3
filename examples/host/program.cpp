#include "program.h"

Program two_methods() {
  constexpr std::size_t layers = 30, width = 512;
  Program program{"two_methods", {}, {{"forward", {}}, {"backward", {}}}};
  for (std::size_t i = 0; i < layers; i++) {
    program.linears.push_back({"layers." + std::to_string(i), width, width, false});
    program.methods[0].layers.push_back(i);
    program.methods[1].layers.push_back(layers - 1 - i);
  }
  return program;
}
