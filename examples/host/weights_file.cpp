#include "weights_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr std::string_view magic = "xpwcdemo";
constexpr std::uint64_t alignment = 64;
constexpr std::size_t chunk_size = 1 << 20;

std::uint64_t align(std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; }

// A generator of numbers that are the same on every machine: SplitMix64.
class Random {
 public:
  explicit Random(std::string_view seed) {
    for (const char c : seed) {
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // A number from -1 to 1.
  float symmetric() { return static_cast<float>(static_cast<std::int32_t>(next() >> 32)) * 0x1p-31f; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

void floats(Random& random, float middle, float spread, char* bytes, std::size_t size) {
  for (std::size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
    const float x = middle + spread * random.symmetric();
    std::memcpy(bytes + i, &x, sizeof(x));
  }
}

// -127 to 127: symmetric quantisation leaves -128 out.
void integers(Random& random, char* bytes, std::size_t size) {
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    const std::uint64_t x = random.next();
    std::memcpy(bytes + i, &x, std::min(sizeof(x), size - i));
  }
  for (std::size_t i = 0; i < size; i++) {
    auto x = static_cast<signed char>(bytes[i]);
    bytes[i] = static_cast<char>(x == -128 ? -127 : x);
  }
}

struct Item {
  std::string name;
  std::uint64_t size;
  std::function<void(Random&, char* bytes, std::size_t size)> generate;
};

std::vector<Item> items(const Program& program) {
  std::vector<Item> all;
  for (const Linear& l : program.linears) {
    // Keeps the values that pass through the layers away from zero; the clamp keeps them from growing.
    const float bound = std::sqrt(3.6f / static_cast<float>(l.inputs));
    if (l.quantized) {
      const float scale = bound / 127;
      all.push_back({l.weight(), l.weight_size(), integers});
      all.push_back({l.scale(), l.vector_size(), [scale](Random& random, char* bytes, std::size_t size) {
                       floats(random, scale, scale / 4, bytes, size);
                     }});
    } else {
      all.push_back({l.weight(), l.weight_size(), [bound](Random& random, char* bytes, std::size_t size) {
                       floats(random, 0, bound, bytes, size);
                     }});
    }
    all.push_back({l.bias(), l.vector_size(), [](Random& random, char* bytes, std::size_t size) {
                     floats(random, 0, 0.125f, bytes, size);
                   }});
  }
  return all;
}

void append(std::string& bytes, std::uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::string index(const std::vector<Item>& all) {
  std::uint64_t size = magic.size() + sizeof(std::uint64_t);
  for (const Item& item : all) {
    size += 3 * sizeof(std::uint64_t) + item.name.size();
  }
  std::string bytes(magic);
  append(bytes, all.size());
  std::uint64_t offset = align(size);
  for (const Item& item : all) {
    append(bytes, item.name.size());
    bytes += item.name;
    append(bytes, offset);
    append(bytes, item.size);
    offset = align(offset + item.size);
  }
  return bytes;
}

bool write_aligned(std::FILE* file, const char* bytes, std::size_t size) {
  static const char zeroes[alignment] = {};
  const std::size_t padding = align(size) - size;
  return std::fwrite(bytes, 1, size, file) == size && std::fwrite(zeroes, 1, padding, file) == padding;
}

bool write_all(std::FILE* file, const std::vector<Item>& all) {
  const std::string head = index(all);
  if (!write_aligned(file, head.data(), head.size())) {
    return false;
  }
  std::vector<char> chunk(chunk_size);
  for (const Item& item : all) {
    Random random(item.name);
    for (std::uint64_t left = item.size; left > 0;) {
      const std::size_t n = std::min<std::uint64_t>(left, chunk.size());
      item.generate(random, chunk.data(), n);
      if (!write_aligned(file, chunk.data(), n)) {
        return false;
      }
      left -= n;
    }
  }
  const char extra[XNN_EXTRA_BYTES] = {};
  return std::fwrite(extra, 1, sizeof(extra), file) == sizeof(extra) && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
}

// Gives a tensor's pages back. They come back from the file if anything reads them, so that neighbours may be on them.
void evict(const void* data, std::size_t size) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = start / page * page, end = (start + size + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace

Status Status::system(const std::string& subject) { return error(subject + ": " + std::strerror(errno)); }

Status write_weights(const Program& program, const std::string& path) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) {
    return Status::system(temporary);
  }
  Status status;
  if (!write_all(file, items(program))) {
    status = Status::system(temporary);
  }
  if (std::fclose(file) != 0 && status.ok()) {
    status = Status::system(temporary);
  }
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::system(path);
  }
  if (!status.ok()) {
    std::remove(temporary.c_str());
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return status;
}

Status WeightsFile::open(const std::string& path, std::unique_ptr<WeightsFile>* out) {
  std::unique_ptr<WeightsFile> file(new WeightsFile);
  // Absolute: it names the weights in the cache, whatever directory the next process runs in.
  char* absolute = realpath(path.c_str(), nullptr);
  if (absolute == nullptr) {
    return Status::system(path);
  }
  file->path_ = absolute;
  std::free(absolute);
  const int descriptor = ::open(file->path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return Status::system(path);
  }
  file->descriptor_ = descriptor;
  RETURN_IF_ERROR(file->map());
  RETURN_IF_ERROR(file->read_index());
  *out = std::move(file);
  return Status();
}

Status WeightsFile::map() {
  xpwc::Result<std::string> stamp = xpwc::file_stamp(descriptor_);
  if (!stamp) {
    return stamp.status();
  }
  stamp_ = *stamp;
  xpwc::Result<xpwc::FileWatch> watch = xpwc::FileWatch::on(descriptor_);
  if (!watch) {
    return watch.status();
  }
  watch_ = *watch;
  struct stat s {};
  if (fstat(descriptor_, &s) != 0) {
    return Status::system(path_);
  }
  size_ = static_cast<std::size_t>(s.st_size);
  if (size_ == 0) {
    return Status::error(path_ + ": not a file of weights");
  }
  void* data = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) {
    return Status::system(path_);
  }
  data_ = static_cast<const char*>(data);
  return Status();
}

WeightsFile::~WeightsFile() {
  if (data_ != nullptr) {
    munmap(const_cast<char*>(data_), size_);
  }
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

Status WeightsFile::read_index() {
  const Status damaged = Status::error(path_ + ": not a file of weights, or it is damaged");
  std::string_view rest(data_, size_);
  const auto number = [&rest](std::uint64_t* n) {
    if (rest.size() < sizeof(*n)) {
      return false;
    }
    std::memcpy(n, rest.data(), sizeof(*n));
    rest.remove_prefix(sizeof(*n));
    return true;
  };
  if (rest.substr(0, magic.size()) != magic) {
    return damaged;
  }
  rest.remove_prefix(magic.size());
  std::uint64_t count = 0;
  if (!number(&count)) {
    return damaged;
  }
  for (; count > 0; count--) {
    std::uint64_t length = 0;
    if (!number(&length) || length > rest.size()) {
      return damaged;
    }
    const std::string name(rest.substr(0, length));
    rest.remove_prefix(length);
    Place place{};
    if (!number(&place.offset) || !number(&place.size) || place.offset % alignment != 0 || place.offset > size_ ||
        place.size > size_ - place.offset || size_ - place.offset - place.size < XNN_EXTRA_BYTES) {
      return damaged;
    }
    places_[name] = place;
  }
  return Status();
}

xpwc::Status WeightsFile::tensor(std::string_view name, xpwc::Tensor& tensor) {
  const auto found = places_.find(std::string(name));
  if (found == places_.end()) {
    return xpwc::Status(XPWC_STATUS_UNKNOWN_TENSOR, path_ + " does not have it");
  }
  const Place& place = found->second;
  tensor.data = data_ + place.offset;
  tensor.size = place.size;
  tensor.evict = evict;
  tensor.source = path_;
  if (!stamp_.empty()) {
    tensor.stamp = XPWC_FILE_STAMP + stamp_ + " " + std::to_string(place.offset) + "+" + std::to_string(place.size);
  }
  return xpwc::Status();
}

// There is one source.
xpwc::Status WeightsFile::source_changed(std::string_view, bool& changed) { return watch_->changed(changed); }
