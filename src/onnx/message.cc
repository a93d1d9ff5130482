#include "onnx/message.h"

#include <algorithm>
#include <protozero/buffer_string.hpp>
#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>

#include "base/strings.h"
#include "onnx/wire.h"
#include "transmuter/error.h"

namespace transmuter::onnx {
namespace {

std::string varint(uint64_t value) {
  std::string out;
  protozero::add_varint_to_buffer(&out, value);
  return out;
}

}  // namespace

Field::Field(const Field& other)
    : number(other.number),
      wire(other.wire),
      bytes(other.bytes),
      owner(other.owner),
      message(other.message ? std::make_unique<Message>(*other.message) : nullptr) {}

Field& Field::operator=(const Field& other) {
  if (this != &other) *this = Field(other);
  return *this;
}

Message& Field::open() {
  if (!message) {
    if (wire != Wire::bytes)
      throw Error(ErrorCode::invalid_model, str("field ", number, " of a protobuf message is a number, not a message"));
    message = std::make_unique<Message>(parse_fields(bytes, owner));
    bytes = {};
  }
  return *message;
}

Field* Message::find(uint32_t number) {
  for (size_t i = fields.size(); i-- > 0;)
    if (fields[i].number == number) return &fields[i];
  return nullptr;
}

const Field* Message::find(uint32_t number) const { return const_cast<Message*>(this)->find(number); }

void Message::remove(uint32_t number) {
  std::erase_if(fields, [&](const Field& field) { return field.number == number; });
}

void Message::erase(const Field* field) { fields.erase(fields.begin() + (field - fields.data())); }

std::string_view Message::text(uint32_t number) const {
  const Field* field = find(number);
  return field && field->wire == Wire::bytes && !field->message ? field->bytes : std::string_view();
}

void Message::put(Field field) {
  if (Field* old = find(field.number))
    *old = std::move(field);
  else
    fields.push_back(std::move(field));
}

void Message::set_text(uint32_t number, std::string value) { put(bytes_field(number, std::move(value))); }

std::vector<std::string> Message::texts(uint32_t number) const {
  std::vector<std::string> all;
  for (const Field& field : fields)
    if (field.number == number && field.wire == Wire::bytes) all.emplace_back(field.bytes);
  return all;
}

void Message::set_texts(uint32_t number, const std::vector<std::string>& values) {
  const auto of_number = [&](const Field& field) { return field.number == number; };
  const auto first = std::find_if(fields.begin(), fields.end(), of_number) - fields.begin();
  remove(number);
  std::vector<Field> added;
  for (const std::string& value : values) added.push_back(bytes_field(number, value));
  fields.insert(fields.begin() + std::min<std::ptrdiff_t>(first, std::ssize(fields)),
                std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

int64_t Message::integer(uint32_t number, int64_t otherwise) const {
  const Field* field = find(number);
  if (!field || field->wire != Wire::varint) return otherwise;
  const char* at = field->bytes.data();
  return checked([&] { return static_cast<int64_t>(protozero::decode_varint(&at, at + field->bytes.size())); });
}

void Message::set_integer(uint32_t number, int64_t value) { put(integer_field(number, value)); }

Shown::Shown(const Field& field)
    : parsed_(field.message ? Message() : parse_fields(field.bytes, field.owner)),
      message_(field.message ? *field.message : parsed_) {}

Field bytes_field(uint32_t number, std::string_view bytes, std::shared_ptr<const void> owner) {
  Field field;
  field.number = number;
  field.bytes = bytes;
  field.owner = std::move(owner);
  return field;
}

Field bytes_field(uint32_t number, std::string bytes) {
  auto own = std::make_shared<const std::string>(std::move(bytes));
  const std::string_view view = *own;
  return bytes_field(number, view, std::move(own));
}

Field integer_field(uint32_t number, int64_t value) {
  Field field = bytes_field(number, varint(static_cast<uint64_t>(value)));
  field.wire = Wire::varint;
  return field;
}

std::string contents(const Field& field) { return field.message ? encode(*field.message) : std::string(field.bytes); }

Message parse_fields(std::string_view bytes, const std::shared_ptr<const void>& owner) {
  return checked([&] {
    Message message;
    protozero::pbf_reader reader(protozero::data_view{bytes.data(), bytes.size()});
    while (reader.next()) {
      Field field;
      field.number = reader.tag();
      field.wire = static_cast<Wire>(reader.wire_type());
      field.owner = owner;
      if (field.wire == Wire::bytes) {
        const protozero::data_view view = reader.get_view();
        field.bytes = {view.data(), view.size()};
      } else {
        const char* begin = reader.data().data();
        reader.skip();  // throws for the wire types that nobody uses any more
        field.bytes = {begin, static_cast<size_t>(reader.data().data() - begin)};
      }
      message.fields.push_back(std::move(field));
    }
    return message;
  });
}

size_t measure(const Message& message) {
  size_t total = 0;
  for (const Field& field : message.fields) {
    const size_t size = field.message ? measure(*field.message) : field.bytes.size();
    total += static_cast<size_t>(protozero::length_of_varint(uint64_t{field.number} << 3)) + size;
    if (field.wire == Wire::bytes) total += static_cast<size_t>(protozero::length_of_varint(size));
  }
  message.encoded = total;
  return total;
}

std::string field_header(const Field& field) {
  std::string out = varint(uint64_t{field.number} << 3 | static_cast<uint64_t>(field.wire));
  if (field.wire == Wire::bytes)
    protozero::add_varint_to_buffer(&out, field.message ? field.message->encoded : field.bytes.size());
  return out;
}

std::string encode(const Message& message) {
  std::string out;
  out.reserve(measure(message));
  write_message(message, [&](std::string_view piece) { out.append(piece); });
  return out;
}

}  // namespace transmuter::onnx
