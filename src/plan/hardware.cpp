#include "plan/hardware.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>

#include "base/embedded.h"
#include "base/error.h"
#include "base/parse.h"
#include "config/toml_text.h"
#include "sim/machine.h"

namespace sextant {

std::span<const EmbeddedFile> files_of_hardware();

namespace {

constexpr std::pair<const char*, GpuGeneration> kGenerations[] = {
    {"cpu", GpuGeneration::Cpu},
    {"tpu", GpuGeneration::Tpu},
    {"volta", GpuGeneration::Volta},
    {"ampere", GpuGeneration::Ampere},
    {"ada", GpuGeneration::Ada},
    {"hopper", GpuGeneration::Hopper},
    {"blackwell", GpuGeneration::Blackwell},
    {"cdna3", GpuGeneration::Cdna3}};

// A number of a file: where it goes, in which unit, and its range there.
struct Field {
  const char* key;
  double unit;
  double least, most;
  std::function<void(Hardware&, double)> set;
};

template <class Member>
Field number(const char* key, double unit, double least, double most, Member member) {
  return {key, unit, least, most, [member](Hardware& out, double value) {
            out.*member = static_cast<std::remove_reference_t<decltype(out.*member)>>(value);
          }};
}

// Marketing gigabytes of GPU memory are binary ones: 80 GB are 80 GiB.
const std::vector<Field>& fields() {
  using H = Hardware;
  static const std::vector<Field> kFields = {
      number("gpu.bf16", 1e12, 0, 1e6, &H::bf16),
      number("gpu.fp16", 1e12, 0, 1e6, &H::fp16),
      number("gpu.fp8", 1e12, 0, 1e6, &H::fp8),
      number("gpu.fp4", 1e12, 0, 1e6, &H::fp4),
      number("gpu.tf32", 1e12, 0, 1e6, &H::tf32),
      number("gpu.fp32", 1e12, 0, 1e6, &H::fp32),
      number("gpu.gemm_ceiling", 1, 0.05, 1, &H::gemm_ceiling),
      number("gpu.gemm_ceiling_fp8", 1, 0, 1, &H::gemm_ceiling_fp8),
      number("gpu.memory_gb", kGiB, 0.1, 1e5, &H::memory),
      number("gpu.memory_tb_s", 1e12, 1e-3, 1e3, &H::memory_rate),
      number("gpu.l2_mb", 1e6, 0, 1e5, &H::l2),
      number("gpu.l1_kb", 1e3, 0, 1e5, &H::l1),
      number("gpu.memory_cycles", 1, 0, 1e5, &H::memory_cycles),
      number("gpu.l2_cycles", 1, 0, 1e5, &H::l2_cycles),
      number("gpu.l1_cycles", 1, 0, 1e5, &H::l1_cycles),
      number("gpu.sms", 1, 0, 1e5, &H::sms),
      number("gpu.power_w", 1, 1, 1e5, &H::power),
      number("gpu.design_power_w", 1, 1, 1e5, &H::design_power),
      number("node.gpus", 1, 1, 1024, &H::node_gpus),
      number("node.domain", 1, 1, 1e6, &H::domain),
      number("node.taper", 1, 1, 1000, &H::taper),
      number("node.torus", 1, 0, 3, &H::torus),
      number("node.link_gb_s", 1e9, 1e-3, 1e5, &H::link),
      number("node.host_gb_s", 1e9, 1e-3, 1e5, &H::host),
      number("network.nic_gb_s", 1e9, 1e-4, 1e5, &H::nic),
      number("network.leaf_domains", 1, 1, 1e6, &H::leaf),
      number("network.oversubscribed", 1, 1, 1000, &H::oversubscribed),
      number("network.static_routes", 1, 0, 1, &H::static_routes),
  };
  return kFields;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names = {"schema",     "name",      "aliases",
                                    "generation", "validated", "extends"};
  for (const Field& field : fields()) names.emplace_back(field.key);
  return names;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

const std::string& text_of(const TomlEntry& entry, const std::string& origin) {
  const std::string* text = entry.value ? std::get_if<std::string>(&*entry.value) : nullptr;
  SXT_CHECK(text != nullptr && !text->empty(), Config, origin, ": ", entry.key, " is ", entry.kind,
            ", it takes text");
  return *text;
}

double number_of(const TomlEntry& entry, const Field& field, const std::string& origin) {
  double value = NAN;
  if (entry.value) {
    if (const auto* whole = std::get_if<int64_t>(&*entry.value))
      value = static_cast<double>(*whole);
    else if (const auto* real = std::get_if<double>(&*entry.value))
      value = *real;
  }
  SXT_CHECK(value >= field.least && value <= field.most, Config, origin, ": ", entry.key, " is ",
            entry.value ? to_short_text(*entry.value) : entry.kind, ", it takes a number from ",
            field.least, " to ", field.most);
  return value * field.unit;
}

void read_text_entry(Hardware& out, const TomlEntry& entry, const std::string& origin) {
  if (entry.key == "name") {
    out.name = text_of(entry, origin);
  } else if (entry.key == "aliases") {
    out.aliases.clear();
    for (std::string alias : split(text_of(entry, origin), ',')) {
      alias.erase(0, alias.find_first_not_of(' '));
      out.aliases.push_back(alias);
    }
  } else if (entry.key == "generation") {
    const std::string& text = text_of(entry, origin);
    const auto* found =
        std::ranges::find_if(kGenerations, [&](const auto& pair) { return text == pair.first; });
    SXT_CHECK(found != std::end(kGenerations), Config, origin, ": generation is '", text,
              "', it takes cpu, tpu, volta, ampere, ada, hopper, blackwell or cdna3");
    out.generation = found->second;
  } else if (entry.key == "validated") {
    const bool* flag = entry.value ? std::get_if<bool>(&*entry.value) : nullptr;
    SXT_CHECK(flag != nullptr, Config, origin, ": validated is ", entry.kind,
              ", it takes true or false");
    out.validated = *flag;
  } else {
    const std::vector<std::string> names = key_names();
    SXT_FAIL(Config, origin, ": unknown key '", entry.key, "'", did_you_mean(entry.key, names));
  }
}

const EmbeddedFile* embedded(std::string_view name) {
  for (const EmbeddedFile& file : files_of_hardware())
    if (file.name == name) return &file;
  return nullptr;
}

void check(const Hardware& out, const std::string& name) {
  SXT_CHECK(!out.name.empty(), Config, name, ": name is missing");
  SXT_CHECK(half_peak(out) > 0, Config, name, ": gpu.bf16 and gpu.fp16 are missing or 0");
  SXT_CHECK(out.memory > 0 && out.memory_rate > 0, Config, name,
            ": gpu.memory_gb or gpu.memory_tb_s is missing");
  SXT_CHECK(out.link > 0 && out.nic > 0, Config, name,
            ": node.link_gb_s or network.nic_gb_s is missing");
}

// Letters and the first digits: "h100" of "H100-PCIe-80GB".
std::string stem_of(std::string_view name) {
  const std::string text = lower(name);
  size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
  return text.substr(0, end);
}

}  // namespace

bool has_switch_sums(const Hardware& hardware) {
  return hardware.generation >= GpuGeneration::Hopper && hardware.torus == 0 &&
         hardware.link > 1.5e11;
}

double half_peak(const Hardware& hardware) {
  return hardware.bf16 > 0 ? hardware.bf16 : hardware.fp16;
}

double ridge_point(const Hardware& hardware) {
  return half_peak(hardware) / hardware.memory_rate;
}

Hardware parse_hardware(const std::string& text, const std::string& name) {
  Hardware out;
  const std::vector<TomlEntry> entries = read_toml(text, name);
  for (const TomlEntry& entry : entries) {
    if (entry.key != "extends") continue;
    const std::string& base = text_of(entry, concat(name, ":", entry.line));
    const EmbeddedFile* file = embedded(base);
    SXT_CHECK(file != nullptr, Config, name, ":", entry.line, ": extends '", base,
              "', which is no built-in GPU");
    out = parse_hardware(std::string(file->text), base);
  }
  for (const TomlEntry& entry : entries) {
    const std::string origin = concat(name, ":", entry.line);
    if (entry.key == "extends" || is_machine_key(entry.key)) continue;
    if (entry.key == "schema") {
      SXT_CHECK(entry.value == Value(int64_t{1}), Config, origin, ": schema is ",
                entry.value ? to_short_text(*entry.value) : entry.kind, ", this build reads 1");
      continue;
    }
    const auto field =
        std::ranges::find_if(fields(), [&](const Field& known) { return entry.key == known.key; });
    if (field == fields().end())
      read_text_entry(out, entry, origin);
    else
      field->set(out, number_of(entry, *field, origin));
  }
  if (out.design_power == 0) out.design_power = out.power;
  if (has_machine(text, name)) parse_machine(text, name);  // checks what others read
  check(out, name);
  return out;
}

std::vector<Hardware> known_hardware() {
  std::vector<Hardware> all;
  for (const EmbeddedFile& file : files_of_hardware())
    all.push_back(parse_hardware(std::string(file.text), std::string(file.name)));
  return all;
}

Hardware find_hardware(Storage& storage, std::string_view name) {
  if (name.ends_with(".toml"))
    return parse_hardware(read_text(storage, std::string(name)), std::string(name));
  const std::string wanted = lower(name.substr(0, name.find(" (")));
  std::vector<std::string> names;
  const Hardware* near = nullptr;
  static const std::vector<Hardware> kKnown = known_hardware();
  for (const Hardware& known : kKnown) {
    names.push_back(lower(known.name));
    for (const std::string& alias : known.aliases) names.push_back(lower(alias));
    if (lower(known.name) == wanted ||
        std::ranges::any_of(known.aliases,
                            [&](const std::string& alias) { return lower(alias) == wanted; }))
      return known;
    // The plain part of a family stands for it: "H100" rather than a variant.
    const bool plain = std::ranges::any_of(
        known.aliases, [&](const std::string& alias) { return lower(alias) == stem_of(wanted); });
    if (plain || (near == nullptr && stem_of(known.name) == stem_of(wanted))) near = &known;
  }
  if (near == nullptr)
    SXT_FAIL(Config, "no GPU is called '", name,
             "'; a file that describes one is given by its path, which ends in .toml",
             did_you_mean(wanted, names));
  Hardware out = *near;
  out.assumed.push_back(concat("gpu: '", name, "' is not known, taken for ", near->name));
  return out;
}

Cluster parse_cluster(Storage& storage, std::string_view text) {
  const size_t cross = text.find_first_of("xX");
  std::optional<int64_t> count;
  if (cross != std::string_view::npos) count = parse_int(text.substr(0, cross));
  if (count) {
    SXT_CHECK(*count >= 1 && *count <= (1 << 20), Config, "cluster '", text, "' has ", *count,
              " GPUs, it takes 1 to ", 1 << 20);
    return {find_hardware(storage, text.substr(cross + 1)), *count};
  }
  SXT_CHECK(!text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])), Config,
            "cluster '", text, "' is no cluster, it takes COUNTxGPU, such as 64xH100");
  Hardware hardware = find_hardware(storage, text);
  SXT_CHECK(hardware.assumed.empty(), Config, "cluster '", text,
            "' is no GPU that is known, it takes COUNTxGPU, such as 64xH100");
  return {hardware, hardware.domain};
}

}  // namespace sextant
