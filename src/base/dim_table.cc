// Interned nodes and polynomials, and bringing expressions up to date with the facts.
#include "base/dim_table.h"

#include <algorithm>

#include "base/strings.h"
#include "transmuter/error.h"

namespace transmuter {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

uint64_t hash_terms(const Term* terms, size_t count) {
  uint64_t hash = 0x517cc1b727220a95ull + count;
  for (size_t i = 0; i < count; ++i) hash = mix(mix(hash, terms[i].mono), static_cast<uint64_t>(terms[i].coefficient));
  return hash;
}

uint64_t hash_atoms(const ExprId* atoms, size_t count) {
  uint64_t hash = 0x2545f4914f6cdd1dull + count;
  for (size_t i = 0; i < count; ++i) hash = mix(hash, atoms[i]);
  return hash;
}

uint64_t hash_key(const Node& node) {
  uint64_t hash =
      mix(0x9ddfea08eb382d69ull, static_cast<uint64_t>(node.kind) << 16 | static_cast<uint64_t>(node.op) << 8 |
                                     static_cast<uint64_t>(node.dtype));
  hash = mix(hash, uint64_t{node.a} << 32 | node.b);
  if (node.kind == Kind::constant || node.kind == Kind::real_constant)
    hash = mix(hash, static_cast<uint64_t>(node.value));
  return mix(hash, node.c);
}

bool same_key(const Node& x, const Node& y) {
  return x.kind == y.kind && x.a == y.a && x.b == y.b && x.c == y.c && x.op == y.op && x.dtype == y.dtype &&
         ((x.kind != Kind::constant && x.kind != Kind::real_constant) || x.value == y.value);
}

}  // namespace

void throw_overflow() { throw Error(ErrorCode::invalid_input, "a size does not fit 64 bits"); }

Table::Table() {
  nodes.resize(1);
  nodes.reserve(256);
  monos.push_back({0, 0});
  node_set_.slots.assign(512, 0);
  mono_set_.slots.assign(256, 0);
}

uint64_t Table::hash_node(ExprId id) const {
  const Node& node = nodes[id];
  return node.kind == Kind::sum ? hash_terms(term_pool.data() + node.a, node.b) : hash_key(node);
}

template <class HashOf>
void Table::reserve_slot(HashSet& set, const HashOf& hash_of) {
  if (2 * (set.used + 1) <= set.slots.size()) return;
  std::vector<uint32_t> old(2 * set.slots.size(), 0);
  old.swap(set.slots);
  const size_t mask = set.slots.size() - 1;
  for (const uint32_t id : old) {
    if (!id) continue;
    size_t slot = hash_of(id) & mask;
    while (set.slots[slot]) slot = (slot + 1) & mask;
    set.slots[slot] = id;
  }
}

ExprId Table::add_node(Node node, uint64_t hash) {
  reserve_slot(node_set_, [this](ExprId id) { return hash_node(id); });
  const auto id = static_cast<ExprId>(nodes.size());
  node.canon = id;
  node.fresh = epoch;
  nodes.push_back(node);
  const size_t mask = node_set_.slots.size() - 1;
  size_t slot = hash & mask;
  while (node_set_.slots[slot]) slot = (slot + 1) & mask;
  node_set_.slots[slot] = id;
  ++node_set_.used;
  nodes[id].range = compute_range(id);
  return id;
}

ExprId Table::constant(int64_t value) {
  Node node;
  node.value = value;
  return intern(node);
}

ExprId Table::symbol(int32_t index, int64_t hint, Interval known, bool data_dependent) {
  Node node;
  node.kind = Kind::symbol;
  node.value = hint;
  node.known = known;
  node.data_dependent = data_dependent;
  node.a = static_cast<ExprId>(index);
  return add_node(node, hash_key(node));
}

ExprId Table::intern(const Node& key) {
  const uint64_t hash = hash_key(key);
  const size_t mask = node_set_.slots.size() - 1;
  for (size_t slot = hash & mask; node_set_.slots[slot]; slot = (slot + 1) & mask) {
    const ExprId id = node_set_.slots[slot];
    if (same_key(nodes[id], key)) {
      // A constant is its own canon and never goes out of date.
      return key.kind == Kind::constant ? id : canon(id);
    }
  }
  Node node = key;
  if (key.kind != Kind::constant && key.kind != Kind::real_constant) {
    for (const ExprId child : {key.a, key.b, key.c}) {
      if (!child) continue;
      node.data_dependent |= nodes[child].data_dependent;
      node.depth = std::max<uint16_t>(node.depth, static_cast<uint16_t>(std::min(nodes[child].depth + 1, 0xffff)));
    }
  }
  return add_node(node, hash);
}

MonoId Table::intern_mono(const ExprId* list, size_t count) {
  if (count == 0) return 0;
  const uint64_t hash = hash_atoms(list, count);
  reserve_slot(mono_set_, [this](MonoId id) { return hash_atoms(atoms(id), degree(id)); });
  const size_t mask = mono_set_.slots.size() - 1;
  size_t slot = hash & mask;
  for (; mono_set_.slots[slot]; slot = (slot + 1) & mask) {
    const MonoId id = mono_set_.slots[slot];
    if (degree(id) == count && std::equal(list, list + count, atoms(id))) return id;
  }
  const auto id = static_cast<MonoId>(monos.size());
  const auto first = static_cast<uint32_t>(mono_atoms.size());
  mono_atoms.insert(mono_atoms.end(), list, list + count);
  monos.push_back({first, static_cast<uint32_t>(count)});
  mono_set_.slots[slot] = id;
  ++mono_set_.used;
  return id;
}

MonoId Table::mono_of(ExprId atom) {
  if (!nodes[atom].mono) nodes[atom].mono = intern_mono(&atom, 1);
  return nodes[atom].mono;
}

MonoId Table::mono_product(MonoId x, MonoId y) {
  if (!x) return y;
  if (!y) return x;
  Atoms merged;
  const ExprId *i = atoms(x), *j = atoms(y);
  const ExprId *const i_end = i + degree(x), *const j_end = j + degree(y);
  while (i != i_end || j != j_end) merged.push_back(j == j_end || (i != i_end && *i <= *j) ? *i++ : *j++);
  return intern_mono(merged.data(), merged.size());
}

std::optional<MonoId> Table::mono_quotient(MonoId x, MonoId y) {
  if (!y) return x;
  Atoms left;
  const ExprId *i = atoms(x), *j = atoms(y);
  const ExprId *const i_end = i + degree(x), *const j_end = j + degree(y);
  for (; i != i_end; ++i) {
    if (j != j_end && *i == *j)
      ++j;
    else
      left.push_back(*i);
  }
  if (j != j_end) return std::nullopt;
  return intern_mono(left.data(), left.size());
}

bool Table::mono_less(MonoId x, MonoId y) const {
  if (degree(x) != degree(y)) return degree(x) < degree(y);
  return std::lexicographical_compare(atoms(x), atoms(x) + degree(x), atoms(y), atoms(y) + degree(y));
}

Terms Table::terms_of(ExprId id) {
  Terms terms;
  const Node& node = nodes[id];
  if (node.kind == Kind::sum)
    terms.assign(term_pool.data() + node.a, node.b);
  else if (node.kind != Kind::constant)
    terms.push_back({mono_of(id), 1});
  else if (node.value != 0)
    terms.push_back({0, node.value});
  return terms;
}

int64_t Table::hint(const Terms& terms) const {
  using Wide = __int128;
  const auto clamp = [](Wide x) { return static_cast<int64_t>(std::clamp<Wide>(x, INT64_MIN, INT64_MAX)); };
  Wide total = 0;
  for (const Term& term : terms) {
    int64_t product = term.coefficient;
    for (size_t i = 0; i < degree(term.mono); ++i) product = clamp(Wide{product} * nodes[atoms(term.mono)[i]].value);
    total += product;
  }
  return clamp(total);
}

void Table::describe_sum(Node& node, const Terms& terms) const {
  node.kind = Kind::sum;
  node.value = hint(terms);
  for (const Term& term : terms) {
    for (size_t i = 0; i < degree(term.mono); ++i) {
      const Node& atom = nodes[atoms(term.mono)[i]];
      node.data_dependent |= atom.data_dependent;
      node.depth = std::max<uint16_t>(node.depth, static_cast<uint16_t>(std::min(atom.depth + 1, 0xffff)));
    }
  }
}

ExprId Table::from_terms(const Terms& terms) {
  if (terms.empty()) return constant(0);
  if (terms.size() == 1) {
    if (terms[0].mono == 0) return constant(terms[0].coefficient);
    if (terms[0].coefficient == 1 && degree(terms[0].mono) == 1) return atoms(terms[0].mono)[0];
  }
  const uint64_t hash = hash_terms(terms.data(), terms.size());
  const size_t mask = node_set_.slots.size() - 1;
  for (size_t slot = hash & mask; node_set_.slots[slot]; slot = (slot + 1) & mask) {
    const ExprId id = node_set_.slots[slot];
    const Node& node = nodes[id];
    if (node.kind != Kind::sum || node.b != terms.size()) continue;
    const Term* other = term_pool.data() + node.a;
    bool same = true;
    for (size_t i = 0; i < terms.size() && same; ++i)
      same = other[i].mono == terms[i].mono && other[i].coefficient == terms[i].coefficient;
    if (same) return canon(id);
  }
  Node node;
  describe_sum(node, terms);
  node.a = static_cast<uint32_t>(term_pool.size());
  node.b = static_cast<uint32_t>(terms.size());
  term_pool.insert(term_pool.end(), terms.begin(), terms.end());
  return add_node(node, hash);
}

Terms Table::add_scaled(const Terms& x, const Terms& y, int64_t scale) const {
  Terms sum;
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    if (j == y.size() || (i < x.size() && x[i].mono < y[j].mono)) {
      sum.push_back(x[i++]);
      continue;
    }
    Term term{y[j].mono, 0};
    if (__builtin_mul_overflow(y[j].coefficient, scale, &term.coefficient)) throw_overflow();
    if (i < x.size() && x[i].mono == y[j].mono &&
        __builtin_add_overflow(term.coefficient, x[i++].coefficient, &term.coefficient))
      throw_overflow();
    ++j;
    if (term.coefficient != 0) sum.push_back(term);
  }
  return sum;
}

Terms Table::multiply(const Terms& x, const Terms& y) {
  Terms product;
  for (const Term& t : x) {
    Terms row;
    for (const Term& u : y) {
      Term term{mono_product(t.mono, u.mono), 0};
      if (__builtin_mul_overflow(t.coefficient, u.coefficient, &term.coefficient)) throw_overflow();
      row.push_back(term);
    }
    std::sort(row.begin(), row.end(), [](const Term& a, const Term& b) { return a.mono < b.mono; });
    product = product.empty() ? std::move(row) : add_scaled(product, row, 1);
  }
  return product;
}

Terms Table::add_constant(const Terms& x, int64_t value) const {
  Terms constant;
  if (value != 0) constant.push_back({0, value});
  return add_scaled(x, constant, 1);
}

Terms Table::complement(const Terms& x) const {
  Terms result;
  if (x.empty() || x[0].mono != 0) result.push_back({0, -1});
  for (const Term& term : x) {
    if (term.mono != 0 && term.coefficient == INT64_MIN) throw_overflow();
    const int64_t c = term.mono == 0 ? ~term.coefficient : -term.coefficient;
    if (c != 0) result.push_back({term.mono, c});
  }
  return result;
}

Terms Table::substitute(const Terms& terms, size_t index, ExprId atom, const Terms& by) {
  Terms rest;
  rest.push_back({*mono_quotient(terms[index].mono, mono_of(atom)), terms[index].coefficient});
  Terms others = terms;
  others.erase(index);
  return add_scaled(others, multiply(rest, by), 1);
}

bool Table::contains(ExprId root, ExprId part) const {
  SmallVector<ExprId, 32> stack;
  std::vector<bool> seen(nodes.size(), false);
  stack.push_back(root);
  while (!stack.empty()) {
    const ExprId id = stack.back();
    stack.pop_back();
    if (id == part) return true;
    if (id < part || seen[id]) continue;  // children are older
    seen[id] = true;
    for_children(id, [&](ExprId child) { stack.push_back(child); });
  }
  return false;
}

ExprId Table::refresh(ExprId root) {
  SmallVector<ExprId, 32> stack;
  stack.push_back(root);
  try {
    while (!stack.empty()) {
      const ExprId id = stack.back();
      if (nodes[id].fresh == epoch) {
        stack.pop_back();
        continue;
      }
      if (!nodes[id].busy) {
        nodes[id].busy = true;
        const size_t before = stack.size();
        const auto want = [&](ExprId child) {
          if (nodes[child].fresh != epoch && !nodes[child].busy) stack.push_back(child);
        };
        if (nodes[id].replaced)
          want(nodes[id].replaced);
        else
          for_children(id, want);
        if (stack.size() > before) continue;
      }
      const ExprId result = nodes[id].replaced ? canon(nodes[id].replaced) : rebuild(id);
      Node& node = nodes[id];
      node.busy = false;
      node.canon = result;
      node.fresh = epoch;
      if (result == id) nodes[id].range = compute_range(id);
      stack.pop_back();
    }
  } catch (...) {
    for (const ExprId id : stack) nodes[id].busy = false;
    throw;
  }
  return nodes[root].canon;
}

ExprId Table::rebuild(ExprId id) {
  const Node node = nodes[id];
  switch (node.kind) {
    case Kind::constant:
    case Kind::symbol:
    case Kind::real_constant:
      return id;
    case Kind::sum: {
      bool changed = false;
      for_children(id, [&](ExprId atom) { changed |= canon(atom) != atom; });
      if (!changed) return id;
      Terms total;
      for (uint32_t t = node.a; t < node.a + node.b; ++t) {
        const Term term = term_pool[t];
        Terms product;
        product.push_back({0, term.coefficient});
        for (size_t i = 0; i < degree(term.mono); ++i)
          product = multiply(product, terms_of(canon(atoms(term.mono)[i])));
        total = add_scaled(total, product, 1);
      }
      return from_terms(total);
    }
    case Kind::floor_div:
      return floor_div(canon(node.a), canon(node.b));
    case Kind::min:
    case Kind::max:
      return min_max(node.kind, canon(node.a), canon(node.b));
    case Kind::is_zero:
      return is_zero(terms_of(canon(node.a)));
    case Kind::is_nonneg:
      return is_nonneg(terms_of(canon(node.a)));
    case Kind::select:
      return select(canon(node.a), canon(node.b), canon(node.c));
    case Kind::dim_from:
      return dim_from(canon(node.a));
    case Kind::real_equal:
    case Kind::real_less:
    case Kind::real_less_equal:
      return real_compare(node.kind, canon(node.a), canon(node.b));
    case Kind::real_from:
      return real_from(canon(node.a), node.dtype);
    case Kind::real_unary:
    case Kind::real_binary:
      return real_apply(node.kind, node.op, node.dtype, canon(node.a), node.b ? canon(node.b) : 0);
  }
  return id;
}

}  // namespace transmuter
