// What a plan remembers of how it was bound. A plan for other sizes starts from it and binds only the steps that see a
// difference: those that asked for an extent that changed, or for a value that lies elsewhere now.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/run/view.h"

namespace transmuter::cpu {

struct BindRecord {
  // What there was when a step began; in the last one, when all had ended.
  struct Mark {
    int32_t buffers = 0, launches = 0, placings = 0, reads = 0;
    int64_t cache_copies = 0, cache_copy_bytes = 0;
    uint64_t symbols = 0;  // that the step's sizes depend on
  };
  // A value was given its place.
  struct Placing {
    int32_t value;
    bool grown;  // in the memory of an input that it continues
    View view;
  };
  // The values that lie in a buffer, as a list through all placings.
  struct Lying {
    int32_t value, step, next;
  };

  std::vector<Mark> marks;
  std::vector<Placing> placings;
  std::vector<int32_t> reads;     // the values whose places the steps asked for; -1 - value: the home of an input
  std::vector<Lying> lying;       // one for each placing
  std::vector<int32_t> lying_in;  // by buffer: the head of its list; -1: nothing lies there
  std::vector<int32_t> at_start;  // by value: its placing when the first step began; -1: none
  std::vector<int64_t> symbols;   // their values, by number; INT64_MIN where one had none

  // Keeps the memory.
  void clear() {
    marks.clear();
    placings.clear();
    for (auto* list : {&reads, &lying_in, &at_start}) list->clear();
    lying.clear();
    symbols.clear();
  }
};

}  // namespace transmuter::cpu
