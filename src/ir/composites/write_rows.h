// write_rows: a cache with new rows in it, each sequence of the batch at a place of its own.
#pragma once

#include "ir/builder.h"

namespace transmuter::ir {

namespace composite {
extern const Primitive write_rows;
}

struct WriteRowsAttributes : Attributes {
  int64_t axis = 0;
  bool keeps_rest = true;  // what lies behind a sequence's new rows stays; else it becomes zeros
  bool circular = false;   // rows go on at the start; then all of them are written, and the rest stays
  void visit(AttributeVisitor& v) const override {
    v.integer("axis", axis);
    v.integer("keeps_rest", keeps_rest);
    v.integer("circular", circular);
  }
};

// cache [b, ..., capacity, ...] and rows [b, ..., n, ...] agree in all extents but those along `axis` (not 0). Places
// p of sequence i: from starts[i] up to ends[i] (both i64 [b]) the row p - starts[i], or the last one; places that the
// cache doesn't have are passed over. `rows` of one row is the same as of any number of that row.
Value write_rows(Builder& build, Value cache, Value rows, Value starts, Value ends, WriteRowsAttributes attributes);

}  // namespace transmuter::ir
