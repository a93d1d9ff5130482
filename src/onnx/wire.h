// One protobuf message, field by field, over protozero. Every accessor checks the wire type first (protozero only
// asserts it); a broken message throws, never reads outside its bytes.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter::onnx {

class Fields {
 public:
  explicit Fields(std::string_view message) : reader_(protozero::data_view{message.data(), message.size()}) {}

  bool next() { return reader_.next(); }
  uint32_t field() const { return reader_.tag(); }
  void skip() { reader_.skip(); }
  bool is_bytes() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }

  std::string_view bytes() {
    expect(protozero::pbf_wire_type::length_delimited);
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  std::string text() { return std::string(bytes()); }
  int64_t int64() {
    expect(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  int32_t int32() { return static_cast<int32_t>(int64()); }
  float float32() {
    expect(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  double float64() {
    expect(protozero::pbf_wire_type::fixed64);
    return reader_.get_double();
  }

  // A repeated number: fn(value) for one field, packed or not.
  template <class Fn>
  void each_int64(Fn fn) {
    if (!is_bytes()) return fn(int64());
    for (const int64_t value : reader_.get_packed_int64()) fn(value);
  }
  template <class Fn>
  void each_float32(Fn fn) {
    if (!is_bytes()) return fn(float32());
    for (const float value : reader_.get_packed_float()) fn(value);
  }
  template <class Fn>
  void each_float64(Fn fn) {
    if (!is_bytes()) return fn(float64());
    for (const double value : reader_.get_packed_double()) fn(value);
  }

 private:
  void expect(protozero::pbf_wire_type type) const {
    if (reader_.wire_type() == type) return;
    throw Error(ErrorCode::invalid_model,
                str("field ", reader_.tag(), " of a protobuf message has wire type ",
                    static_cast<unsigned>(reader_.wire_type()), " instead of ", static_cast<unsigned>(type)));
  }

  protozero::pbf_reader reader_;
};

// StringStringEntryProto: key, value.
inline std::pair<std::string, std::string> parse_entry(std::string_view message) {
  std::pair<std::string, std::string> entry;
  Fields fields(message);
  while (fields.next()) {
    if (fields.field() == 1)
      entry.first = fields.text();
    else if (fields.field() == 2)
      entry.second = fields.text();
    else
      fields.skip();
  }
  return entry;
}

// Runs `body`; broken protobuf becomes an Error.
template <class Body>
decltype(auto) checked(Body body) {
  try {
    return body();
  } catch (const protozero::exception&) {
    throw Error(ErrorCode::invalid_model, "the bytes end early or are not a protobuf message");
  }
}

// Runs `body`; an Error that leaves it gets the link where() in its chain. Broken protobuf becomes an Error here.
template <class Where, class Body>
decltype(auto) within(Where where, Body body) {
  try {
    return body();
  } catch (Error& error) {
    error.in(where());
    throw;
  } catch (const protozero::exception&) {
    throw Error(ErrorCode::invalid_model, "the bytes end early or are not a protobuf message").in(where());
  }
}

}  // namespace transmuter::onnx
