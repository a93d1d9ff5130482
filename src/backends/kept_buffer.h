// A result that stays where its backend has it: a Tensor whose elements are downloaded when they are first looked at.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "tensor/elsewhere.h"
#include "transmuter/backend.h"

namespace transmuter {

class KeptBuffer : public Elsewhere {
 public:
  KeptBuffer(Buffer buffer, std::shared_ptr<const Backend> backend)
      : buffer_(std::move(buffer)), backend_(std::move(backend)) {}
  const Buffer& buffer() const { return buffer_; }
  const Backend* backend() const { return backend_.get(); }
  void mark_donated() const override { donated_ = true; }
  bool was_donated() const override { return donated_; }

 protected:
  Tensor fetch() const override { return backend_->download(buffer_); }

 private:
  Buffer buffer_;
  std::shared_ptr<const Backend> backend_;
  mutable std::atomic<bool> donated_ = false;
};

// The buffer behind a tensor that `backend` keeps; null otherwise.
inline const Buffer* kept_by(const Backend* backend, const Tensor& tensor) {
  const auto* kept = dynamic_cast<const KeptBuffer*>(tensor.elsewhere().get());
  return kept && kept->backend() == backend ? &kept->buffer() : nullptr;
}

}  // namespace transmuter
