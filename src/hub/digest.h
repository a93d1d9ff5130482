// SHA-1 and SHA-256 (FIPS 180-4), for checking files against the names that the hub gives them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace transmuter::hub {

class Digest {
 public:
  enum class Kind { sha1, sha256 };
  explicit Digest(Kind kind);
  void add(std::string_view bytes);
  std::string hex();  // once, after the last add

 private:
  void block(const unsigned char* bytes);

  Kind kind_;
  uint32_t state_[8];
  uint64_t size_ = 0;
  unsigned char pending_[64];
};

}  // namespace transmuter::hub
