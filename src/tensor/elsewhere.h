// Where a tensor's elements lie before they are here: fetched once, when somebody looks at them.
#pragma once

#include <mutex>

#include "transmuter/tensor.h"

namespace transmuter {

class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  // The elements, dense on the host. Thread-safe.
  const Tensor& dense() const {
    std::call_once(once_, [this] { dense_ = fetch(); });
    return dense_;
  }
  virtual void mark_donated() const = 0;
  virtual bool was_donated() const = 0;

 protected:
  virtual Tensor fetch() const = 0;

 private:
  mutable std::once_flag once_;
  mutable Tensor dense_;
};

}  // namespace transmuter
