// Raises layer_norm and rms_norm.
// Pattern:   c / sqrt(mean(c^2) + epsilon) with c = x - mean(x), or with c = x for rms_norm; as a quotient, a product
//            with the inverse, rsqrt or a power; then [* scale] [+ bias], which repeat along all other axes.
// Condition: f32 or f64; the mean runs over trailing axes; the scale's product and the bias's sum are the only readers
//            of what they take in.
// Gain:      one pass over x in place of eight, and no intermediates.
#include <cmath>
#include <unordered_map>

#include "ir/composites/composites.h"
#include "ir/passes/match.h"
#include "ir/passes/raising.h"

namespace transmuter::ir {

namespace {

// 1 / sqrt(radicand) or, below a fraction stroke, sqrt(radicand).
struct Root {
  View radicand;
  bool inverse;
};

struct Norm {
  Value x;  // of the old program, as all values here but `made`
  bool centred = false;
  int64_t axis = 0;
  double epsilon = 0;
  View scale, bias;  // base {}: none
};

class NormRaiser {
 public:
  explicit NormRaiser(const Program& program) : match_(program), copier_(program) {}

  Program run() {
    return rewrite(copier_, [&](const Op& op) { return raise(op); });
  }

 private:
  Value raise(const Op& op) {
    std::optional<Norm> norm = normalised(op);
    if (!norm) norm = scaled(op);
    if (!norm) norm = shifted(op);
    if (!norm) {
      remember(op);
      return {};
    }
    const Value made = emit(*norm);
    norms_.emplace(op.results[0].id, std::move(*norm));
    return made;
  }

  // A norm that is there takes in a scale and a bias too.
  void remember(const Op& op) {
    const bool centred = op.primitive == &composite::layer_norm;
    if (!centred && op.primitive != &composite::rms_norm) return;
    const auto& a = op.as<NormAttributes>();
    if (a.has_scale || a.has_bias || a.statistics) return;
    norms_.emplace(op.results[0].id, Norm{op.operands[0], centred, a.axis, a.epsilon, {}, {}});
  }

  std::optional<Root> root(const View& view) const {
    const View stripped = match_.strip(view);
    const Op* op = match_.definition(stripped.base);
    if (!op) return {};
    const auto of = [&](bool inverse) { return Root{match_.operand(stripped, op->operands[0]), inverse}; };
    if (op->primitive == &prim::sqrt) return of(false);
    if (op->primitive == &prim::rsqrt) return of(true);
    if (op->primitive == &prim::power) {
      if (match_.is_number(op->operands[1], 0.5)) return of(false);
      if (match_.is_number(op->operands[1], -0.5)) return of(true);
    }
    if (op->primitive == &prim::divide && match_.is_number(op->operands[0], 1)) {
      std::optional<Root> below = root(match_.operand(stripped, op->operands[1]));
      if (below && !below->inverse) return Root{below->radicand, true};
    }
    return {};
  }

  // c / root or c * 1/root, in which the radicand is the mean of c^2, with epsilon.
  std::optional<Norm> quotient(Value c, const View& divisor, bool inverse) const {
    const DType dtype = match_.type(c).dtype;
    if (dtype != DType::f32 && dtype != DType::f64) return {};
    const std::optional<Root> root = this->root(divisor);
    if (!root || root->inverse != inverse) return {};
    Norm norm;
    View square = match_.strip(root->radicand);
    const Op* sum = match_.mean(square);
    if (const Op* add = match_.defined_by(square.base, prim::add); add && !sum) {
      for (size_t i = 0; i < 2 && !sum; ++i) {
        const std::optional<double> epsilon = match_.number(add->operands[i]);
        if (!epsilon || !(*epsilon >= 0)) continue;
        norm.epsilon = *epsilon;
        sum = match_.mean(match_.operand(square, add->operands[1 - i]));
      }
    }
    if (!sum || !(match_.square_root_of(sum->operands[0]) == c)) return {};
    const std::vector<int64_t>& axes = reduced_axes(*sum);
    norm.axis = match_.rank(c) - static_cast<int64_t>(axes.size());
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != norm.axis + static_cast<int64_t>(i)) return {};
    norm.x = c;
    if (const Op* difference = match_.defined_by(c, prim::subtract)) {
      const Op* mean = match_.mean(match_.whole(difference->operands[1]), difference->operands[0]);
      if (mean && reduced_axes(*mean) == axes) {
        norm.x = difference->operands[0];
        norm.centred = true;
      }
    }
    return norm;
  }

  std::optional<Norm> normalised(const Op& op) const {
    if (op.primitive == &prim::divide) return quotient(op.operands[0], match_.whole(op.operands[1]), false);
    if (op.primitive != &prim::multiply) return {};
    for (size_t i = 0; i < 2; ++i)
      if (auto norm = quotient(op.operands[i], match_.whole(op.operands[1 - i]), true)) return norm;
    return {};
  }

  // The norm that is one operand, read here alone, and the other operand as a parameter of the normalised axes.
  std::optional<std::pair<Norm, View>> with_parameter(const Op& op) const {
    for (size_t i = 0; i < 2; ++i) {
      const auto found = norms_.find(op.operands[i].id);
      if (found == norms_.end() || match_.uses(op.operands[i]) != 1) continue;
      View parameter = match_.strip(match_.whole(op.operands[1 - i]));
      bool fits = true;
      for (const int64_t axis : parameter.axes) fits = fits && (axis < 0 || axis >= found->second.axis);
      if (fits) return std::pair{found->second, std::move(parameter)};
    }
    return {};
  }

  std::optional<Norm> scaled(const Op& op) const {
    if (op.primitive != &prim::multiply) return {};
    auto found = with_parameter(op);
    if (!found || found->first.scale.base || found->first.bias.base) return {};
    found->first.scale = std::move(found->second);
    return std::move(found->first);
  }
  std::optional<Norm> shifted(const Op& op) const {
    if (op.primitive != &prim::add) return {};
    auto found = with_parameter(op);
    if (!found || found->first.bias.base || !found->first.centred) return {};
    found->first.bias = std::move(found->second);
    return std::move(found->first);
  }

  Value emit(const Norm& norm) {
    const Dims& shape = match_.shape(norm.x);
    const Dims inner(shape.begin() + norm.axis, shape.end());
    const auto parameter = [&](const View& view) {
      return view.base ? spread_over(copier_, view, norm.axis, inner) : Value{};
    };
    const Value scale = parameter(norm.scale), bias = parameter(norm.bias), x = copier_[norm.x];
    return norm.centred ? layer_norm(copier_.build(), x, scale, bias, norm.axis, norm.epsilon)[0]
                        : rms_norm(copier_.build(), x, scale, norm.axis, norm.epsilon)[0];
  }

  const Matcher match_;
  Copier copier_;
  std::unordered_map<int32_t, Norm> norms_;  // by the value that is one in the old program
};

}  // namespace

Program raise_norms(const Program& program) { return NormRaiser(program).run(); }

}  // namespace transmuter::ir
