// What the scenarios share. Each is a function of a directory; scenarios.cc runs one by its name.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "backend.hpp"

using Scenarios = std::map<std::string, void (*)(const std::string& directory)>;

// Methods of a program: what they share, what they are called, and what is left when they go.
Scenarios method_scenarios();
// Constants: which are listed, freed, kept, and taken for the scales of which kernel.
Scenarios constant_scenarios();
// The host's options, and the figures it reads.
Scenarios option_scenarios();
// Programs that ExecuTorch exported, and that differ only in scales and zero points of their inputs and outputs.
Scenarios recalibrated_scenarios();
// What goes wrong, several hosts, threads, and the manager.
Scenarios host_scenarios();

inline std::string path_in(const std::string& directory) {
  return directory + "/model.xpwc";
}

inline size_t file_size(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return static_cast<size_t>(status.st_size);
}

inline int64_t modified(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1000000000 + status.st_mtim.tv_nsec;
}

// Memory of this process that is not a file's.
inline size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) {
      return std::stoul(line.substr(8)) << 10;
    }
  }
  require_failed(__FILE__, __LINE__, "/proc/self/status has RssAnon");
}

inline Names sorted(Names names) {
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string sha256_like(char digit) {
  return std::string(64, digit);
}

inline Constants two_layers() {
  return Constants({{"w0", float_weights(1)}, {"b0", channels(2)}, {"w1", float_weights(3)}, {"b1", channels(4)}});
}

// What a host that gives the class its program gives it.
inline const std::string kProgram = "the bytes of a delegate";

inline const Graph kFirst = {linear("w0", "b0"), linear("w1", "b1")};
inline const Graph kSecond = {linear("w1", "b1"), linear("w0", "b0")};
