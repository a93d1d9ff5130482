#include "ir/passes/attribute_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/strings.h"

namespace transmuter::ir {

namespace {

class Recorder : public AttributeVisitor {
 public:
  explicit Recorder(AttributeRecord& record) : record_(record) {}
  void integer(const char* name, int64_t value) override { add(name, std::to_string(value)); }
  void integers(const char* name, const std::vector<int64_t>& value) override { add(name, str(value)); }
  void dims(const char* name, const Dims& value) override {
    add(name, str(hints(value)));
    record_.dims.insert(record_.dims.end(), value.begin(), value.end());
  }
  void real(const char* name, double value) override { add(name, std::to_string(std::bit_cast<int64_t>(value))); }
  void text(const char* name, std::string_view value) override { add(name, value); }
  void tensor(const char* name, const Tensor& value) override {
    add(name, describe(value));
    record_.tensors.push_back(value);
  }
  void real_expression(const char* name, Real value) override {
    real(name, value.hint());
    record_.reals.push_back(value);
  }

 private:
  void add(const char* name, std::string_view value) {
    record_.key += name;
    record_.key += '=';
    record_.key += value;
    record_.key += ';';
  }
  AttributeRecord& record_;
};

class Hasher : public AttributeVisitor {
 public:
  uint64_t hash = 0x9e3779b97f4a7c15u;

  void integer(const char*, int64_t value) override { mix(static_cast<uint64_t>(value)); }
  void integers(const char*, const std::vector<int64_t>& value) override {
    mix(value.size());
    for (const int64_t v : value) mix(static_cast<uint64_t>(v));
  }
  void dims(const char*, const Dims& value) override {
    mix(value.size());
    for (const Dim d : value) mix(static_cast<uint64_t>(d.hint()));
  }
  void real(const char*, double value) override { mix(std::bit_cast<uint64_t>(value)); }
  void text(const char*, std::string_view value) override { mix(std::hash<std::string_view>()(value)); }
  void tensor(const char*, const Tensor& value) override {
    mix(static_cast<uint64_t>(value.dtype()));
    for (const int64_t extent : value.shape()) mix(static_cast<uint64_t>(extent));
    const char* bytes = reinterpret_cast<const char*>(value.bytes());
    const size_t some = std::min<size_t>(value.nbytes(), 256);
    mix(std::hash<std::string_view>()({bytes, some}));
    mix(std::hash<std::string_view>()({bytes + value.nbytes() - some, some}));
  }
  void real_expression(const char*, Real value) override { mix(std::bit_cast<uint64_t>(value.hint())); }

 private:
  void mix(uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
};

class TextWriter : public AttributeVisitor {
 public:
  explicit TextWriter(std::string& out) : out_(out) {}
  void integer(const char* name, int64_t value) override { out_ += str(" ", name, "=", value); }
  void integers(const char* name, const std::vector<int64_t>& value) override { out_ += str(" ", name, "=", value); }
  void dims(const char* name, const Dims& value) override { out_ += str(" ", name, "=", to_string(value)); }
  void real(const char* name, double value) override { out_ += str(" ", name, "=", value); }
  void text(const char* name, std::string_view value) override { out_ += str(" ", name, "=", value); }
  void tensor(const char* name, const Tensor& value) override {
    out_ += str(" ", name, "=", describe(value));
    bool scalar = value.size() == 1 && !is_packed(value.dtype()) && !is_complex(value.dtype());
    if (scalar) out_ += str(" ", value.aligned().cast(DType::f64).to_vector<double>()[0]);
  }
  void real_expression(const char* name, Real value) override { real(name, value.hint()); }

 private:
  std::string& out_;
};

bool same_tensor(const Tensor& a, const Tensor& b) {
  constexpr size_t kCompared = 64 * 1024;
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.bytes() == b.bytes()) return true;
  return a.nbytes() <= kCompared && std::memcmp(a.bytes(), b.bytes(), a.nbytes()) == 0;
}

bool same_real(Real a, Real b) {
  return a.expr() == b.expr() && std::bit_cast<int64_t>(a.hint()) == std::bit_cast<int64_t>(b.hint());
}

template <class T, class Same>
bool all_same(const std::vector<T>& a, const std::vector<T>& b, Same same_one) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!same_one(a[i], b[i])) return false;
  return true;
}

}  // namespace

AttributeRecord::AttributeRecord(const Attributes* attributes) {
  Recorder recorder(*this);
  if (attributes) attributes->visit(recorder);
}

bool all_constant(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is_constant(); });
}

bool all_constant(const AttributeRecord& attributes) {
  return all_constant(attributes.dims) &&
         std::all_of(attributes.reals.begin(), attributes.reals.end(), [](Real r) { return r.is_constant(); });
}

uint64_t attribute_hash(const Attributes* attributes) {
  Hasher hasher;
  if (attributes) attributes->visit(hasher);
  return hasher.hash;
}

bool same(const AttributeRecord& a, const AttributeRecord& b) {
  return a.key == b.key && all_same(a.dims, b.dims, [](Dim x, Dim y) { return same_expression(x, y); }) &&
         all_same(a.reals, b.reals, same_real) && all_same(a.tensors, b.tensors, same_tensor);
}

std::string attribute_text(const Attributes* attributes) {
  std::string out;
  TextWriter writer(out);
  if (attributes) attributes->visit(writer);
  return out;
}

}  // namespace transmuter::ir
