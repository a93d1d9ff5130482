// A chat template's engine, behind the Rust archive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace transmuter {

class CompiledTemplate {
 public:
  // Throws Error(invalid_model): what is wrong, and in which line.
  explicit CompiledTemplate(std::string_view source);
  ~CompiledTemplate();
  CompiledTemplate(const CompiledTemplate&) = delete;
  CompiledTemplate& operator=(const CompiledTemplate&) = delete;

  // `variables`: a JSON object. Throws Error(invalid_input): the template's own words where it refuses.
  std::string render(std::string_view variables, int64_t now) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace transmuter
