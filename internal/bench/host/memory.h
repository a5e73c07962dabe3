// What this process has in memory, as Linux reports it. Bytes; all zero where it does not.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

struct Memory {
  std::uint64_t resident = 0;   // RSS: what follows, and shared memory
  std::uint64_t anonymous = 0;  // the heap and its like, which only swapping could free
  std::uint64_t dirty = 0;      // anonymous memory, and pages of files that are not written yet
};

Memory read_memory();

// Measures peaks from its construction on.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  // The largest so far. resident is exact (VmHWM); the others are of samples taken every 20 ms.
  Memory peak();

 private:
  void sample();

  std::atomic<std::uint64_t> anonymous_{0}, dirty_{0};
  std::atomic<bool> stop_{false};
  std::thread sampler_;
};
