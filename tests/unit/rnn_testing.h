// Helpers for the tests of recurrences.
#pragma once

#include "ir/composites/composites.h"

namespace transmuter::ir {

// A cell of this kind with the activations that ONNX gives it, and parameters for activations that take some.
inline RnnAttributes usual_rnn(RnnAttributes::Kind kind) {
  using Kind = RnnAttributes::Kind;
  using Activation = RnnAttributes::Activation;
  RnnAttributes a;
  a.kind = kind;
  if (kind == Kind::lstm) a.activations = {Activation::sigmoid, Activation::tanh, Activation::tanh};
  if (kind == Kind::gru) a.activations = {Activation::sigmoid, Activation::tanh};
  if (kind == Kind::rnn) a.activations = {Activation::tanh};
  a.alpha.assign(a.activations.size(), 0.2);
  a.beta.assign(a.activations.size(), 0.4);
  return a;
}

}  // namespace transmuter::ir
