// Caches of keys and values [b, heads, s, d] that attention operators append to.
#pragma once

#include "ir/builder.h"

namespace transmuter::ops {

// Where the new tokens go: at `all` in every sequence, or at `each` [b] (i64), up to `end` [b] where only some of the
// chunk is tokens.
struct CacheStart {
  Dim all = 0;
  ir::Value each, end;
  ir::Value totals;         // a padded prompt: how many of its tokens count
  bool keeps_rest = false;  // what lies behind a sequence stays; else it becomes zeros
};

struct CacheResult {
  ir::Value present;  // the cache after the step
  ir::Value visible;  // the keys that attention reads
};

// A cache that ends where the new tokens start grows; one that is longer (or whose sequences have lengths of their own)
// keeps its extent where that suffices for `total`, the longest sequence after the step.
CacheResult append_cache(ir::Builder& build, ir::Value past, ir::Value now, const CacheStart& start, Dim total);
// A cache of the last positions only, its first `start` rows (at most all) taken: the oldest make room.
CacheResult slide_cache(ir::Builder& build, ir::Value past, ir::Value now, Dim start);

}  // namespace transmuter::ops
