#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/storage.h"

namespace sextant {

// Incremental XXH3-128. Detects damage; it is not cryptographic.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far: 32 digits, high half first, lower case

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(std::span<const std::byte> bytes);
std::string digest_of(std::string_view text);

// Forwards to `file` and computes the digest of all bytes written. `file` must outlive this.
class DigestingWriter final : public FileWriter {
 public:
  explicit DigestingWriter(FileWriter& file) : file_(file) {}
  void write(std::span<const std::byte> bytes) override {
    file_.write(bytes);
    digest_.add(bytes);
  }
  void sync() override { file_.sync(); }
  int64_t offset() const override { return file_.offset(); }
  std::string hex() const { return digest_.hex(); }

 private:
  FileWriter& file_;
  Digest digest_;
};

}  // namespace sextant
