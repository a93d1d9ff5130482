// What an Error says, for tests of the sentences.
#pragma once

#include <string>

#include "transmuter/error.h"

namespace transmuter {

// What the Error of fn says; "no error" when there is none.
template <class Fn>
std::string error_of(const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace transmuter
