#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "data/bpe_tokenizer.h"
#include "data/byte_alphabet.h"
#include "data/json_field.h"
#include "data/tokenizer_steps.h"
#include "formats/json.h"

namespace sextant {
namespace {

using nlohmann::json;

// End-of-document tokens of published tokenizers.
constexpr std::string_view kEodNames[] = {
    "<|endoftext|>",       "<|end_of_text|>",      "<|eos|>", "</s>", "<eos>",
    "<|end▁of▁sentence|>", "<｜end▁of▁sentence｜>"};

using Field = JsonField;
using Vocabulary = std::unordered_map<std::string, int32_t>;

Vocabulary read_vocabulary(const Field& model) {
  const Field field = model.object("vocab");
  Vocabulary vocabulary;
  std::unordered_map<int32_t, const std::string*> owners;
  for (const auto& [token, value] : field.value().items()) {
    const int32_t id = Field(value, field.where() + "[" + shown(token) + "]").as_id();
    const auto [owner, is_new] = owners.emplace(id, nullptr);
    SXT_CHECK(is_new, Data, field.where(), " gives id ", id, " to ", shown(token), " and to ",
              shown(*owner->second));
    owner->second = &vocabulary.emplace(token, id).first->first;
  }
  SXT_CHECK(!vocabulary.empty(), Data, field.where(), " is empty");
  return vocabulary;
}

// "left right" or ["left", "right"].
std::pair<std::string, std::string> read_merge(const json& merge, const std::string& where,
                                               size_t rank) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  SXT_CHECK(merge.is_string(), Data, where, "[", rank, "] must be \"left right\" or a pair");
  const auto& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  SXT_CHECK(space != std::string::npos && text.find(' ', space + 1) == std::string::npos, Data,
            where, "[", rank, "] is ", shown(text), ", must be two tokens with one space between");
  return {text.substr(0, space), text.substr(space + 1)};
}

MergeTable read_merges(const Field& model, const Vocabulary& vocabulary) {
  const Field field = model.array("merges");
  MergeTable table(field.value().size());
  for (size_t rank = 0; rank < field.value().size(); ++rank) {
    const auto [left, right] = read_merge(field.value()[rank], field.where(), rank);
    const auto id_of = [&](const std::string& token) {
      const auto found = vocabulary.find(token);
      SXT_CHECK(found != vocabulary.end(), Data, field.where(), "[", rank, "] needs token ",
                shown(token), ", which the vocabulary lacks");
      return found->second;
    };
    const int32_t left_id = id_of(left), right_id = id_of(right), whole = id_of(left + right);
    table.set(left_id, right_id, {static_cast<int32_t>(rank), whole});
  }
  return table;
}

BpeModel read_model(const Field& model, const Vocabulary& vocabulary, Alphabet alphabet) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    model.expect_unset(key);
  if (alphabet == Alphabet::Bytes) model.expect_unset("byte_fallback");
  BpeModel::Unknown unknown;
  if (model.has("unk_token")) {
    const std::string token = model.string("unk_token");
    const auto found = vocabulary.find(token);
    SXT_CHECK(found != vocabulary.end(), Data, model.where(), ".unk_token ", shown(token),
              " is not in the vocabulary");
    unknown.id = found->second;
    unknown.runs = model.flag("fuse_unk", false) ? UnknownRuns::Fused : UnknownRuns::Each;
  }
  Vocabulary ids;
  for (const auto& [token, id] : vocabulary) {
    if (alphabet == Alphabet::Characters)
      ids.emplace(token, id);
    else if (std::optional<std::string> bytes = bytes_of_token(token))
      ids.emplace(*bytes, id);
  }
  const WholeWords whole =
      model.flag("ignore_merges", false) ? WholeWords::Lookup : WholeWords::Merge;
  const Fallback fallback =
      model.flag("byte_fallback", false) ? Fallback::ByteTokens : Fallback::Unknown;
  return BpeModel(std::move(ids), read_merges(model, vocabulary), whole, unknown,
                  {alphabet, fallback});
}

// A token that the vocabulary lacks gets the next free id, in file order; the file must give the
// same id.
std::vector<AddedToken> read_added_tokens(const Field& root, const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (!root.has("added_tokens")) return tokens;
  std::unordered_map<std::string, int32_t> known;
  auto next = static_cast<int32_t>(vocabulary.size());
  for (const Field& item : root.array("added_tokens").items()) {
    item.expect_object();
    AddedToken token;
    token.content = item.string("content");
    token.id = item.id("id");
    token.is_special = item.flag("special", false);
    token.is_single_word = item.flag("single_word", false);
    token.takes_left_space = item.flag("lstrip", false);
    token.takes_right_space = item.flag("rstrip", false);
    token.is_normalized = item.flag("normalized", !token.is_special);
    SXT_CHECK(!token.content.empty(), Data, item.where(), " has an empty content");
    const auto in_vocabulary = vocabulary.find(token.content);
    const bool is_new = in_vocabulary == vocabulary.end();
    const int32_t expected = is_new ? next : in_vocabulary->second;
    SXT_CHECK(token.id == expected, Data, item.where(), " ", shown(token.content), " has id ",
              token.id, ", must be ", expected,
              is_new ? ", the next that is free" : " as in the vocabulary");
    SXT_CHECK(known.emplace(token.content, token.id).second, Data, item.where(), " ",
              shown(token.content), " was added before");
    next = std::max(next, token.id + 1);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

struct WordRules {
  std::vector<WordSplit> before, after;
  bool adds_prefix_space = false;
  bool is_byte_level = false;
};

WordSplit read_split(const Field& field) {
  const std::string behavior = field.string("behavior");
  const bool inverted = field.flag("invert", false);
  SXT_CHECK(behavior == "Isolated" || (behavior == "Removed" && inverted), Data, field.where(),
            ": behavior ", shown(behavior), inverted ? " inverted" : "",
            " is not supported, only Isolated, and Removed with invert");
  const Field pattern = field.object("pattern");
  SXT_CHECK(pattern.has("Regex"), Data, pattern.where(), " must have a Regex");
  return {Pattern(pattern.string("Regex"), field.where()),
          behavior == "Removed" ? Unmatched::Drop : Unmatched::Keep};
}

void read_word_rules(WordRules& rules, const Field& field) {
  const std::string type = field.type();
  SXT_CHECK(!rules.is_byte_level, Data, field.where(), ": nothing may follow the ByteLevel step");
  if (type == "Sequence") {
    for (const Field& part : field.array("pretokenizers").items()) read_word_rules(rules, part);
  } else if (type == "Split") {
    rules.before.push_back(read_split(field));
  } else if (type == "Digits") {
    const bool each = field.flag("individual_digits", false);
    rules.before.push_back({Pattern(each ? "\\p{N}" : "\\p{N}+", field.where()), Unmatched::Keep});
  } else if (type == "ByteLevel") {
    rules.is_byte_level = true;
    rules.adds_prefix_space = field.flag("add_prefix_space", true);
    if (field.flag("use_regex", true))
      rules.after.push_back({Pattern(kGpt2Pattern, field.where()), Unmatched::Keep});
  } else {
    field.refuse(type, "Sequence, Split, Digits and ByteLevel");
  }
}

void read_template(BpeTokenizer& out, const Field& field) {
  std::vector<int32_t> prefix, suffix;
  int texts = 0;
  for (const Field& piece : field.array("single").items()) {
    piece.expect_object();
    if (piece.has("Sequence")) {
      ++texts;
      continue;
    }
    const std::string name = piece.object("SpecialToken").string("id");
    const Field special = field.object("special_tokens").object(name.c_str());
    for (const Field& id : special.array("ids").items())
      (texts == 0 ? prefix : suffix).push_back(id.as_id());
  }
  SXT_CHECK(texts == 1, Data, field.where(), ".single must have one Sequence, has ", texts);
  out.prefix.insert(out.prefix.begin(), prefix.begin(), prefix.end());
  out.suffix.insert(out.suffix.end(), suffix.begin(), suffix.end());
}

void read_post_processor(BpeTokenizer& out, const Field& field) {
  const std::string type = field.type();
  if (type == "Sequence") {
    for (const Field& part : field.array("processors").items()) read_post_processor(out, part);
  } else if (type == "TemplateProcessing") {
    read_template(out, field);
  } else if (type != "ByteLevel") {  // ByteLevel only changes offsets
    field.refuse(type, "Sequence, TemplateProcessing and ByteLevel");
  }
}

std::vector<std::string> read_texts(const Vocabulary& vocabulary,
                                    const std::vector<AddedToken>& added, const Decoder& decoder) {
  int32_t last = 0;
  for (const auto& [token, id] : vocabulary) last = std::max(last, id);
  for (const AddedToken& token : added) last = std::max(last, token.id);
  std::vector<std::string> texts(static_cast<size_t>(last) + 1);
  for (const auto& [token, id] : vocabulary)
    texts[static_cast<size_t>(id)] = text_of_token(token, decoder);
  for (const AddedToken& token : added) texts[static_cast<size_t>(token.id)] = token.content;
  return texts;
}

std::optional<int32_t> find_eod(const Vocabulary& vocabulary,
                                const std::vector<AddedToken>& added) {
  for (const std::string_view name : kEodNames) {
    for (const AddedToken& token : added) {
      if (token.content == name) return token.id;
    }
    const auto found = vocabulary.find(std::string(name));
    if (found != vocabulary.end()) return found->second;
  }
  return std::nullopt;
}

AddedTokenFinder finder(const std::vector<AddedToken>& all, bool normalized,
                        const std::vector<NormalizeStep>& steps) {
  std::vector<AddedToken> some;
  for (AddedToken token : all) {
    if (token.is_normalized != normalized) continue;
    if (normalized) token.content = normalized_text(steps, token.content);
    some.push_back(std::move(token));
  }
  // Special tokens come first in the reference's list, which decides between equal contents.
  std::stable_partition(some.begin(), some.end(), [](const AddedToken& t) { return t.is_special; });
  return AddedTokenFinder(std::move(some));
}

}  // namespace

BpeTokenizer parse_tokenizer_json(std::string_view text, const std::string& name) {
  const json document = parse_json_strict(text, name);
  const Field root(document, name);
  root.expect_object();
  for (const char* key : {"truncation", "padding"}) root.expect_unset(key);
  const Field model(root.object("model").value(), name + ": model");
  // Older files have no type; a model with merges is BPE.
  const std::string type = model.has("type") ? model.string("type") : "BPE";
  if (type != "BPE") model.refuse(type, "BPE");
  const Vocabulary vocabulary = read_vocabulary(model);
  const std::vector<AddedToken> added = read_added_tokens(root, vocabulary);
  const std::vector<NormalizeStep> steps = read_normalizer(root);
  const std::optional<Metaspace> spaces = read_metaspace(root);
  const bool has_characters = spaces || !root.has("pre_tokenizer");
  WordRules rules;
  if (!has_characters) {
    read_word_rules(rules, root.object("pre_tokenizer"));
    SXT_CHECK(rules.is_byte_level, Data, name, ": pre_tokenizer has no ByteLevel step; ",
              "only byte-level and Metaspace tokenizers are supported");
  }
  const Alphabet alphabet = has_characters ? Alphabet::Characters : Alphabet::Bytes;
  const Decoder decoder = read_decoder(root, alphabet);
  BpeTokenizer out{steps,
                   finder(added, false, steps),
                   finder(added, true, steps),
                   std::move(rules.before),
                   rules.adds_prefix_space,
                   std::move(rules.after),
                   spaces,
                   read_model(model, vocabulary, alphabet),
                   read_texts(vocabulary, added, decoder),
                   {},
                   {},
                   find_eod(vocabulary, added),
                   decoder.strips_first_space};
  if (root.has("post_processor")) read_post_processor(out, root.object("post_processor"));
  const auto limit = static_cast<int32_t>(out.text_of_id.size());
  for (const std::vector<int32_t>* ids : {&out.prefix, &out.suffix}) {
    for (const int32_t id : *ids)
      SXT_CHECK(id < limit, Data, name, ": post_processor uses id ", id, ", the vocabulary has ",
                limit);
  }
  return out;
}

}  // namespace sextant
