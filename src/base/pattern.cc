// The classes of characters, and the simulation of the automaton by sets of states.
#include "base/pattern.h"

#include <algorithm>

#include "base/pattern_classes.h"

namespace transmuter {

CharacterRanges complement(CharacterRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CharacterRanges out;
  char32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) out.emplace_back(next, low - 1);
    next = std::max<char32_t>(next, high + 1);
  }
  if (next <= 0x10FFFF) out.emplace_back(next, 0x10FFFF);
  return out;
}

CharacterRanges perl_class(char32_t letter) {
  switch (letter) {
    case 'd':
      return {{'0', '9'}};
    case 's':
      return {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    case 'w':
      return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    case 'D':
    case 'S':
    case 'W':
      return complement(perl_class(letter + 32));
    default:
      return {};
  }
}

CharacterRanges posix_class(std::u32string_view name) {
  if (name == U"alnum") return {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
  if (name == U"alpha") return {{'A', 'Z'}, {'a', 'z'}};
  if (name == U"ascii") return {{0, 0x7F}};
  if (name == U"blank") return {{'\t', '\t'}, {' ', ' '}};
  if (name == U"cntrl") return {{0, 0x1F}, {0x7F, 0x7F}};
  if (name == U"digit") return {{'0', '9'}};
  if (name == U"graph") return {{'!', '~'}};
  if (name == U"lower") return {{'a', 'z'}};
  if (name == U"print") return {{' ', '~'}};
  if (name == U"punct") return {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
  if (name == U"space") return {{'\t', '\r'}, {' ', ' '}};
  if (name == U"upper") return {{'A', 'Z'}};
  if (name == U"word") return perl_class('w');
  if (name == U"xdigit") return {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  return {};
}

bool Pattern::Set::holds(char32_t c) const {
  for (const auto& [low, high] : ranges)
    if (c >= low && c <= high) return !negated;
  return negated;
}

void Pattern::follow(std::vector<uint32_t>& list, std::vector<uint32_t>& seen, uint32_t mark, uint32_t at,
                     std::u32string_view text, size_t place) const {
  std::vector<uint32_t> pending{at};
  const auto word_at = [&](size_t i) { return i < text.size() && is_word_character(text[i]); };
  while (!pending.empty()) {
    const uint32_t now = pending.back();
    pending.pop_back();
    if (seen[now] == mark) continue;
    seen[now] = mark;
    const Instruction& instruction = program_[now];
    bool on = true;
    switch (instruction.kind) {
      case Kind::set:
      case Kind::match:
        list.push_back(now);
        continue;
      case Kind::split:
        pending.push_back(instruction.other);
        break;
      case Kind::jump:
        break;
      case Kind::begin:
        on = place == 0;
        break;
      case Kind::end:
        on = place == text.size();
        break;
      case Kind::line_begin:
        on = place == 0 || text[place - 1] == '\n';
        break;
      case Kind::line_end:
        on = place == text.size() || text[place] == '\n';
        break;
      case Kind::boundary:
      case Kind::no_boundary:
        on = ((place > 0 && word_at(place - 1)) != word_at(place)) == (instruction.kind == Kind::boundary);
        break;
    }
    if (on) pending.push_back(instruction.next);
  }
}

std::optional<size_t> Pattern::longest(std::u32string_view text, size_t from) const {
  std::vector<uint32_t> now, next, seen(program_.size(), 0);
  uint32_t mark = 0;
  follow(now, seen, ++mark, 0, text, from);
  std::optional<size_t> end;
  for (size_t place = from; !now.empty(); ++place) {
    if (std::any_of(now.begin(), now.end(), [&](uint32_t i) { return program_[i].kind == Kind::match; })) end = place;
    if (place == text.size()) break;
    next.clear();
    ++mark;
    for (const uint32_t i : now) {
      const Instruction& instruction = program_[i];
      if (instruction.kind == Kind::set && sets_[instruction.set].holds(text[place]))
        follow(next, seen, mark, instruction.next, text, place + 1);
    }
    std::swap(now, next);
  }
  return end;
}

}  // namespace transmuter
