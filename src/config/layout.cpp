#include <algorithm>

#include "base/error.h"
#include "base/parse.h"
#include "config/check.h"
#include "config/keys.h"

namespace sextant {

ParallelConfig parse_layout(const Config& config, const std::string& text,
                            const std::string& origin) {
  ResolvedConfig out;
  out.config = config;
  out.config.parallel = {};
  Settings settings;
  for (const std::string& part : split(text, ',')) {
    const size_t equal = std::min(part.find('='), part.size());
    const Key* key = find_key("parallel." + part.substr(0, equal));
    SXT_CHECK(key != nullptr && equal < part.size(), Usage, origin, " ", text, ": ", part,
              " is not a key of [parallel] and its value, such as dp=4 or shard=4,zero=1");
    const Value value = parse_value(*key, part.substr(equal + 1));
    const std::string problem = key->set(out.config, value);
    SXT_CHECK(problem.empty(), Usage, origin, " ", text, ": ", bad_value(*key, value, problem));
    settings.set(key->name, {value, concat(origin, " ", text)});
  }
  resolve_parallel(out, settings);
  for (const Key& key : config_keys())
    SXT_CHECK(!settings.has(key.name) || key.applies(out.config), Usage, origin, " ", text, ": ",
              key.name, " needs ", key.when);
  return out.config.parallel;
}

}  // namespace sextant
