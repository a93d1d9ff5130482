// table_dot: a product whose weights are places in a table (bitsandbytes' four-bit types).
#pragma once

#include "ir/builder.h"

namespace transmuter::ir {

namespace composite {
extern const Primitive table_dot;  // quantize.cc
}

struct TableDotAttributes : Attributes {
  int64_t block = 0;
  bool swapped = false;  // of two neighbours along k the second comes first: what has its high halves of bytes first
  void visit(AttributeVisitor& v) const override {
    v.integer("block", block);
    v.integer("swapped", swapped);
  }
};

// a [..., k] times the transpose of the weight [n, k] whose elements are table[code] * scale: codes [n, k] unsigned of
// b bits, table f32 [2^b], scales [n, ceil(k / block)], one for each `block` elements along k. Result [..., n] of a's
// dtype. k is even where `swapped`.
Value table_dot(Builder& build, Value a, Value codes, Value scales, Value table, TableDotAttributes attributes);

}  // namespace transmuter::ir
