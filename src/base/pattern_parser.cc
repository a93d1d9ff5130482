// From a pattern's text straight to the instructions of its automaton.
#include <algorithm>

#include "base/pattern.h"
#include "base/pattern_classes.h"
#include "base/strings.h"
#include "base/unicode.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

constexpr size_t kMaxInstructions = 200000;
constexpr int kMaxRepeat = 1000, kMaxDepth = 200;

}  // namespace

// Each construct appends its instructions; `next` of the last ones is filled in by appending in order, so a fragment is
// simply a range of the program that is entered at its start and left at its end.
class PatternParser {
 public:
  PatternParser(Pattern& pattern, std::u32string text) : pattern_(pattern), text_(std::move(text)) {
    alternation();
    if (at_ < text_.size()) fail("unexpected )");
    emit(Kind::match);
  }

 private:
  using Kind = Pattern::Kind;
  using Instruction = Pattern::Instruction;

  struct Flags {
    bool fold = false, dot_all = false, lines = false;
  };

  template <class... Pieces>
  [[noreturn]] void fail(const Pieces&... pieces) const {
    throw Error(ErrorCode::invalid_model, str("pattern ", to_utf8(text_), ": ", pieces...));
  }
  bool more() const { return at_ < text_.size(); }
  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  uint32_t here() const { return static_cast<uint32_t>(pattern_.program_.size()); }
  uint32_t emit(Kind kind, uint32_t set = 0) {
    if (pattern_.program_.size() >= kMaxInstructions) fail("is too long");
    pattern_.program_.push_back({kind, here() + 1, 0, set});
    return here() - 1;
  }
  // Makes room for one instruction before `from`; what points past it moves along.
  void insert_split(uint32_t from) {
    std::vector<Instruction>& program = pattern_.program_;
    program.insert(program.begin() + from, {Kind::split, from + 1, 0, 0});
    for (size_t i = from + 1; i < program.size(); ++i) {
      program[i].next += 1;
      if (program[i].kind == Kind::split) program[i].other += 1;
    }
  }

  void alternation() {
    if (++depth_ > kMaxDepth) fail("is nested too deeply");
    const Flags outer = flags_;
    const uint32_t start = here();
    std::vector<uint32_t> exits;
    uint32_t branch = start;
    sequence();
    while (take('|')) {
      insert_split(branch);
      exits.push_back(emit(Kind::jump));
      pattern_.program_[branch].other = here();
      branch = here();
      sequence();
    }
    for (const uint32_t exit : exits) pattern_.program_[exit].next = here();
    flags_ = outer;
    --depth_;
  }

  void sequence() {
    while (more() && peek() != '|' && peek() != ')') {
      repeated_ = here();
      if (atom()) repeats(repeated_);
    }
  }

  void repeats(uint32_t start) {
    while (more()) {
      int least = 0, most = -1;  // -1: without end
      if (take('*')) {
      } else if (take('+')) {
        least = 1;
      } else if (take('?')) {
        most = 1;
      } else if (peek() != '{' || !counts(least, most)) {
        return;
      }
      take('?');  // the reluctant forms match the same texts
      repeat(start, least, most);
    }
  }

  // {n}, {n,}, {n,m}; anything else is literal.
  bool counts(int& least, int& most) {
    const size_t back = at_++;
    const auto number = [&](int& value) {
      const size_t from = at_;
      int64_t n = 0;
      while (peek() >= '0' && peek() <= '9') n = std::min<int64_t>(n * 10 + (text_[at_++] - '0'), 1000000);
      value = static_cast<int>(n);
      return at_ > from;
    };
    bool good = number(least);
    if (good && take(',')) {
      if (!number(most)) most = -1;
    } else {
      most = least;
    }
    good = good && take('}');
    if (!good) {
      at_ = back;
      return false;
    }
    if (least > kMaxRepeat || most > kMaxRepeat || (most >= 0 && most < least)) fail("bad repetition");
    return true;
  }

  // The fragment from `start` on, least times and then up to most times.
  void repeat(uint32_t start, int least, int most) {
    const std::vector<Instruction> once(pattern_.program_.begin() + start, pattern_.program_.end());
    pattern_.program_.resize(start);
    const auto copy = [&] {
      if (pattern_.program_.size() + once.size() > kMaxInstructions) fail("is too long");
      const uint32_t shift = here() - start;
      for (Instruction i : once) {
        i.next += shift;
        i.other += shift;
        pattern_.program_.push_back(i);
      }
    };
    for (int i = 0; i < least; ++i) copy();
    if (most < 0) {
      const uint32_t split = emit(Kind::split);
      copy();
      pattern_.program_[emit(Kind::jump)].next = split;
      pattern_.program_[split].other = here();
      return;
    }
    std::vector<uint32_t> splits;
    for (int i = least; i < most; ++i) {
      splits.push_back(emit(Kind::split));
      copy();
    }
    for (const uint32_t split : splits) pattern_.program_[split].other = here();
  }

  void set_of(CharacterRanges ranges, bool negated = false) {
    if (flags_.fold) {
      CharacterRanges more;
      for (const auto& [low, high] : ranges) {
        for (char32_t c = low; c <= std::min<char32_t>(high, low + 0x3000); ++c) {
          more.emplace_back(to_lower(c), to_lower(c));
          more.emplace_back(to_upper(c), to_upper(c));
        }
      }
      ranges.insert(ranges.end(), more.begin(), more.end());
    }
    pattern_.sets_.push_back({std::move(ranges), negated});
    emit(Kind::set, static_cast<uint32_t>(pattern_.sets_.size() - 1));
  }

  // False for what nothing can repeat: flags.
  bool atom() {
    const char32_t c = text_[at_++];
    switch (c) {
      case '(':
        return group();
      case '[':
        bracket();
        return true;
      case '.':
        set_of(flags_.dot_all ? CharacterRanges{{0, 0x10FFFF}} : CharacterRanges{{0, '\n' - 1}, {'\n' + 1, 0x10FFFF}});
        return true;
      case '^':
        emit(flags_.lines ? Kind::line_begin : Kind::begin);
        return true;
      case '$':
        emit(flags_.lines ? Kind::line_end : Kind::end);
        return true;
      case '*':
      case '+':
      case '?':
        fail("nothing to repeat");
      case '\\':
        escape();
        return true;
      default:
        set_of({{c, c}});
        return true;
    }
  }

  bool group() {
    const uint32_t start = here();
    const bool atom = open_group();
    repeated_ = start;  // atoms inside have set their own
    return atom;
  }

  bool open_group() {
    if (take('?')) {
      if (take('P') || peek() == '<') {
        if (!take('<')) fail("bad group");
        while (more() && !take('>')) ++at_;
      } else {
        Flags flags = flags_;
        bool on = true;
        while (more() && peek() != ':' && peek() != ')') {
          const char32_t c = text_[at_++];
          if (c == '-') {
            on = false;
          } else if (c == 'i') {
            flags.fold = on;
          } else if (c == 's') {
            flags.dot_all = on;
          } else if (c == 'm') {
            flags.lines = on;
          } else if (c != 'U') {
            fail("bad flag in a group");
          }
        }
        if (take(')')) {
          flags_ = flags;
          return false;
        }
        if (!take(':')) fail("bad group");
        const Flags outer = flags_;
        flags_ = flags;
        alternation();
        flags_ = outer;
        if (!take(')')) fail("missing )");
        return true;
      }
    }
    alternation();
    if (!take(')')) fail("missing )");
    return true;
  }

  // After the backslash, of which more follows.
  char32_t escaped_character() {
    const char32_t c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'x':
        return hexadecimal();
      default:
        break;
    }
    if (c >= '0' && c <= '7') {
      char32_t value = c - '0';
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) value = value * 8 + (text_[at_++] - '0');
      return value;
    }
    if (c < 0x80 && is_word_character(c))
      throw Error(ErrorCode::unsupported, str("pattern ", to_utf8(text_), ": \\", to_utf8({&c, 1})));
    return c;
  }

  char32_t hexadecimal() {
    const bool braces = take('{');
    char32_t value = 0;
    int digits = 0;
    for (; more() && digits < (braces ? 6 : 2); ++digits) {
      const char32_t c = to_lower(peek());
      const bool decimal = c >= '0' && c <= '9';
      if (!decimal && !(c >= 'a' && c <= 'f')) break;
      value = value * 16 + (decimal ? c - '0' : c - 'a' + 10);
      ++at_;
    }
    if (digits == 0 || (braces && !take('}')) || value > 0x10FFFF) fail("bad \\x");
    return value;
  }

  void escape() {
    if (!more()) fail("ends with a backslash");
    const char32_t c = peek();
    if (c == 'Q') {
      ++at_;
      while (more() && !(peek() == '\\' && peek(1) == 'E')) {
        repeated_ = here();  // what follows the quotation repeats its last character
        set_of({{peek(), peek()}});
        ++at_;
      }
      if (more()) at_ += 2;
      return;
    }
    if (c == 'b' || c == 'B' || c == 'A' || c == 'z') {
      ++at_;
      emit(c == 'b' ? Kind::boundary : c == 'B' ? Kind::no_boundary : c == 'A' ? Kind::begin : Kind::end);
      return;
    }
    if (CharacterRanges ranges = perl_class(c); !ranges.empty()) {
      ++at_;
      return set_of(std::move(ranges));
    }
    const char32_t character = escaped_character();
    set_of({{character, character}});
  }

  void bracket() {
    const bool negated = take('^');
    CharacterRanges ranges;
    bool first = true;
    while (first || peek() != ']') {
      if (!more()) fail("missing ]");
      first = false;
      if (peek() == '[' && peek(1) == ':') {
        const size_t end = text_.find(U":]", at_ + 2);
        if (end == std::u32string::npos) fail("missing :]");
        std::u32string_view name = std::u32string_view(text_).substr(at_ + 2, end - at_ - 2);
        const bool not_it = !name.empty() && name[0] == '^';
        if (not_it) name.remove_prefix(1);
        CharacterRanges found = posix_class(name);
        if (found.empty()) fail("bad class in brackets");
        if (not_it) found = complement(std::move(found));
        ranges.insert(ranges.end(), found.begin(), found.end());
        at_ = end + 2;
        continue;
      }
      if (peek() == '\\') {
        if (CharacterRanges found = perl_class(peek(1)); !found.empty()) {
          ranges.insert(ranges.end(), found.begin(), found.end());
          at_ += 2;
          continue;
        }
      }
      const char32_t low = bracket_character();
      char32_t high = low;
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        high = bracket_character();
        if (high < low) fail("bad range in brackets");
      }
      ranges.emplace_back(low, high);
    }
    ++at_;
    set_of(std::move(ranges), negated);
  }

  char32_t bracket_character() {
    if (!take('\\')) return text_[at_++];
    if (!more()) fail("ends with a backslash");
    return escaped_character();
  }

  Pattern& pattern_;
  std::u32string text_;
  size_t at_ = 0;
  uint32_t repeated_ = 0;  // where the fragment that a repetition repeats starts
  int depth_ = 0;
  Flags flags_;
};

Pattern::Pattern(std::string_view expression) { PatternParser(*this, from_utf8(expression)); }

}  // namespace transmuter
