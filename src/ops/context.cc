#include "ops/context.h"

namespace transmuter::ops {

OpContext::OpContext(TraceHost& host, const onnx::Node& node, std::vector<TracedPtr> inputs)
    : host_(host),
      node_(node),
      inputs_(std::move(inputs)),
      outputs_(node.outputs.size()),
      read_(node.attributes.size(), false) {}

ir::Value OpContext::input(size_t i) {
  if (!has_input(i)) invalid("input ", i, " is missing");
  Traced& traced = *inputs_[i];
  if (traced.is_sequence || traced.is_optional) invalid("input ", i, " is not a tensor");
  return host_.materialise(traced);
}

const ir::Type& OpContext::type(size_t i) {
  if (!has_input(i)) invalid("input ", i, " is missing");
  if (inputs_[i]->is_sequence || inputs_[i]->is_optional) invalid("input ", i, " is not a tensor");
  return inputs_[i]->type;
}

const Tensor* OpContext::constant(size_t i) {
  if (!has_input(i) || !inputs_[i]->constant || inputs_[i]->trainable) return nullptr;
  return &inputs_[i]->constant;
}

const Known& OpContext::known(size_t i) {
  static const Known kNone;
  if (!has_input(i)) return kNone;
  Traced& traced = *inputs_[i];
  if (!traced.known && traced.constant && !traced.trainable) traced.known = Known::from(traced.constant);
  return traced.known;
}

const Known& OpContext::require_known(size_t i) {
  if (!has_input(i)) invalid("input ", i, " is missing");
  if (known(i).fully_known() || host_.make_known(*inputs_[i])) return inputs_[i]->known;
  throw GraphBreak{&node_, i};
}

Dims OpContext::require_dims(size_t i) {
  const Known& known = require_known(i);
  if (is_float(known.dtype)) invalid("input ", i, " must be of integers, got ", name(known.dtype));
  if (known.shape.size() > 1) invalid("input ", i, " must be 0-d or 1-D, got rank ", known.shape.size());
  if (known.kind != Known::Kind::elements) {
    // A splat or iota whose length is symbolic: the length is what must be pinned.
    const int64_t length = specialize(known.shape.at(0), "length of a list of sizes");
    if (length > (1 << 20)) invalid("input ", i, " lists ", length, " sizes");
    Dims dims;
    for (int64_t k = 0; k < length; ++k) {
      dims.push_back(known.kind == Known::Kind::splat ? known.value.dim : known.value.dim + known.step * Dim(k));
    }
    return dims;
  }
  Dims dims;
  dims.reserve(known.elements.size());
  for (const Scalar& s : known.elements) dims.push_back(s.dim);
  return dims;
}

std::vector<int64_t> OpContext::require_ints(size_t i) {
  std::vector<int64_t> values;
  for (const Dim& d : require_dims(i)) values.push_back(specialize(d, node_.op_type.c_str()));
  return values;
}

Dim OpContext::require_dim(size_t i) {
  const Dims dims = require_dims(i);
  if (dims.size() != 1) invalid("input ", i, " must hold one integer, has ", dims.size());
  return dims[0];
}

std::vector<Real> OpContext::require_reals(size_t i) {
  const Known& known = require_known(i);
  if (known.kind != Known::Kind::elements) throw GraphBreak{&node_, i};
  std::vector<Real> reals;
  for (const Scalar& s : known.elements) {
    reals.push_back(s.kind == Scalar::Kind::real ? s.real : real_from(s.dim, RealDType::f64));
  }
  return reals;
}

double OpContext::require_number(size_t i) {
  const Known& known = require_known(i);
  const Scalar& s = known.kind == Known::Kind::elements ? known.elements.at(0) : known.value;
  if (s.kind == Scalar::Kind::integer) return static_cast<double>(specialize(s.dim, node_.op_type.c_str()));
  if (s.real.is_constant()) return s.real.hint();
  throw GraphBreak{&node_, i};
}

const onnx::Attribute* OpContext::attribute(const char* name) {
  for (size_t i = 0; i < node_.attributes.size(); ++i) {
    if (node_.attributes[i].name == name) {
      read_[i] = true;
      return &node_.attributes[i];
    }
  }
  return nullptr;
}

void OpContext::ignore_attributes(std::initializer_list<const char*> names) {
  for (const char* name : names) attribute(name);
}

namespace {

const onnx::Attribute* typed(const OpContext& op, const onnx::Attribute* a, onnx::Attribute::Kind kind,
                             const char* what) {
  if (a && a->kind != kind) op.invalid("attribute ", a->name, " must be ", what);
  return a;
}

const onnx::Attribute& present(const OpContext& op, const onnx::Attribute* a, const char* name) {
  if (!a) op.invalid("attribute ", name, " is required");
  return *a;
}

using Kind = onnx::Attribute::Kind;

// An empty list does not say of what: every kind of list attribute is accepted empty.
bool is_empty_list(const onnx::Attribute& a) {
  return (a.kind == Kind::ints || a.kind == Kind::floats || a.kind == Kind::strings) && a.ints.empty() &&
         a.floats.empty() && a.strings.empty();
}

}  // namespace

int64_t OpContext::attribute_int(const char* name) {
  return present(*this, typed(*this, attribute(name), Kind::i, "an integer"), name).i;
}
int64_t OpContext::attribute_int(const char* name, int64_t otherwise) {
  const auto* a = typed(*this, attribute(name), Kind::i, "an integer");
  return a ? a->i : otherwise;
}
float OpContext::attribute_float(const char* name) {
  return present(*this, typed(*this, attribute(name), Kind::f, "a float"), name).f;
}
float OpContext::attribute_float(const char* name, float otherwise) {
  const auto* a = typed(*this, attribute(name), Kind::f, "a float");
  return a ? a->f : otherwise;
}
std::string OpContext::attribute_string(const char* name) {
  return present(*this, typed(*this, attribute(name), Kind::s, "a string"), name).s;
}
std::string OpContext::attribute_string(const char* name, std::string otherwise) {
  const auto* a = typed(*this, attribute(name), Kind::s, "a string");
  if (a) otherwise = a->s;
  return otherwise;
}
std::vector<int64_t> OpContext::attribute_ints(const char* name) {
  return present(*this, typed(*this, attribute(name), Kind::ints, "a list of integers"), name).ints;
}
std::optional<std::vector<int64_t>> OpContext::attribute_ints_optional(const char* name) {
  const auto* a = attribute(name);
  if (!a) return std::nullopt;
  if (is_empty_list(*a)) return std::vector<int64_t>{};
  return typed(*this, a, Kind::ints, "a list of integers")->ints;
}
std::vector<float> OpContext::attribute_floats(const char* name, std::vector<float> otherwise) {
  const auto* a = attribute(name);
  if (!a) return otherwise;
  if (is_empty_list(*a)) return {};
  return typed(*this, a, Kind::floats, "a list of floats")->floats;
}
std::vector<std::string> OpContext::attribute_strings(const char* name, std::vector<std::string> otherwise) {
  const auto* a = attribute(name);
  if (!a) return otherwise;
  if (is_empty_list(*a)) return {};
  return typed(*this, a, Kind::strings, "a list of strings")->strings;
}
std::optional<Tensor> OpContext::attribute_tensor(const char* name) {
  const auto* a = typed(*this, attribute(name), Kind::tensor, "a tensor");
  if (!a) return std::nullopt;
  return a->tensor;
}
const onnx::Graph& OpContext::attribute_graph(const char* name) {
  return *present(*this, typed(*this, attribute(name), Kind::graph, "a graph"), name).graph;
}

int64_t OpContext::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) invalid("axis ", axis, " is out of range for rank ", rank);
  return axis < 0 ? axis + rank : axis;
}

void OpContext::output(size_t i, TracedPtr traced) {
  if (i < outputs_.size()) outputs_[i] = std::move(traced);
}

void OpContext::output(size_t i, ir::Value value) { output(i, value, Known{}); }

void OpContext::output(size_t i, ir::Value value, Known known) {
  auto traced = std::make_shared<Traced>();
  traced->value = value;
  traced->type = build().type(value);
  traced->known = std::move(known);
  output(i, std::move(traced));
}

void OpContext::output(size_t i, Known known) {
  auto traced = std::make_shared<Traced>();
  traced->type = {known.dtype, known.shape};
  traced->known = std::move(known);
  output(i, std::move(traced));
}

void OpContext::output_constant(size_t i, Tensor tensor) {
  auto traced = std::make_shared<Traced>();
  traced->type = {tensor.dtype(), Dims(tensor.shape().begin(), tensor.shape().end())};
  traced->constant = std::move(tensor);
  output(i, std::move(traced));
}

void OpContext::output_texts(size_t i, ir::Value places, std::vector<std::string> texts) {
  auto at = std::make_shared<Traced>();
  at->type = build().type(places);
  at->value = places;
  auto traced = std::make_shared<Traced>();
  traced->type = {DType::string, at->type.shape};
  traced->items.push_back(std::move(at));
  traced->texts = std::make_shared<const std::vector<std::string>>(std::move(texts));
  output(i, std::move(traced));
}

void OpContext::check_all_inputs_read() const {
  for (size_t i = asked_inputs_; i < inputs_.size(); ++i)
    if (inputs_[i]) invalid("input ", i, " is given, but the operator takes ", asked_inputs_);
}

void OpContext::check_all_attributes_read() const {
  for (size_t i = 0; i < read_.size(); ++i) {
    if (!read_[i]) unsupported("attribute ", node_.attributes[i].name, " is not implemented");
  }
}

}  // namespace transmuter::ops
