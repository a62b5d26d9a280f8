#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/parse.h"
#include "support/built.h"
#include "support/run_program.h"
#include "support/temp_dir.h"

namespace sextant {

using Arguments = std::vector<std::string>;

inline Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// `sextant` as a user or script meets it, in a directory of its own.
class CliTest : public testing::Test {
 protected:
  RunSettings settings() const {
    RunSettings made;
    made.directory = dir_.path();
    return made;
  }
  static Arguments command(const Arguments& arguments) {
    return Arguments{sextant_program()} + arguments;
  }
  Ran run(const Arguments& arguments) { return run(arguments, settings()); }
  Ran run(const Arguments& arguments, const RunSettings& settings) {
    return Running(command(arguments), settings).finish();
  }
  // The document of --json: one line on stdout and nothing else, exit code `code`.
  nlohmann::json json(const Arguments& arguments, int code = 0) {
    const Ran ran = run(arguments + Arguments{"--json"});
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
    EXPECT_TRUE(ran.out.ends_with('\n'));
    const nlohmann::json document = nlohmann::json::parse(ran.out, nullptr, false);
    EXPECT_TRUE(document.is_object()) << ran.out;
    return document;
  }
  // Refused: this exit code, nothing on stdout, one line on stderr with all of `parts` in it.
  void refused(const Arguments& arguments, int code, const std::vector<std::string>& parts) {
    const Ran ran = run(arguments);
    const std::string what = join(arguments, " ") + "\n" + ran.err;
    EXPECT_EQ(ran.code, code) << what;
    EXPECT_EQ(ran.out, "") << what;
    EXPECT_TRUE(ran.err.starts_with("error: ")) << what;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << what;
    for (const std::string& part : parts)
      EXPECT_NE(ran.err.find(part), std::string::npos) << "no '" << part << "' in: " << what;
  }

  std::string read(const std::string& name) const {
    std::ifstream file(dir_ / name, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return name;
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(dir_ / name); }
  std::vector<std::string> lines(const std::string& name) const {
    std::vector<std::string> all = split(read(name), '\n');
    if (!all.empty() && all.back().empty()) all.pop_back();
    return all;
  }
  // What metrics.jsonl says apart from times: step, loss, gradient norm, learning rate, as text.
  std::vector<std::string> results(const std::string& out) const {
    std::vector<std::string> all = lines(out + "/metrics.jsonl");
    for (std::string& line : all) line.resize(line.find(",\"tokens_per_s\""));
    return all;
  }

  // A model that trains in milliseconds.
  static Arguments tiny(const std::string& out, int steps = 4) {
    return {"--model.layers=1",
            "--model.hidden=16",
            "--model.heads=2",
            "--model.vocab=256",
            "--model.seq=16",
            "--batch.global=2",
            "--optim.lr=0.01",
            "--run.threads=1",
            "--run.out=" + out,
            "--train.log_every=1",
            "--train.steps=" + std::to_string(steps)};
  }

  TempDir dir_;
};

}  // namespace sextant
