// Small models of the kinds that stress the runtime, each with inputs of changing sizes: an encoder, a decoder with a
// KV cache, a detector (sizes that depend on data), a loop, a branch on a value, draws.
#pragma once

#include <functional>
#include <utility>

#include "runtime_testing.h"

namespace transmuter::runtime::testing {

// Numbers between -1 and 1 that look random, the same each time.
inline std::vector<float> noise_values(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = seed * 2654435761u + 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

inline Tensor noise(const Shape& shape, uint32_t seed) {
  return Tensor(noise_values(element_count(shape), seed), shape);
}

inline std::string weight(const std::string& name, const std::vector<int64_t>& dims, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return tensor(name, kFloat, dims, floats(noise_values(count, seed)));
}

inline Tensor ids(const Shape& shape, int64_t below) {
  std::vector<int64_t> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * 7 + 3) % below;
  return Tensor(values, shape);
}

struct SmallModel {
  std::string name;
  GraphParts parts;
  std::function<TensorMap(int)> inputs;  // of the given round: sizes differ from one to the next
  int rounds = 6;
  bool draws = false;  // each run gives other values
};

// [batch, sequence] ids and a mask -> [batch, sequence, 16]: one layer of a transformer as exporters write it.
inline SmallModel encoder() {
  GraphParts p;
  p.inputs = {shaped("ids", kInt64, {"batch", "sequence"}), shaped("mask", kInt64, {"batch", "sequence"})};
  p.outputs = {value("y")};
  p.initializers = {
      weight("table", {32, 16}, 1),      weight("wq", {16, 16}, 2),       weight("wk", {16, 16}, 3),
      weight("wv", {16, 16}, 4),         weight("wo", {16, 16}, 5),       weight("up", {16, 32}, 6),
      weight("up_bias", {32}, 7),        weight("down", {32, 16}, 8),     weight("gain", {16}, 9),
      weight("shift", {16}, 10),         int64_tensor("zero", {0}, true), int64_tensor("one", {1}, true),
      int64_tensor("tail", {4, 4}),      int64_tensor("width", {16}),     int64_tensor("axes", {0}),
      int64_tensor("mask_axes", {1, 2}), float_tensor("big", {-10000}),   float_tensor("unit", {1}),
      float_tensor("scale", {0.5f}),     float_tensor("half", {0.5f}),    float_tensor("root", {0.70710678f})};
  p.nodes = {node("Gather", {"table", "ids"}, {"x"}),
             node("Shape", {"ids"}, {"shape"}),
             node("Gather", {"shape", "zero"}, {"b"}),
             node("Gather", {"shape", "one"}, {"s"}),
             node("Unsqueeze", {"b", "axes"}, {"b1"}),
             node("Unsqueeze", {"s", "axes"}, {"s1"}),
             node("Concat", {"b1", "s1", "tail"}, {"heads"}, {int_attribute("axis", 0)}),
             node("Concat", {"b1", "s1", "width"}, {"joined"}, {int_attribute("axis", 0)}),
             node("Cast", {"mask"}, {"mask_f"}, {int_attribute("to", 1)}),
             node("Sub", {"unit", "mask_f"}, {"hidden"}),
             node("Mul", {"hidden", "big"}, {"bias_2d"}),
             node("Unsqueeze", {"bias_2d", "mask_axes"}, {"bias"})};
  for (const std::string w : {"q", "k", "v"}) {
    p.nodes.push_back(node("MatMul", {"x", "w" + w}, {w + "_flat"}));
    p.nodes.push_back(node("Reshape", {w + "_flat", "heads"}, {w + "_heads"}));
    const std::vector<int64_t> order = w == "k" ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 2, 1, 3};
    p.nodes.push_back(node("Transpose", {w + "_heads"}, {w}, {ints_attribute("perm", order)}));
  }
  for (const std::string& n : {node("MatMul", {"q", "k"}, {"scores"}),
                               node("Mul", {"scores", "scale"}, {"scaled"}),
                               node("Add", {"scaled", "bias"}, {"masked"}),
                               node("Softmax", {"masked"}, {"p"}, {int_attribute("axis", -1)}),
                               node("MatMul", {"p", "v"}, {"o"}),
                               node("Transpose", {"o"}, {"o_t"}, {ints_attribute("perm", {0, 2, 1, 3})}),
                               node("Reshape", {"o_t", "joined"}, {"o_flat"}),
                               node("MatMul", {"o_flat", "wo"}, {"attended"}),
                               node("Add", {"attended", "x"}, {"r"}),
                               node("LayerNormalization", {"r", "gain", "shift"}, {"n"}),
                               node("MatMul", {"n", "up"}, {"u"}),
                               node("Add", {"u", "up_bias"}, {"ub"}),
                               node("Mul", {"ub", "root"}, {"e_in"}),
                               node("Erf", {"e_in"}, {"e"}),
                               node("Add", {"e", "unit"}, {"e1"}),
                               node("Mul", {"ub", "e1"}, {"g2"}),
                               node("Mul", {"g2", "half"}, {"g"}),
                               node("MatMul", {"g", "down"}, {"d"}),
                               node("Add", {"d", "n"}, {"r2"}),
                               node("LayerNormalization", {"r2", "gain", "shift"}, {"y"})})
    p.nodes.push_back(n);
  return {"encoder", std::move(p), [](int round) {
            const int64_t batch = 1 + round % 2 * 2, sequence = 1 + round * 5 % 13;
            std::vector<int64_t> mask(static_cast<size_t>(batch * sequence), 1);
            mask.back() = 0;
            mask.front() = 1;
            return TensorMap{{"ids", ids({batch, sequence}, 32)}, {"mask", Tensor(mask, {batch, sequence})}};
          }};
}

// Queries over a cache that grows at the second last axis.
inline SmallModel decoder() {
  GraphParts p;
  p.inputs = {shaped("x", kFloat, {1, "new", 8}), shaped("past_k", kFloat, {1, 2, "past", 4}),
              shaped("past_v", kFloat, {1, 2, "past", 4})};
  p.outputs = {value("y"), value("present_k"), value("present_v")};
  p.initializers = {weight("wq", {8, 8}, 11), weight("wk", {8, 8}, 12), weight("wv", {8, 8}, 13),
                    int64_tensor("heads", {1, -1, 2, 4}), int64_tensor("flat", {1, -1, 8})};
  for (const std::string w : {"q", "k", "v"}) {
    p.nodes.push_back(node("MatMul", {"x", "w" + w}, {w + "_flat"}));
    p.nodes.push_back(node("Reshape", {w + "_flat", "heads"}, {w + "_heads"}));
    p.nodes.push_back(node("Transpose", {w + "_heads"}, {w}, {ints_attribute("perm", {0, 2, 1, 3})}));
  }
  for (const std::string& n :
       {node("Concat", {"past_k", "k"}, {"present_k"}, {int_attribute("axis", 2)}),
        node("Concat", {"past_v", "v"}, {"present_v"}, {int_attribute("axis", 2)}),
        node("Transpose", {"present_k"}, {"k_t"}, {ints_attribute("perm", {0, 1, 3, 2})}),
        node("MatMul", {"q", "k_t"}, {"scores"}), node("Softmax", {"scores"}, {"p"}, {int_attribute("axis", -1)}),
        node("MatMul", {"p", "present_v"}, {"o"}),
        node("Transpose", {"o"}, {"o_t"}, {ints_attribute("perm", {0, 2, 1, 3})}),
        node("Reshape", {"o_t", "flat"}, {"y"})})
    p.nodes.push_back(n);
  return {"decoder", std::move(p), [](int round) {
            const int64_t past = round * 3, fresh = round % 3 == 0 ? 4 : 1;
            return TensorMap{{"x", noise({1, fresh, 8}, 20u + static_cast<uint32_t>(round))},
                             {"past_k", noise({1, 2, past, 4}, 30)},
                             {"past_v", noise({1, 2, past, 4}, 31)}};
          }};
}

// Boxes above a score, at most 5 that don't overlap; and the positions of what is positive.
inline SmallModel detector() {
  GraphParts p;
  p.inputs = {shaped("boxes", kFloat, {1, "n", 4}), shaped("scores", kFloat, {1, 2, "n"})};
  p.outputs = {value("kept"), value("picked", kInt64), value("found", kInt64)};
  p.initializers = {int64_tensor("most", {5}), float_tensor("overlap", {0.5f}), float_tensor("least", {-0.2f}),
                    int64_tensor("two", {2}, true), int64_tensor("flat", {-1, 4})};
  p.nodes = {node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"picked"}),
             node("Gather", {"picked", "two"}, {"which"}, {int_attribute("axis", 1)}),
             node("Reshape", {"boxes", "flat"}, {"list"}),
             node("Gather", {"list", "which"}, {"kept_raw"}),
             node("Mul", {"kept_raw", "kept_raw"}, {"squares"}),
             node("Sqrt", {"squares"}, {"kept"}),
             node("NonZero", {"high"}, {"found"})};
  p.nodes.insert(p.nodes.begin(), node("Greater", {"scores", "least"}, {"high"}));
  return {"detector", std::move(p), [](int round) {
            const int64_t n = 3 + round * 4;
            return TensorMap{{"boxes", noise({1, n, 4}, 40u + static_cast<uint32_t>(round))},
                             {"scores", noise({1, 2, n}, 50u + static_cast<uint32_t>(round))}};
          }};
}

// A state that grows by a row a trip, and rows that are stacked.
inline SmallModel looper() {
  const std::string body = graph({.nodes = {node("Concat", {"state", "row"}, {"grown"}, {int_attribute("axis", 0)}),
                                            node("Identity", {"go"}, {"on"}), node("Mul", {"i", "i"}, {"square"})},
                                  .inputs = {value("i", kInt64), value("go", kBool), value("state")},
                                  .outputs = {value("on", kBool), value("grown"), value("square", kInt64)},
                                  .name = "body"});
  GraphParts p{.nodes = {node("Loop", {"trips", "", "x"}, {"grown", "squares"}, {graph_attribute("body", body)}),
                         node("Add", {"grown", "grown"}, {"y"})},
               .inputs = {shaped("trips", kInt64, {}), shaped("x", kFloat, {"n"})},
               .outputs = {value("y"), value("squares", kInt64)},
               .initializers = {float_tensor("row", {9})}};
  return {"looper", std::move(p), [](int round) {
            return TensorMap{{"trips", Tensor::scalar(int64_t{2 + round % 4})}, {"x", counting({1 + round})}};
          }};
}

// The branch that a bool input chooses, as in merged decoders.
inline SmallModel brancher() {
  GraphParts p{
      .nodes = {node("If", {"flag"}, {"b"},
                     {graph_attribute(
                          "then_branch",
                          graph({.nodes = {node("Add", {"x", "x"}, {"t"})}, .outputs = {value("t")}, .name = "then"})),
                      graph_attribute(
                          "else_branch",
                          graph({.nodes = {node("Neg", {"x"}, {"e"})}, .outputs = {value("e")}, .name = "else"}))}),
                node("Mul", {"b", "x"}, {"y"})},
      .inputs = {shaped("x", kFloat, {"n"}), shaped("flag", kBool, {})},
      .outputs = {value("y")}};
  return {"brancher", std::move(p), [](int round) {
            return TensorMap{{"x", noise({2 + round / 2}, 60)}, {"flag", truth(round % 2 == 0)}};
          }};
}

inline SmallModel drawer() {
  GraphParts p{.nodes = {node("RandomUniformLike", {"x"}, {"y"})},
               .inputs = {shaped("x", kFloat, {"n"})},
               .outputs = {value("y")}};
  return {"drawer", std::move(p), [](int round) { return TensorMap{{"x", counting({2 + round})}}; }, 6, true};
}

inline std::vector<SmallModel> small_models() {
  return {encoder(), decoder(), detector(), looper(), brancher(), drawer()};
}

// "" when both hold the same bits; else which output differs.
inline std::string difference(const TensorMap& got, const TensorMap& want) {
  if (got.size() != want.size()) return "another number of outputs";
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    if (found == got.end()) return name + " is missing";
    const Tensor &a = found->second.tensor, &b = value.tensor;
    if (a.dtype() != b.dtype() || a.shape() != b.shape()) return name + " is " + describe(a) + ", not " + describe(b);
    if (a.nbytes() && std::string_view(reinterpret_cast<const char*>(a.bytes()), a.nbytes()) !=
                          std::string_view(reinterpret_cast<const char*>(b.bytes()), b.nbytes()))
      return name + " has other bits";
  }
  return "";
}

}  // namespace transmuter::runtime::testing
