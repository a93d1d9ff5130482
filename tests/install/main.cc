// Uses public headers alone; needs no model file.
#include <transmuter/text.h>
#include <transmuter/transmuter.h>

#include <cstdio>
#include <vector>

int main() {
  namespace tm = transmuter;  // not at global scope, where <ctime> has a struct tm
  const tm::Tensor tensor(std::vector<float>{1, 2, 3, 4}, {2, 2});
  if (tensor.cast(tm::DType::i64).data<int64_t>()[3] != 4) return 1;
  try {
    tm::Tokenizer::load("no/such/tokenizer.json");
    return 1;
  } catch (const tm::Error& error) {
    std::puts(error.what());
  }
  return 0;
}
