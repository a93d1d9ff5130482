// A protobuf message as the ordered list of its fields, each still the file's bytes until someone changes it. What
// nobody knows is kept and written back where it was, so an unedited model is written byte for byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace transmuter::onnx {

struct Message;

// protobuf's wire types, by their numbers.
enum class Wire : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// One field. Copying copies an opened message with everything in it; bytes are shared.
struct Field {
  uint32_t number = 0;
  Wire wire = Wire::bytes;
  std::string_view bytes;             // numbers as they are encoded; for Wire::bytes the contents
  std::shared_ptr<const void> owner;  // keeps `bytes`; null: the document's owner does
  std::unique_ptr<Message> message;   // once opened: stands for `bytes`

  Field() = default;
  Field(Field&&) = default;
  Field& operator=(Field&&) = default;
  Field(const Field& other);
  Field& operator=(const Field& other);

  // The contents as a message, parsed at the first call. Throws Error(invalid_model).
  Message& open();
};

struct Message {
  std::vector<Field> fields;
  uint32_t id = 0;             // nodes: how an edit names them
  mutable size_t encoded = 0;  // left by measure()

  Field* find(uint32_t number);  // the last one, which is the one that counts; null: none
  const Field* find(uint32_t number) const;
  void remove(uint32_t number);  // every field of this number
  void erase(const Field* field);

  // Text fields. `set_texts` puts the new ones where the first old one stood.
  std::string_view text(uint32_t number) const;  // "" when absent
  void set_text(uint32_t number, std::string value);
  std::vector<std::string> texts(uint32_t number) const;
  void set_texts(uint32_t number, const std::vector<std::string>& values);
  int64_t integer(uint32_t number, int64_t otherwise = 0) const;
  void set_integer(uint32_t number, int64_t value);

 private:
  void put(Field field);  // in the place of the last one of its number, else behind all
};

// What a field that is a message holds, without opening it: nothing is copied where it is open already.
class Shown {
 public:
  // Throws Error(invalid_model).
  explicit Shown(const Field& field);
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  const Message* operator->() const { return &message_; }
  const Message& operator*() const { return message_; }

 private:
  Message parsed_;
  const Message& message_;
};

Field bytes_field(uint32_t number, std::string bytes);
Field bytes_field(uint32_t number, std::string_view bytes, std::shared_ptr<const void> owner);
Field integer_field(uint32_t number, int64_t value);
// Contents of a field that was not opened, or of one that was, encoded.
std::string contents(const Field& field);

// One level. Throws Error(invalid_model).
Message parse_fields(std::string_view bytes, const std::shared_ptr<const void>& owner);

// Bytes of the encoded message; remembered for write_message, which must follow before any change.
size_t measure(const Message& message);
// sink(std::string_view) takes the pieces in order; large contents come as they lie in the file.
template <class Sink>
void write_message(const Message& message, Sink&& sink);
std::string encode(const Message& message);

// The tag of a field, and the length where it has one.
std::string field_header(const Field& field);

template <class Sink>
void write_message(const Message& message, Sink&& sink) {
  for (const Field& field : message.fields) {
    sink(field_header(field));
    if (field.message)
      write_message(*field.message, sink);
    else
      sink(field.bytes);
  }
}

}  // namespace transmuter::onnx
