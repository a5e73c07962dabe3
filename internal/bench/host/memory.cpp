#include "memory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

// The sum of two fields, for instance "VmRSS:", of a file with lines such as "VmRSS:   1024 kB".
std::uint64_t fields(const char* path, std::string_view one, std::string_view other = "-") {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) {
    return 0;
  }
  std::uint64_t bytes = 0;
  char line[256];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    for (const std::string_view name : {one, other}) {
      if (std::string_view(line).substr(0, name.size()) == name) {
        bytes += std::strtoull(line + name.size(), nullptr, 10) * 1024;
      }
    }
  }
  std::fclose(file);
  return bytes;
}

constexpr char status[] = "/proc/self/status";
constexpr char rollup[] = "/proc/self/smaps_rollup";

void raise(std::atomic<std::uint64_t>& peak, std::uint64_t value) { peak = std::max<std::uint64_t>(peak, value); }

}  // namespace

Memory read_memory() {
  return {fields(status, "VmRSS:"), fields(status, "RssAnon:"), fields(rollup, "Private_Dirty:", "Shared_Dirty:")};
}

PeakMemory::PeakMemory() {
  // "5" resets VmHWM: proc(5).
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
  sampler_ = std::thread([this] {
    while (!stop_) {
      sample();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
}

PeakMemory::~PeakMemory() {
  stop_ = true;
  sampler_.join();
}

void PeakMemory::sample() {
  const Memory now = read_memory();
  raise(anonymous_, now.anonymous);
  raise(dirty_, now.dirty);
}

Memory PeakMemory::peak() {
  sample();
  return {fields(status, "VmHWM:"), anonymous_, dirty_};
}
