// A program's unpacked weights in a file that is mapped, and as a data map.
//
// The file is "xpwcdemo", the number of tensors (u64), for each the length of its name (u64), the name, its offset and its size
// (u64); then the tensors, 64-byte aligned; then XNN_EXTRA_BYTES that XNNPACK may read but does not use. Numbers are in the
// machine's byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "program.h"
#include "status.h"

// Writes the program's weights, which depend on its layers' names and sizes alone, to path. The file is there as a whole or
// not at all. Returns when it is old enough to have a stamp (xpwc_file_stamp); else each look-up would hash its tensor.
Status write_weights(const Program& program, const std::string& path);

// The tensors of a mapped file. Must outlive the sessions that use it. Any number of threads may use it.
class WeightsFile final : public xpwc::DataMap {
 public:
  static Status open(const std::string& path, std::unique_ptr<WeightsFile>* file);
  ~WeightsFile() override;
  WeightsFile(const WeightsFile&) = delete;
  WeightsFile& operator=(const WeightsFile&) = delete;

  xpwc::Status tensor(std::string_view name, xpwc::Tensor& tensor) override;
  xpwc::Status source_changed(std::string_view source, bool& changed) override;

 private:
  struct Place {
    std::uint64_t offset, size;
  };

  WeightsFile() = default;
  Status map();
  Status read_index();

  std::string path_;
  std::string stamp_;
  int descriptor_ = -1;
  std::optional<xpwc::FileWatch> watch_;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
  std::unordered_map<std::string, Place> places_;
};
