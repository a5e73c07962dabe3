// NumPy's format for one array, as much of it as tensors of ExecuTorch need: little-endian elements, rows first.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

struct Array {
  std::string type;  // NumPy's name, for instance "<f4"
  std::vector<std::int32_t> shape;
  std::vector<std::uint8_t> data;
};

inline constexpr char npy_magic[] = "\x93NUMPY\x01";  // and a byte for the minor version, which is 0
inline constexpr std::size_t npy_start = 10;          // of the header, after two bytes with its length

// Reads a file that holds an array; nothing if it is none.
inline std::optional<Array> read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string bytes(all.begin(), all.end());
  if (bytes.size() < npy_start || bytes.compare(0, 8, std::string(npy_magic, 8)) != 0) {
    return std::nullopt;
  }
  const std::size_t length = static_cast<std::uint8_t>(bytes[8]) | static_cast<std::uint8_t>(bytes[9]) << 8;
  if (bytes.size() - npy_start < length) {
    return std::nullopt;
  }
  const std::string header = bytes.substr(npy_start, length);
  const std::size_t type = header.find("'descr': '"), rows_first = header.find("'fortran_order': False");
  std::size_t at = header.find("'shape': (");
  if (type == std::string::npos || rows_first == std::string::npos || at == std::string::npos) {
    return std::nullopt;
  }
  Array array;
  array.type = header.substr(type + 10, header.find('\'', type + 10) - type - 10);
  for (at += 10; at < header.size() && header[at] != ')'; ++at) {
    if (std::isdigit(static_cast<unsigned char>(header[at]))) {
      char* end = nullptr;
      array.shape.push_back(static_cast<std::int32_t>(std::strtol(&header[at], &end, 10)));
      at = static_cast<std::size_t>(end - header.data()) - 1;
    }
  }
  array.data.assign(all.begin() + static_cast<std::ptrdiff_t>(npy_start + length), all.end());
  return array;
}

// Reports whether the array was written.
inline bool write_npy(
    const std::string& path, const std::string& type, const std::vector<std::int32_t>& shape, const void* data,
    std::size_t size) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    header += (i == 0 ? "" : " ") + std::to_string(shape[i]) + (i + 1 < shape.size() || i == 0 ? "," : "");
  }
  header += "), }";
  header.resize((npy_start + header.size() + 1 + 63) / 64 * 64 - npy_start - 1, ' ');  // so that the data is aligned
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(npy_magic, 8);
  file.put(static_cast<char>(header.size() & 0xff)).put(static_cast<char>(header.size() >> 8));
  file << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  file.close();
  return file.good();
}
